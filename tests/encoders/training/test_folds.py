"""Queries in folds."""

from __future__ import annotations

import pytest
from slotrag import UsageError
from slotrag.encoders.training.examples import Queries, TooFewExamples
from slotrag.encoders.training.folds import folds, query_folds


def test_every_query_is_tested_once_and_never_trained_on_then():
    rows = [(f"q{number % 23}", f"p{number % 7}") for number in range(60)]
    queries = Queries([query for query, _ in rows], [passage for _, passage in rows])
    tested = []
    for train, test in query_folds(queries, 5, seed=1):
        assert not set(train.queries) & set(test.queries)
        assert len(train) + len(test) == len(queries)
        tested += sorted(set(test.queries))
    assert sorted(tested) == sorted(set(queries.queries))


def test_the_seed_decides_and_the_order_does_not():
    keys = [f"q{number}" for number in range(20)]
    assert folds(keys, 4, seed=0) == folds(keys[::-1], 4, seed=0) != folds(keys, 4, seed=1)
    assert sorted(len(fold) for fold in folds(keys, 3)) == [6, 7, 7]


def test_too_few_queries_or_folds_are_refused():
    with pytest.raises(TooFewExamples, match="3 different queries and 5 folds"):
        folds(["a", "b", "c"], 5)
    with pytest.raises(UsageError, match="two folds"):
        folds(["a", "b"], 1)
