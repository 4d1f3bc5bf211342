"""The noise level of a collection: the cosine that questions which do not concern it still reach. It knows no SQL.

What random pairs of passages reach says little about questions: in a folder about one subject most passages lie closer
to each other than any question lies to its answer. So the collection is asked everyday questions (`probes`), and the
level stands two and a half robust standard deviations above the median of the best cosine that each of them finds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import probes

DEVIATIONS = 2.5
"""Robust standard deviations between the median and the noise level."""

_TO_STANDARD_DEVIATION = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


def questions(language: str) -> tuple[str, ...]:
    """The questions to put to a collection that is mostly in `language`."""
    return probes.KOREAN if language == "ko" else probes.ENGLISH


def noise_level(best: Sequence[float]) -> float | None:
    """The level above which a cosine means something; None without any.

    Parameters
    ----------
    best : sequence of float
        For each unrelated question the cosine of the passage closest to it.

    Examples
    --------
    >>> round(noise_level([0.1, 0.2, 0.3, 0.2, 0.2]), 3)
    0.2
    >>> round(noise_level([0.1, 0.2, 0.3, 0.4, 0.9]), 3)
    0.671
    """
    if not len(best):
        return None
    values = np.asarray(best, dtype=np.float64)
    middle = np.median(values)
    return float(middle + DEVIATIONS * _TO_STANDARD_DEVIATION * np.median(np.abs(values - middle)))
