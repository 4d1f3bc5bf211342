"""Pearson's and Spearman's correlation in numpy. It knows no data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """Product-moment correlation of two arrays of shape (n,); not a number where one is constant.

    Examples
    --------
    >>> round(pearson([1, 2, 3], [2, 4, 7]), 4)
    0.9934
    """
    import numpy as np

    x = np.asarray(a, dtype=np.float64) - np.mean(a, dtype=np.float64)
    y = np.asarray(b, dtype=np.float64) - np.mean(b, dtype=np.float64)
    lengths = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / lengths if lengths > 0 else float("nan")


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Rank correlation of two arrays of shape (n,), equal values sharing their mean rank.

    Examples
    --------
    >>> round(spearman([1, 2, 3, 4], [10, 20, 40, 30]), 4)
    0.8
    """
    return pearson(ranks(a), ranks(b))


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, float64 of shape (n,); equal values get the mean of theirs.

    Examples
    --------
    >>> ranks([30, 10, 30, 20]).tolist()
    [3.5, 1.0, 3.5, 2.0]
    """
    import numpy as np

    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse.reshape(-1)]
