"""The losses, against the same written out in plain numpy loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from slotrag.encoders.training import losses
from slotrag.encoders.training.examples import Queries
from slotrag.encoders.training.settings import TrainingSettings
from slotrag.encoders.training.tasks import Retrieval


def units(count: int, width: int = 8, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, width))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def info_nce(queries, passages, targets, blocked, scale) -> float:
    """The mean over queries of -log(exp(own) / sum(exp(own), exp(wrong)...)), in float64."""
    total = 0.0
    for row, query in enumerate(queries.astype(np.float64)):
        own = math.exp(scale * float(query @ passages[targets[row]]))
        others = sum(
            math.exp(scale * float(query @ passage))
            for place, passage in enumerate(passages.astype(np.float64))
            if place != targets[row] and not blocked[row, place]
        )
        total -= math.log(own / (own + others))
    return total / len(queries)


def test_retrieval_is_info_nce():
    queries, passages = units(6), units(9, seed=1)
    targets = np.array([0, 1, 2, 3, 4, 4])
    blocked = np.random.default_rng(2).random((6, 9)) < 0.3
    found = losses.retrieval(*map(torch.from_numpy, (queries, passages, targets, blocked)), scale=20.0)
    assert float(found) == pytest.approx(info_nce(queries, passages, targets, blocked, 20.0), rel=1e-5)


def test_a_query_alone_with_its_passage_has_nothing_to_lose():
    one = torch.from_numpy(units(1))
    loss = losses.retrieval(one, one, torch.tensor([0]), torch.zeros((1, 1), dtype=torch.bool), scale=20.0)
    assert float(loss) == 0.0


def test_pairs_is_the_squared_difference_of_cosine_and_score():
    first, second, scores = units(5), units(5, seed=1), np.linspace(0, 1, 5).astype(np.float32)
    expected = np.mean(((first * second).sum(axis=1) - scores) ** 2)
    found = losses.pairs(*map(torch.from_numpy, (first, second, scores)))
    assert float(found) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("scores", [[0.0, 1.0, 1.0, 2.5, 5.0], [0.0, 1.0, 0.0, 1.0, 0.0], [3.0] * 5])
def test_ranking_is_the_log_of_what_stands_in_the_wrong_order(scores):
    first, second = units(5), units(5, seed=1)
    cosines = (first.astype(np.float64) * second).sum(axis=1)
    wrong = sum(
        math.exp(20.0 * (cosines[low] - cosines[high]))
        for low in range(5)
        for high in range(5)
        if scores[low] < scores[high]
    )
    found = losses.ranking(torch.from_numpy(first), torch.from_numpy(second), torch.tensor(scores), scale=20.0)
    assert float(found) == pytest.approx(math.log(1.0 + wrong), rel=1e-5, abs=1e-6)


def test_ranking_does_not_see_what_all_vectors_share():
    """A common direction halves every difference of cosines and moves their mean; the squared difference follows."""
    first, second, scores = torch.from_numpy(units(6)), torch.from_numpy(units(6, seed=1)), torch.linspace(0, 1, 6)
    shared = [torch.cat([rows, torch.ones(6, 1)], dim=1) / math.sqrt(2) for rows in (first, second)]
    one, other = losses.ranking(first, second, scores, scale=10.0), losses.ranking(*shared, scores, scale=20.0)
    assert float(one) == pytest.approx(float(other), rel=1e-5)
    assert float(losses.pairs(first, second, scores)) != pytest.approx(float(losses.pairs(*shared, scores)), rel=0.1)


def test_equal_scores_teach_nothing():
    first = torch.from_numpy(units(4)).requires_grad_()
    losses.ranking(first, torch.from_numpy(units(4, seed=1)), torch.full((4,), 0.5), scale=20.0).backward()
    assert first.grad is not None and float(first.grad.abs().max()) == 0.0


def test_classification_is_the_cross_entropy_of_scaled_outputs():
    rows, labels = units(7), np.array([0, 1, 2, 0, 1, 2, 2])
    classifier = torch.nn.Linear(8, 3)
    outputs = 5.0 * (rows @ classifier.weight.detach().numpy().T + classifier.bias.detach().numpy())
    expected = np.mean([np.log(np.exp(row).sum()) - row[label] for row, label in zip(outputs, labels, strict=True)])
    found = losses.classification(torch.from_numpy(rows), torch.from_numpy(labels), classifier, scale=5.0)
    assert float(found.detach()) == pytest.approx(float(expected), rel=1e-5)


def test_unit_leaves_zeros():
    rows = losses.unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 0.0]]


class Given:
    """Vectors by text."""

    device = torch.device("cpu")

    class source:
        query_prefix, passage_prefix = "q", "p"

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, texts, prefix):
        self.asked.append(list(texts))
        return torch.stack([torch.from_numpy(self.of(text, prefix)) for text in texts])

    @staticmethod
    def of(text, prefix):
        return units(1, seed=sum(map(ord, prefix + text)))[0]


HELD_OUT = Queries(["held"], ["held passage"])
SETTINGS = TrainingSettings(scale=20.0, symmetric=False, candidates=10, seed=0)


def expected_loss(rows: list[tuple[str, str, list[str]]]) -> float:
    """From each query's own passage and the texts that are its wrong ones."""
    total = 0.0
    for query, positive, wrong in rows:
        vector = Given.of(query, "q").astype(np.float64)
        own = math.exp(20 * float(vector @ Given.of(positive, "p")))
        others = sum(math.exp(20 * float(vector @ Given.of(text, "p"))) for text in wrong)
        total -= math.log(own / (own + others))
    return total / len(rows)


