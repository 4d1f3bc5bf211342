"""A measured value with its 95 % interval by the bootstrap (Efron 1979), in numpy. It knows no data and no measure."""

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
    """A value with its 95 % interval (percentiles of resampled items)."""

    value: float
    low: float
    high: float


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
