"""Fusing the dense and the lexical side of a search into one list. It knows no passage.

Reciprocal rank fusion: Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual
Rank Learning Methods", SIGIR 2009; here each reciprocal rank is scaled by the score.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .. import UsageError

Id = TypeVar("Id", bound=Hashable)

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """How the dense and the lexical side of a hybrid search are fused.

    Attributes
    ----------
    constant : float
        Added to every rank, not negative; the larger, the less ranks count beside scores.
    dense_weight, lexical_weight : float
        Factor of each side; where they sum to 1, so does the score of a passage that is first on both sides.
    depth : int
        Candidates that each side gives.
    """

    constant: float = 500.0
    dense_weight: float = 0.6
    lexical_weight: float = 0.4
    depth: int = 100

    def __post_init__(self) -> None:
        if self.constant < 0:
            raise UsageError("The fusion constant cannot be negative.")

    @property
    def weights(self) -> tuple[float, float]:
        """Weights in the order (dense, lexical)."""
        return self.dense_weight, self.lexical_weight


HYBRID = FusionSettings()
"""The setting that searches use. Of those tried it is the furthest above the better side on the worst of Cranfield,
CISI, XQuAD (minilm-l6) and KorQuAD (e5-small), by nDCG@10 on every other query; the other queries agree."""

BETWEEN_COLLECTIONS = 60.0
"""The constant with which the results of several collections are fused."""


def fuse_sides(
    dense: Sequence[tuple[Id, float]], lexical: Sequence[tuple[Id, float]], settings: FusionSettings = HYBRID
) -> list[tuple[Id, float]]:
    """The two sides of a hybrid search in one list, best first.

    An id's fused score is the sum over the sides that found it of
    ``weight * share * (constant + 1) / (constant + rank)``, ranks from 1 and equal for equal scores, so that the order
    in which files were indexed does not count, where its share is its score on that side over the side's best, at
    least 0. (Plain reciprocal ranks count a side's
    tenth hit nearly as much as its first even where its score is far lower; with a dense side much weaker than the
    lexical one that makes the fused list worse than the better side.) Equal scores keep the order of first appearance,
    dense first.

    Parameters
    ----------
    dense, lexical : (id, score) pairs, best first and without repeats
        A side whose best score is not above 0 counts by ranks alone.

    Examples
    --------
    >>> fused = fuse_sides([("a", 0.8), ("b", 0.7)], [("b", 9.0), ("c", 3.0)])
    >>> [identifier for identifier, _ in fused]
    ['b', 'a', 'c']
    """
    scores: dict[Id, float] = {}
    for side, weight in zip((dense, lexical), settings.weights, strict=True):
        for identifier, share in side_shares(side, weight, settings.constant).items():
            scores[identifier] = scores.get(identifier, 0.0) + share
    return sorted(scores.items(), key=lambda item: -item[1])


def side_shares(side: Sequence[tuple[Id, float]], weight: float, constant: float) -> dict[Id, float]:
    """What one side gives to the fused score of each id that it found, see `fuse_sides`.

    Examples
    --------
    >>> side_shares([("b", 9.0), ("c", 3.0)], weight=1.0, constant=1.0)
    {'b': 1.0, 'c': 0.2222222222222222}
    """
    best = side[0][1] if side else 0.0
    return {
        identifier: weight * (max(score, 0.0) / best if best > 0 else 1.0) * (constant + 1) / (constant + rank)
        for rank, (identifier, score) in zip(_ranks([score for _, score in side]), side, strict=True)
    }


def _ranks(scores: Sequence[float]) -> Iterator[int]:
    """Ranks from 1 of scores that descend; those equal but for rounding have the rank of the first of them."""
    first, rank = 0.0, 0
    for place, score in enumerate(scores, start=1):
        if place == 1 or not math.isclose(score, first, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
            first, rank = score, place
        yield rank