def test_equal_texts_inside_a_batch_are_no_negatives():
    train = Queries(["a", "b", "c", "a"], ["one", "one", "two", "three"], ["wrong", "two", None, "wrong"])
    vectors = Given()
    loss = Retrieval(train, HELD_OUT, SETTINGS).loss([0, 1, 2, 3], vectors)  # pyright: ignore[reportArgumentType]
    # a has two passages, b shares one of them, and "wrong" is there twice: it counts once.
    expected = expected_loss(
        [
            ("a", "one", ["two", "wrong"]),
            ("b", "one", ["two", "three", "wrong"]),
            ("c", "two", ["one", "three", "wrong"]),
            ("a", "three", ["two", "wrong"]),
        ]
    )
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert vectors.asked == [["a", "b", "c"], ["one", "two", "three", "wrong"]]


def test_what_answers_a_query_elsewhere_or_is_the_query_is_no_negative_either():
    train = Queries(["a", "a", "b", "c"], ["one", "two", "two", "a"])
    loss = Retrieval(train, HELD_OUT, SETTINGS).loss([0, 2, 3], Given())  # pyright: ignore[reportArgumentType]
    expected = expected_loss([("a", "one", []), ("b", "two", ["one", "a"]), ("c", "a", ["one", "two"])])
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_symmetric_asks_from_passages_to_queries_too():
    train = Queries(["a", "b", "c"], ["one", "two", "two"])
    symmetric = replace(SETTINGS, symmetric=True)
    rows = [0, 1, 2]
    there = float(Retrieval(train, HELD_OUT, SETTINGS).loss(rows, Given()))  # pyright: ignore[reportArgumentType]
    both = float(Retrieval(train, HELD_OUT, symmetric).loss(rows, Given()))  # pyright: ignore[reportArgumentType]
    queries = np.stack([Given.of(text, "q") for text in "abc"])
    passages = np.stack([Given.of(text, "p") for text in ("one", "two", "two")])
    # Both b and c are asked for by "two": neither is the other's wrong one.
    blocked = np.array([[False] * 3, [False, True, True], [False, True, True]])
    back = info_nce(passages, queries, np.array([0, 1, 2]), blocked, 20.0)
    assert both == pytest.approx((there + back) / 2, rel=1e-5)
