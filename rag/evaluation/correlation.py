"""Pearson's and Spearman's correlation and their bootstrap intervals, in numpy. It knows no data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

RESAMPLES = 1000
SEED = 42


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured value with its 95 % interval (percentile bootstrap over the items)."""

    value: float
    low: float
    high: float


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


def bootstrap(
    score: Callable[[np.ndarray], float],
    items: int,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Estimate:
    """`score` of all items with its 95 % interval.

    Parameters
    ----------
    score : callable
        Of positions, int64 of shape (n,), some of them more than once; a result that is not a number (a resample
        without any spread) is left out.
    items : int
        There are positions 0 to `items` - 1.
    report : callable
        Told (resamples done, all of them); it may raise to cancel.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    found = np.empty(resamples)
    for number in range(resamples):
        found[number] = score(generator.integers(items, size=items))
        if number % 100 == 0:
            report(number, resamples)
    found = found[np.isfinite(found)]
    value = score(np.arange(items))
    low, high = np.percentile(found, [2.5, 97.5]) if len(found) else (value, value)
    return Estimate(float(value), float(low), float(high))
