"""Runs a backbone over what an adaptation needs, in portions, for as long as there is time and room. It trains nothing.

What an earlier run that was broken off had chosen is chosen again: its plan says how much of each that was.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..evaluation.running import Run
from .pairs import OwnPairs

if TYPE_CHECKING:
    from ...encoders.training.state_cache import StateCache

POOL_UNTIL, STATES_UNTIL, NEGATIVES_UNTIL = 0.45, 0.65, 0.75
"""Shares of the time by when each step ends."""

CHUNK = 128
_MOST_OTHERS = 1000
"""Passages among which those of the pairs are looked for, beside them."""

_FULL = 0.9
"""Share of the room at which no more is made."""


@dataclass
class Sides:
    """The pairs by what they are for, and the passages that queries are asked among."""

    training: OwnPairs
    watched: OwnPairs
    judged: OwnPairs
    pool: dict[int, str] = field(default_factory=dict)
    negatives: int = 0


@dataclass
class Portions:
    """One adaptation's states.

    Attributes
    ----------
    until : callable
        When a share of the time is over, by `time.monotonic`.
    limit_bytes : int
        Most that the states may take.
    plan : mapping or None
        What an interrupted run had chosen.
    notices : list of str
        Gets what is to be said.
    """

    cache: StateCache
    work: Run
    until: Callable[[float], float]
    limit_bytes: int
    seed: int
    plan: Mapping[str, Any] | None
    notices: list[str]

    def make(self, sides: Sides) -> None:
        """Run the backbone over what is needed and over as much more as there is time for."""
        judged, watched = sides.judged.pairs, sides.watched.pairs
        needed = [pair.query for pair in (*judged, *watched)]
        self._ensure(needed, self.cache.query_prefix, "queries")
        own = {pair.passage_id: sides.judged.passages[pair.passage_id].input for pair in judged}
        positives = [pair.positive for pair in (*judged, *watched)]
        self._ensure([*own.values(), *positives], self.cache.passage_prefix, "passages")
        sides.pool = own | self._others(sides)
        training = sides.training
        if self.plan is not None:
            training = first(training, self.plan["training"])
            self._ensure([pair.query for pair in training.pairs], self.cache.query_prefix, "queries")
            self._ensure([pair.positive for pair in training.pairs], self.cache.passage_prefix, "passages")
        else:
            training = self._as_many(training)
        sides.training = training

    def negatives(self, sides: Sides, found: Sequence[str | None]) -> list[str | None]:
        """Those of the passages found, one for each pair to train on, whose states there is time for."""
        different = list(dict.fromkeys(text for text in found if text is not None))
        if self.plan is not None:
            made = different[: self.plan["negatives"]]
            self._ensure(made, self.cache.passage_prefix, "passages")
        else:
            made = list(self._ensured(different, NEGATIVES_UNTIL))
        sides.negatives = len(made)
        there = set(made)
        return [text if text in there else None for text in found]

    def _others(self, sides: Sides) -> dict[int, str]:
        """Further passages to look among, of any document, as many as there is time for."""
        passages = sides.judged.passages
        own = {pair.passage_id for pair in sides.judged.pairs}
        seen = {passages[number].text_hash for number in own}
        order = sorted((number for number in passages if number not in own), key=lambda n: passages[n].text_hash)
        random.Random(self.seed).shuffle(order)
        others: dict[int, str] = {}
        most = _MOST_OTHERS if self.plan is None else self.plan["pool"] - len(own)
        for number in order:
            if len(others) < most and passages[number].text_hash not in seen:
                seen.add(passages[number].text_hash)
                others[number] = passages[number].input
        if self.plan is not None:
            self._ensure(list(others.values()), self.cache.passage_prefix, "passages")
            return others
        made = set(self._ensured(list(others.values()), POOL_UNTIL))
        return {number: text for number, text in others.items() if text in made}

    def _as_many(self, training: OwnPairs) -> OwnPairs:
        """The first of the pairs, as many as there are time and room for."""
        done = 0
        for at in range(0, len(training), CHUNK):
            if at and (time.monotonic() > self.until(STATES_UNTIL) or _FULL * self.limit_bytes < self.cache.bytes):
                self.notices.append(
                    f"{done:,} of {len(training):,} pairs were used: there was no more time or room for the others "
                    "(--minutes)."
                )
                break
            chunk = training.pairs[at : at + CHUNK]
            self.cache.ensure([pair.query for pair in chunk], prefix=self.cache.query_prefix, check=self.work.check)
            self.cache.ensure(
                [pair.positive for pair in chunk], prefix=self.cache.passage_prefix, check=self.work.check
            )
            done = at + len(chunk)
            self.work.report(done, len(training), "pairs", "states")
        return first(training, done)

    def _ensured(self, texts: Sequence[str], share: float) -> Iterator[str]:
        """Texts whose states are there, made in portions until `share` of the time is over."""
        different = list(dict.fromkeys(texts))
        for at in range(0, len(different), CHUNK):
            if at and (time.monotonic() > self.until(share) or _FULL * self.limit_bytes < self.cache.bytes):
                return
            chunk = different[at : at + CHUNK]
            self.cache.ensure(chunk, prefix=self.cache.passage_prefix, check=self.work.check)
            self.work.report(at + len(chunk), len(different), "passages", "states")
            yield from chunk

    def _ensure(self, texts: list[str], prefix: str, unit: str) -> None:
        self.cache.ensure(
            texts,
            prefix=prefix,
            report=lambda done, total: self.work.report(done, total, unit, "states"),
            check=self.work.check,
        )


def first(pairs: OwnPairs, most: int) -> OwnPairs:
    """The first `most` of them."""
    return pairs.with_pairs(pairs.pairs[:most])
