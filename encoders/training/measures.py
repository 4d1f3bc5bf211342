"""Held-out measures of unit vectors: accuracy, Spearman's rank correlation, nDCG and MRR. They know no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

DEPTH = 10
"""Ranks that nDCG and MRR look at."""

_ROWS = 256


def accuracy(predicted: Sequence[object], expected: Sequence[object]) -> float:
    """Share of predictions that are right."""
    return sum(one == other for one, other in zip(predicted, expected, strict=True)) / len(expected)


def spearman(found: np.ndarray, expected: np.ndarray) -> float:
    """Rank correlation, equal values sharing their mean rank; 0.0 where one side is constant.

    Examples
    --------
    >>> spearman(np.array([0.1, 0.2, 0.9]), np.array([1.0, 3.0, 5.0]))
    1.0
    """
    one, other = _ranks(found), _ranks(expected)
    one, other = one - one.mean(), other - other.mean()
    length = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / length if length > 0 else 0.0


def ranking(
    queries: np.ndarray, passages: np.ndarray, relevant: Sequence[AbstractSet[int]], *, depth: int = DEPTH
) -> Mapping[str, np.ndarray]:
    """nDCG and reciprocal rank of each query, its relevant passages being of gain 1.

    Parameters
    ----------
    queries : float32, shape (queries, dimension), unit rows
    passages : float32, shape (passages, dimension), unit rows
    relevant : sequence of sets of int
        Rows of `passages`; at least one for each query.
    depth : int
        Ranks looked at; among equal scores the passage that stands first comes first.

    Returns
    -------
    dict
        ``ndcg`` and ``mrr``: float64, shape (queries,).
    """
    depth = min(depth, len(passages))
    discounts = 1.0 / np.log2(np.arange(2, depth + 2))
    ndcg, reciprocal = np.zeros(len(queries)), np.zeros(len(queries))
    for start in range(0, len(queries), _ROWS):
        scores = queries[start : start + _ROWS] @ passages.T
        order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
        for row, ranked in enumerate(order, start=start):
            hits = np.array([passage in relevant[row] for passage in ranked.tolist()])
            ideal = discounts[: min(len(relevant[row]), depth)].sum()
            ndcg[row] = (hits * discounts).sum() / ideal
            reciprocal[row] = 1.0 / (hits.argmax() + 1) if hits.any() else 0.0
    return {"ndcg": ndcg, "mrr": reciprocal}


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2.0)[inverse]
