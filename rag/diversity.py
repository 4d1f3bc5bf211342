"""Keeping results apart from each other: near-identical passages folded, the rest spread. It knows no storage.

Maximal marginal relevance: Carbonell and Goldstein, "The use of MMR, diversity-based reranking for reordering
documents and producing summaries", SIGIR 1998.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from .. import UsageError

_NEAR_WORDS = 0.95
_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
_NEGATION = re.compile(
    "^(?:aint|cannot|cant|dont|except|isnt|neither|never|no|nobody|none|nor|not|nothing|nowhere|unless|wont|without|"
    "keine?|keine[mnrs]|nichts?|nie|niemals|ohne|aucune?|jamais|ne|ni|pas|rien|sans|sauf|nada|nadie|ningun[ao]|nunca|"
    "sin|non|niente|senza|mai)$|^안|[않없못]|아니|아닌|금지|불가|말[고라아]|마[세시라]"
)
_NEGATES, _MAY_NEGATE, _NAMES = 1, 2, 3
_SKETCH = 128


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


def words_of(text: str) -> list[str]:
    """The words of `text`, without case, spacing, marks and punctuation.

    Examples
    --------
    >>> words_of("# The fee:  100 won") == words_of("the fee, 100 won.")
    True
    """
    return _WORD.findall(text.casefold())


def _stretched(scores: np.ndarray) -> np.ndarray:
    span = scores.max() - scores.min() if len(scores) else 0.0
    return (scores - scores.min()) / span if span > 0 else np.ones_like(scores)


def fold(texts: Sequence[str]) -> list[int]:
    """For each text the position of the one that it folds into: its own, or an earlier near-identical one's.

    Two texts are near-identical when they differ in letter case, spacing and punctuation alone, or when they share 19
    of 20 words and **all their numbers, negations and capitalised words are the same**, in the same order: two
    versions of a price list are two passages, and so are a lease that lets you keep a dog and one that does not.

    Examples
    --------
    >>> fold(["The fee is 100 won.", "the fee is 100 won", "The fee is 200 won."])
    [0, 0, 2]
    """
    return Folding().add(texts)


class Folding:
    """Folds texts as `fold` does, in as many portions as they come.

    No two texts are compared that cannot be near-identical: they must have the same telling words and share one of
    their rarest words. (Of two bags of words of which 19 of 20 are shared, the rarest twentieth of each and one more
    have a word in common: prefix filtering, Chaudhuri, Ganti and Kaushik, "A primitive operator for similarity joins
    in data cleaning", ICDE 2006.)
    """

    def __init__(self) -> None:
        self._bags: list[Bag] = []
        self._same_words: dict[tuple[str, ...], int] = {}
        self._rarity: dict[tuple[str, int], int] = {}
        self._holders: dict[tuple[tuple[str, ...], int], list[int]] = defaultdict(list)
        self._sketches = np.zeros((0, _SKETCH), dtype=np.uint16)

    def add(self, texts: Sequence[str]) -> list[int]:
        """For each of `texts` the position that it folds into, counted from the first text ever added."""
        first = len(self._bags)
        self._bags += [Bag(text) for text in texts]
        if not first:
            self._rank_words()
        sketches = [self._bags[position].sketch for position in range(first, len(self._bags))]
        self._sketches = np.concatenate([self._sketches, np.array(sketches, dtype=np.uint16).reshape(-1, _SKETCH)])
        return [self._place(position) for position in range(first, len(self._bags))]

    def _rank_words(self) -> None:
        """Rank the words of the first portion by the number of texts that hold them; any fixed order would do."""
        held = Counter(word for bag in self._bags for word in bag.numbered)
        self._rarity = {word: rank for rank, (word, _) in enumerate(reversed(held.most_common()))}

    def _place(self, position: int) -> int:
        bag = self._bags[position]
        if not bag.words:
            return position
        keys = [(bag.telling, word) for word in self._rarest(bag)]
        same = self._same_words.get(bag.words, position)
        target = next((one for one in self._alike(position, keys) if one >= same or self._bags[one].near(bag)), same)
        target = min(target, same)
        if target == position:
            self._same_words[bag.words] = position
            for key in keys:
                self._holders[key].append(position)
        return target

    def _rarest(self, bag: Bag) -> list[int]:
        ranks = sorted([self._rarity.setdefault(word, -len(self._rarity)) for word in bag.numbered])
        return ranks[: len(ranks) - math.ceil(_NEAR_WORDS * len(ranks)) + 1]

    def _alike(self, position: int, keys: Iterable[tuple[tuple[str, ...], int]]) -> list[int]:
        """The texts kept that may be near-identical, in their order: by numpy, few are left to compare in full."""
        held = {one for key in keys for one in self._holders.get(key, ())}
        if not held:
            return []
        found = np.array(sorted(held))
        shared = np.minimum(self._sketches[found], self._sketches[position]).sum(axis=1)
        return found[shared >= _NEAR_WORDS * len(self._bags[position].words)].tolist()


class Bag:
    """The words of a text: in order, counted, and those that change what it says."""

    def __init__(self, text: str) -> None:
        written: list[str] = _WORD.findall(text)
        self.words = tuple(word.casefold() for word in written)
        self.telling = tuple(_telling(written, self.words))
        self.counts = Counter(self.words)

    @property
    def numbered(self) -> list[tuple[str, int]]:
        """Each word with the times it stood before, so that a bag becomes a set."""
        return [(word, time) for word, count in self.counts.items() for time in range(count)]

    @property
    def sketch(self) -> np.ndarray:
        """Counts of words, several words to a place: the lesser counts of two sketches sum to no less than what the
        bags share."""
        places = np.fromiter(map(hash, self.words), np.int64, len(self.words)) % _SKETCH
        return np.bincount(places, minlength=_SKETCH)

    def near(self, other: Bag) -> bool:
        """Whether the two texts are near-identical."""
        if self.words == other.words:
            return bool(self.words)
        longer = max(len(self.words), len(other.words))
        if min(len(self.words), len(other.words)) < _NEAR_WORDS * longer or self.telling != other.telling:
            return False
        return (self.counts & other.counts).total() >= _NEAR_WORDS * longer


def _telling(written: Sequence[str], words: Sequence[str]) -> Iterator[str]:
    """Numbers, capitalised words, and negations with the words around them, which they may negate."""
    for at, tells in enumerate(map(_tells, written)):
        if tells == _NEGATES or (tells == _MAY_NEGATE and at and words[at - 1].endswith("n")):
            yield " ".join(words[max(0, at - 1) : at + 3])
        elif tells == _NAMES:
            yield words[at]


@lru_cache(maxsize=100_000)
def _tells(written: str) -> int:
    """Whether a word negates or names; the ``t`` of "don't" negates after the right word."""
    word = written.casefold()
    if _NEGATION.search(word):
        return _NEGATES
    if word == "t":
        return _MAY_NEGATE
    return _NAMES if written[0].isupper() or _DIGIT.search(word) else 0
