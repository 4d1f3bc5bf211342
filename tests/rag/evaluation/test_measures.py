"""The measures against figures computed by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.rag.evaluation.measures import MEASURES, mean_scores


def discount(rank: int) -> float:
    return 1 / math.log2(rank + 1)


def test_gain_is_linear_and_negative_judgements_are_not_relevant() -> None:
    judgements = {"q": {"a": 4, "b": 1, "c": -1}}
    scores = mean_scores(judgements, {"q": ["c", "b", "x", "a"]})
    ideal = 4 * discount(1) + 1 * discount(2)
    assert scores["ndcg@10"] == pytest.approx((1 * discount(2) + 4 * discount(4)) / ideal)
    assert scores["recall@1"] == 0
    assert scores["recall@5"] == 1
    assert scores["mrr@10"] == pytest.approx(1 / 2)


def test_only_the_first_places_count() -> None:
    others = [f"x{n}" for n in range(10)]
    scores = mean_scores({"q": {"a": 1, "b": 1}}, {"q": [others[0], "a", *others[1:], "b"]})
    assert scores["recall@1"] == 0
    assert scores["recall@10"] == 0.5
    assert scores["recall@100"] == 1
    assert scores["ndcg@10"] == pytest.approx(discount(2) / (discount(1) + discount(2)))
    late = mean_scores({"q": {"b": 1}}, {"q": [*others, "b"]})
    assert (late["mrr@10"], late["ndcg@10"], late["recall@100"]) == (0, 0, 1)


def test_queries_without_a_ranking_or_with_an_empty_one_count_as_nothing_found() -> None:
    judgements = {"q": {"a": 1}, "r": {"a": 1}, "s": {"a": 1}, "t": {"a": 1}}
    scores = mean_scores(judgements, {"q": ["a"], "r": []})
    assert set(scores.values()) == {0.25}


def test_the_order_decides_whatever_the_ids_are() -> None:
    first = mean_scores({"q": {"z": 1}}, {"q": ["z", "a"]})
    second = mean_scores({"q": {"a": 1}}, {"q": ["a", "z"]})
    assert first == second
    assert list(first) == list(MEASURES)


@given(st.permutations(list(range(12))), st.sets(st.integers(0, 11), min_size=1))
def test_agrees_with_the_definitions(order: list[int], relevant: set[int]) -> None:
    scores = mean_scores({"q": {str(n): 1 for n in relevant}}, {"q": [str(n) for n in order]})
    hits = [rank for rank, document in enumerate(order, start=1) if document in relevant]
    for k in (1, 5, 10, 100):
        assert scores[f"recall@{k}"] == pytest.approx(sum(rank <= k for rank in hits) / len(relevant))
    assert scores["mrr@10"] == pytest.approx(1 / hits[0] if hits[0] <= 10 else 0)
    ideal = sum(discount(rank) for rank in range(1, min(len(relevant), 10) + 1))
    assert scores["ndcg@10"] == pytest.approx(sum(discount(rank) for rank in hits if rank <= 10) / ideal)
