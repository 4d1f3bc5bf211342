"""Queries in folds: train on all but one, test on that one, until each query was tested. It knows no model.

Several queries may have a passage in common across folds: a test collection's passages are known to all of them, its
judgements are not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

from ... import UsageError
from .examples import Queries, TooFewExamples

FOLDS = 5


def folds(keys: Sequence[str], count: int = FOLDS, seed: int = 0) -> list[list[str]]:
    """Different keys in `count` folds of as equal a size as can be, in an order that `seed` decides.

    Raises
    ------
    TooFewExamples
        There are fewer keys than folds.
    slotrag.UsageError
        Fewer than two folds.

    Examples
    --------
    >>> [len(fold) for fold in folds(["a", "b", "c", "d", "e", "a"], count=2)]
    [3, 2]
    """
    if count < 2:
        raise UsageError(f"There are at least two folds, not {count}.")
    order = sorted(set(keys), key=lambda key: hashlib.sha256(json.dumps([seed, key]).encode()).digest())
    if len(order) < count:
        raise TooFewExamples(f"There are {len(order)} different queries and {count} folds; give more, or fewer folds.")
    return [order[number::count] for number in range(count)]


def query_folds(queries: Queries, count: int = FOLDS, seed: int = 0) -> Iterator[tuple[Queries, Queries]]:
    """For each fold, what to train on (the other folds' queries) and what to test on (its own)."""
    for fold in folds(queries.queries, count, seed):
        tested = set(fold)
        rows = range(len(queries))
        yield (
            queries.chosen([row for row in rows if queries.queries[row] not in tested]),
            queries.chosen([row for row in rows if queries.queries[row] in tested]),
        )
