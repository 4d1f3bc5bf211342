"""Parting examples into those to train on and those held out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag import UsageError
from slotrag.encoders.training.examples import Labelled, Queries, ScoredPairs, TooFewExamples

words = st.text("abc", min_size=1, max_size=3)


def test_every_label_is_held_out_by_its_share_and_still_trained_on():
    examples = Labelled([f"text {n}" for n in range(300)], [f"label {n % 30}" for n in range(300)])
    train, held = examples.split(0.1, seed=3)
    assert len(held) == 30 and len(train) == 270
    assert {held.labels.count(label) for label in set(examples.labels)} == {1}


def test_rare_labels_give_their_share_together():
    examples = Labelled([f"text {n}" for n in range(80)], [f"label {n % 40}" for n in range(80)])
    train, held = examples.split(0.25, seed=0)
    assert len(held) == 20
    assert set(train.labels) == set(examples.labels)


@given(st.lists(st.tuples(words, words), min_size=8, max_size=60), st.integers(0, 5))
def test_no_labelled_text_is_on_both_sides(rows, seed):
    examples = Labelled([text for text, _ in rows], [label for _, label in rows])
    try:
        train, held = examples.split(0.3, seed)
    except TooFewExamples:
        return
    assert not set(train.texts) & set(held.texts)
    assert sorted([*train.texts, *held.texts]) == sorted(examples.texts)


@given(st.lists(st.tuples(words, words, words), min_size=8, max_size=60), st.integers(0, 5))
def test_no_query_and_no_positive_is_on_both_sides(rows, seed):
    examples = Queries([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])
    try:
        train, held = examples.split(0.3, seed)
    except TooFewExamples:
        return
    assert not set(train.queries) & set(held.queries)
    assert not set(train.positives) & set(held.positives)
    assert not set(train.negatives or ()) & set(held.positives)


@given(st.lists(st.tuples(words, words), min_size=8, max_size=60), st.integers(0, 5))
def test_no_text_of_a_pair_is_on_both_sides(rows, seed):
    examples = ScoredPairs([row[0] for row in rows], [row[1] for row in rows], [0.0] * len(rows))
    try:
        train, held = examples.split(0.3, seed)
    except TooFewExamples:
        return
    assert not {*train.first, *train.second} & {*held.first, *held.second}


def test_pairs_in_small_groups_are_all_used():
    # Each text stands in two pairs, once on either side.
    names = [f"text {n // 3 * 3 + n % 3}" for n in range(300)]
    others = [f"text {n // 3 * 3 + (n + 1) % 3}" for n in range(300)]
    train, held = ScoredPairs(names, others, [0.0] * 300).split(0.2, seed=1)
    assert len(held) == 60 and len(train) == 240


def test_pairs_that_all_hang_together_are_parted_by_dropping_what_is_between():
    ring = ScoredPairs([f"text {n}" for n in range(200)], [f"text {(n + 1) % 200}" for n in range(200)], [0.0] * 200)
    train, held = ring.split(0.1, seed=0)
    assert len(held) == 20
    assert 140 <= len(train) < 180 and not {*train.first, *train.second} & {*held.first, *held.second}


def test_queries_of_their_own_passages_are_all_used():
    examples = Queries([f"q{n}" for n in range(100)], [f"p{n // 2}" for n in range(100)])
    train, held = examples.split(0.2, seed=1)
    assert len(held) == 20 and len(train) == 80


def test_queries_that_share_all_passages_are_parted_by_dropping_what_is_between():
    rows = [(query, passage) for query in range(40) for passage in (query % 10, (query + 1) % 10)]
    examples = Queries([f"q{query}" for query, _ in rows], [f"p{passage}" for _, passage in rows])
    train, held = examples.split(0.1, seed=0)
    assert 0 < len(held) <= 8
    assert not set(train.positives) & set(held.positives)
    assert len(train) < len(examples) - len(held)


def test_the_seed_decides_and_the_order_does_not():
    texts = [f"text {n}" for n in range(50)]
    examples, turned = Labelled(texts, ["a"] * 50), Labelled(texts[::-1], ["a"] * 50)
    assert set(examples.split(0.2, 1)[1].texts) == set(turned.split(0.2, 1)[1].texts)
    assert set(examples.split(0.2, 1)[1].texts) != set(examples.split(0.2, 2)[1].texts)


def test_too_few_and_wrong_shares_are_refused():
    with pytest.raises(TooFewExamples, match="too few"):
        Labelled(["a"], ["x"]).split(0.5, 0)
    with pytest.raises(TooFewExamples, match="too few"):
        Queries(["a", "b"], ["p", "p"]).split(0.5, 0)
    for share in (0.0, 1.0):
        with pytest.raises(UsageError, match="above 0 and below 1"):
            Labelled(["a", "b"], ["x", "x"]).split(share, 0)
    with pytest.raises(ValueError, match="different lengths"):
        Labelled(["a"], [])


def test_the_sha256_is_that_of_the_file_or_of_the_content():
    examples = Labelled(["a", "b"], ["x", "y"], sha256="f" * 64)
    assert examples.sha256 == "f" * 64 and examples.chosen([1]).sha256 == "f" * 64
    assert Labelled(["a"], ["b"]).sha256 != Labelled(["ab"], [""]).sha256
    assert Queries(["a"], ["b"]).sha256 != Queries(["a"], ["b"], [None]).sha256
    assert len(Queries(["a"], ["b"]).sha256) == 64


def test_passages_and_what_is_relevant():
    examples = Queries(["q", "q", "r"], ["p1", "p2", "p1"], ["n", None, "p2"])
    assert examples.passages() == ["p1", "p2", "n"]
    assert examples.relevant() == {"q": {"p1", "p2"}, "r": {"p1"}}
