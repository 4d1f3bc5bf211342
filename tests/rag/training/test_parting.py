"""Parting examples in three: no text for two things, and enough of each also where there are few."""

from __future__ import annotations

import pytest
from slotrag.encoders.training.examples import Labelled, Queries, ScoredPairs, TooFewExamples
from slotrag.rag.training.parting import LEAST_JUDGED, in_three, require_enough


def labelled(count: int) -> Labelled:
    return Labelled([f"text {n}" for n in range(count)], [f"label {n % 4}" for n in range(count)])


def scored(count: int) -> ScoredPairs:
    rows = range(count)
    return ScoredPairs([f"one {n}" for n in rows], [f"other {n}" for n in rows], [float(n % 6) for n in rows])


def asked(count: int) -> Queries:
    return Queries([f"query {n}" for n in range(count)], [f"passage {n // 2}" for n in range(count)])


def texts(examples) -> set[str]:
    if isinstance(examples, Labelled):
        return set(examples.texts)
    if isinstance(examples, ScoredPairs):
        return {*examples.first, *examples.second}
    return {*examples.queries, *examples.positives}


@pytest.mark.parametrize("make", [labelled, scored, asked])
@pytest.mark.parametrize("count", [40, 60, 1000])
def test_no_text_is_for_two_things(make, count):
    parts = in_three(make(count), 0.1, seed=3)
    found = [texts(part) for part in (parts.training, parts.watched, parts.judged)]
    assert sum(map(len, found)) == len(set().union(*found))
    assert len(parts.training) + len(parts.watched) + len(parts.judged) == count


@pytest.mark.parametrize(
    ("count", "share", "sizes"),
    [(1000, 0.1, (810, 90, 100)), (1000, 0.3, (630, 70, 300)), (60, 0.1, (34, 11, 15)), (40, 0.1, (23, 7, 10))],
)
def test_of_few_examples_a_larger_share_is_set_apart(count, share, sizes):
    parts = in_three(scored(count), share, seed=0)
    found = (len(parts.training), len(parts.watched), len(parts.judged))
    assert found == pytest.approx(sizes, abs=1)
    require_enough(parts, "pairs.csv")


def test_of_many_no_more_than_is_needed():
    parts = in_three(labelled(1000), 0.1, seed=0, most=50)
    assert (len(parts.training), len(parts.watched), len(parts.judged)) == (900, 50, 50)


def test_too_few_are_refused_with_what_would_do():
    parts = in_three(scored(30), 0.1, seed=0)
    reason = rf"30 examples of pairs\.csv only 8 .* at least {LEAST_JUDGED} .*\(40 different"
    with pytest.raises(TooFewExamples, match=reason):
        require_enough(parts, "pairs.csv")
    with pytest.raises(TooFewExamples):
        in_three(Labelled(["a", "b", "c"], ["x", "y", "z"]), 0.3, seed=0)


def test_another_seed_parts_otherwise():
    assert in_three(scored(100), 0.1, 0) == in_three(scored(100), 0.1, 0)
    assert in_three(scored(100), 0.1, 0) != in_three(scored(100), 0.1, 1)
