"""Keeping results apart from each other: near-identical passages folded, the rest spread. It knows no storage.

Maximal marginal relevance: Carbonell and Goldstein, "The use of MMR, diversity-based reranking for reordering
documents and producing summaries", SIGIR 1998.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from .. import UsageError

_NEAR_WORDS = 0.95
_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")


def spread(scores: np.ndarray, vectors: np.ndarray, k: int, diversity: float) -> list[int]:
    """Positions of `k` results, best first, that trade relevance against likeness to those before them.

    Each step takes the position with the greatest ``(1 - diversity) * relevance - diversity * (greatest cosine to
    those taken)``, relevance being the scores stretched to [0, 1].

    Parameters
    ----------
    scores : float, shape (n,)
        Descending.
    vectors : float32, shape (n, d)
        Unit rows.
    diversity : float
        From 0 (the order given) to 1.

    Raises
    ------
    slotrag.UsageError
        `diversity` outside [0, 1].
    """
    if not 0.0 <= diversity <= 1.0:
        raise UsageError(f"Diversity must lie between 0 and 1, not {diversity}.")
    count = min(k, len(scores))
    if diversity == 0.0:
        return list(range(count))
    relevance = _stretched(np.asarray(scores, dtype=np.float64))
    nearest = np.full(len(relevance), -1.0)
    left = np.ones(len(relevance), dtype=bool)
    taken: list[int] = []
    for _ in range(count):
        penalty = diversity * nearest if taken else 0.0
        gain = np.where(left, (1.0 - diversity) * relevance - penalty, -np.inf)
        best = int(np.argmax(gain))
        taken.append(best)
        left[best] = False
        nearest = np.maximum(nearest, vectors @ vectors[best])
    return taken


def _stretched(scores: np.ndarray) -> np.ndarray:
    span = scores.max() - scores.min() if len(scores) else 0.0
    return (scores - scores.min()) / span if span > 0 else np.ones_like(scores)


def fold(texts: Sequence[str]) -> list[int]:
    """For each text the position of the one that it folds into: its own, or an earlier near-identical one's.

    Two texts are near-identical when they differ in letter case, spacing and punctuation alone, or when they share 19
    of 20 words and **all their numbers are the same**: two versions of a price list are two passages.

    Examples
    --------
    >>> fold(["The fee is 100 won.", "the fee is 100 won", "The fee is 200 won."])
    [0, 0, 2]
    """
    bags = [_Bag(text) for text in texts]
    kept: list[int] = []
    into: list[int] = []
    for position in range(len(texts)):
        target = next((one for one in kept if bags[one].near(bags[position])), position)
        if target == position:
            kept.append(position)
        into.append(target)
    return into


class _Bag:
    """The words of a text: in order, counted, and the numbers among them."""

    def __init__(self, text: str) -> None:
        self.words: list[str] = _WORD.findall(text.casefold())
        self.numbers = [word for word in self.words if _DIGIT.search(word)]

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(self.words)

    def near(self, other: _Bag) -> bool:
        """Whether the two texts are near-identical."""
        if self.words == other.words:
            return bool(self.words)
        longer = max(len(self.words), len(other.words))
        if min(len(self.words), len(other.words)) < _NEAR_WORDS * longer or self.numbers != other.numbers:
            return False
        return (self.counts & other.counts).total() >= _NEAR_WORDS * longer
