"""Draws what each step is trained on: windows of texts and questions about passages. It knows no tokenizer or model.

What step n draws depends on the seed and n alone, so that a run that was put down goes on with the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .... import UsageError
from .curriculum import Curriculum
from .token_store import GIVEN, MADE, REPLY, Question, TokenStore

if TYPE_CHECKING:
    from numpy.random import Generator

AUTOENCODE, CONTINUE, INSTRUCT = "autoencode", "continue", "instruct"
OBJECTIVES = (AUTOENCODE, CONTINUE, INSTRUCT)

_SHARE = 0.5
"""A source's chance is its tokens to this power: a large one does not drown the others, a small one is not worn out."""

_NARROW = 0.75
"""Contexts of one step are this share of its longest at least, so that little of a batch is padding."""

_MOST_CONTINUED = 128
_LEAST = 8
_TRIES = 50
_KIND_CHANCES = {GIVEN: 0.35, REPLY: 0.3, MADE: 0.35}
"""Questions that texts give of themselves are many; those of people and of the decoder are not to drown in them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a step.

    Attributes
    ----------
    objective : str
        ``autoencode``: the context is written down again. ``continue``: what follows it in its text. ``instruct``: a
        question about it is answered.
    rate : float
        Tokens for each slot.
    contexts : tuple of lists of int
        Token ids of the passages that are compressed, each by itself.
    target : list of int
        Token ids to be written; empty for a question.
    question, answers, kind
        Of ``instruct``; the kind is that of `Question`.
    """

    objective: str
    rate: float
    contexts: tuple[list[int], ...]
    target: list[int]
    question: str = ""
    answers: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is drawn.

    Attributes
    ----------
    mix : mapping of str to float
        Shares of the objectives; those that are missing are not trained.
    rates, lengths : Curriculum
    batch_tokens : int
        Context tokens of a step, about.
    passages : int
        Passages of a question at most, its own among them.
    seed : int
    """

    mix: Mapping[str, float]
    rates: Curriculum[float]
    lengths: Curriculum[tuple[int, int]]
    batch_tokens: int = 512
    passages: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        shares = list(self.mix.values())
        if set(self.mix) - set(OBJECTIVES) or not shares or min(shares) < 0 or not 0 < sum(shares) < float("inf"):
            raise UsageError(f"The mix gives shares from 0 on to some of {', '.join(OBJECTIVES)}, not {self.mix!r}.")
        if self.batch_tokens < 1 or self.passages < 1 or self.seed < 0:
            raise UsageError("batch_tokens and passages are at least 1, and the seed is not negative.")


class Drawer:
    """Draws rows from a store.

    Parameters
    ----------
    store : TokenStore
    plan : Plan

    Raises
    ------
    slotrag.UsageError
        Questions are asked for and the store has none for some part.
    """

    def __init__(self, store: TokenStore, plan: Plan) -> None:
        self._store, self._plan = store, plan
        self._objectives = [name for name in OBJECTIVES if plan.mix.get(name, 0) > 0]
        total = sum(plan.mix[name] for name in self._objectives)
        self._shares = np.array([plan.mix[name] / total for name in self._objectives])
        self._train, self._held = _Part(store, held_out=False), _Part(store, held_out=True)
        asks = [part for part in (self._train, self._held) if len(part)]
        if INSTRUCT in self._objectives and not all(part.questions for part in asks):
            raise UsageError(
                "There are no questions to train on, or none that are held out: give rows with a question, more text, "
                "or a mix without instruct."
            )

    @property
    def objectives(self) -> list[str]:
        """Those that are trained."""
        return list(self._objectives)

    def step(self, number: int) -> list[Row]:
        """The rows of the step after `number` others."""
        plan = self._plan
        draw = np.random.default_rng([plan.seed, number])
        ranges, rates = plan.lengths.values(number), plan.rates.values(number)
        shortest, longest = ranges[draw.integers(len(ranges))]
        length = int(draw.integers(shortest, longest + 1))
        count = max(1, plan.batch_tokens // length)
        objectives = draw.choice(len(self._objectives), count, p=self._shares)
        first = int(draw.integers(len(rates)))
        return [
            self._row(self._train, self._objectives[which], rates[(first + place) % len(rates)], length, draw)
            for place, which in enumerate(sorted(objectives.tolist()))
        ]

    def held_out(self, objective: str, rate: float, length: int, count: int) -> list[Row]:
        """The same `count` rows of held-out texts for the same length whenever it is asked, whatever the rate."""
        draw = np.random.default_rng([0, OBJECTIVES.index(objective), length])
        return [self._row(self._held, objective, rate, length, draw) for _ in range(count)]

    def _row(self, part: _Part, objective: str, rate: float, length: int, draw: Generator) -> Row:
        if objective == INSTRUCT:
            return self._asked(part, rate, length, draw)
        if objective == AUTOENCODE:
            context = self._store.tokens(*part.window(length, draw))
            return Row(objective, rate, (context,), context)
        follows = min(length, _MOST_CONTINUED)
        text, start, stop = part.window(length + follows, draw)
        whole = self._store.tokens(text, start, stop)
        # A short text is parted in the same proportion.
        cut = max(1, len(whole) * length // (length + follows))
        return Row(objective, rate, (whole[:cut],), whole[cut:])

    def _asked(self, part: _Part, rate: float, length: int, draw: Generator) -> Row:
        # Short passages with a question are few: those of the last lengths are asked about from the beginning.
        length = max([length, *(longest for _, longest in self._plan.lengths.last)])
        asked = part.question(length, draw)
        passages = [self._passage(asked)]
        for _ in range(int(draw.integers(self._plan.passages))):
            other = part.question(length, draw)
            if other.text != asked.text:
                passages.insert(int(draw.integers(len(passages) + 1)), self._passage(other))
        return Row(INSTRUCT, rate, tuple(passages), [], asked.question, asked.answers, asked.kind)

    def _passage(self, asked: Question) -> list[int]:
        return self._store.tokens(asked.text, asked.start, asked.stop)


class _Part:
    """The texts that are trained on, or those that are held out."""

    def __init__(self, store: TokenStore, *, held_out: bool) -> None:
        self._store = store
        texts, places = store.all_starts()
        lengths = np.array([store.length(text) for text in range(len(store))])
        # A text's last words alone are no context.
        kept = (store.held_out[texts] == held_out) & (lengths[texts] - places >= _LEAST)
        self._texts, self._places = texts[kept], places[kept]
        sources = store.sources[self._texts]
        self._of_source = [np.flatnonzero(sources == source) for source in np.unique(sources)]
        sizes = np.array([len(places) for places in self._of_source], dtype=np.float64) ** _SHARE
        self._chances = sizes / max(sizes.sum(), 1.0)
        # By kind and length, so that those up to some length are the first ones.
        found = [asked for asked in store.questions() if bool(store.held_out[asked.text]) == held_out]
        self.questions = sorted(found, key=lambda asked: asked.stop - asked.start)
        kinds = [[asked for asked in self.questions if asked.kind == kind] for kind in _KIND_CHANCES]
        self._kinds = [(asked, np.array([one.stop - one.start for one in asked], dtype=np.int64)) for asked in kinds]

    def __len__(self) -> int:
        return len(self._texts)

    def window(self, length: int, draw: Generator) -> tuple[int, int, int]:
        """Text and tokens ``[start, stop)`` from a sentence's beginning, `length` long or a little shorter.

        A text that is over before that is taken only where no other was found.
        """
        best = (0, 0, 0)
        for _ in range(_TRIES):
            source = self._of_source[int(draw.choice(len(self._of_source), p=self._chances))]
            chosen = int(source[draw.integers(len(source))])
            text, start = int(self._texts[chosen]), int(self._places[chosen])
            stop = self._end(text, start, length)
            if stop - start > best[2] - best[1]:
                best = (text, start, stop)
            if stop - start >= _NARROW * length:
                break
        return best

    def _end(self, text: int, start: int, length: int) -> int:
        """The last sentence's end within `length` tokens, unless too much is lost by it."""
        stop = min(start + length, self._store.length(text))
        starts = self._store.starts(text)
        before = int(starts[np.searchsorted(starts, stop, side="right") - 1])
        return before if stop < self._store.length(text) and before - start >= _NARROW * length else stop

    def question(self, length: int, draw: Generator) -> Question:
        """A question about a passage of `length` tokens at most, or about the shortest one."""
        counts = [int(np.searchsorted(lengths, length, side="right")) for _, lengths in self._kinds]
        chances = np.array(list(_KIND_CHANCES.values())) * (np.array(counts) > 0)
        if not chances.any():
            return self.questions[0]
        kind = int(draw.choice(len(counts), p=chances / chances.sum()))
        return self._kinds[kind][0][int(draw.integers(counts[kind]))]


def context_tokens(rows: Sequence[Row]) -> int:
    """Tokens that a step compresses."""
    return sum(len(context) for row in rows for context in row.contexts)
