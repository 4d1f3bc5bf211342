"""Packs units into passages: as few as fit, ended where a reader would end them. It knows numbers, no text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PIECE_COST = 1000.0
"""Of one passage; larger than every sum of penalties in reach, so that the fewest passages win."""

GLUE_COST = 20.0
"""Of ending a passage between a heading and what follows it."""

IMBALANCE_COST = 0.5
"""Of an empty passage; a full one costs nothing. It grows with the square, so that passages get like sizes."""


@dataclass(slots=True)
class Unit:
    """What is not cut unless it alone exceeds the limit: a sentence, a line, a heading.

    Attributes
    ----------
    start, end : int
        Characters ``[start, end)`` of the text.
    first_token, last_token : int
        Its tokens are ``[first_token, last_token)`` of the text's.
    block : int
        Number of its block within the section.
    penalty : float
        Cost of ending a passage before it: 0 at a block's start, up to 1 inside a sentence.
    glued : bool
        It follows a heading.
    """

    start: int
    end: int
    first_token: int
    last_token: int
    block: int
    penalty: float
    glued: bool = False


def pack(units: Sequence[Unit], limit: int, characters: int) -> list[Sequence[Unit]]:
    """Group neighbouring units so that each group has at most `limit` tokens and `characters` characters.

    Exact minimum of the number of groups, then of penalties and imbalance, by dynamic programming over the last group.
    A unit that exceeds the limit alone gets a group of its own.
    """
    if not units:
        return []
    if len(units) == 1 or _fits(units, 0, len(units) - 1, limit, characters):
        return [units]
    best = [0.0] + [float("inf")] * len(units)
    last_start = [0] * (len(units) + 1)
    for stop in range(1, len(units) + 1):
        last = units[stop - 1]
        for start in range(stop - 1, -1, -1):
            first = units[start]
            tokens = last.last_token - first.first_token
            if start < stop - 1 and (tokens > limit or last.end - first.start > characters or stop - start > limit + 1):
                break
            room = 1.0 - tokens / limit
            cost = best[start] + PIECE_COST + IMBALANCE_COST * room * room
            if start:
                cost += GLUE_COST if first.glued else first.penalty
            if cost < best[stop]:
                best[stop] = cost
                last_start[stop] = start
    groups: list[Sequence[Unit]] = []
    stop = len(units)
    while stop:
        groups.append(units[last_start[stop] : stop])
        stop = last_start[stop]
    return groups[::-1]


def _fits(units: Sequence[Unit], first: int, last: int, limit: int, characters: int) -> bool:
    tokens = units[last].last_token - units[first].first_token
    return tokens <= limit and units[last].end - units[first].start <= characters
