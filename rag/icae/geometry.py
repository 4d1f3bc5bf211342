"""Which slot stands for which tokens, and where slots and texts stand in a prompt. It knows numbers, no model.

Positions are counted from the beginning of a text; a prompt moves them to where the text stands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

_ROUNDING = 1e-9
"""12 tokens at a rate of 1.2 are 10 slots, whatever the division leaves behind the point."""


def slot_count(tokens: int, rate: float) -> int:
    """Slots for `tokens` tokens: one for every `rate` of them, rounded up, never more than tokens.

    Parameters
    ----------
    rate : float
        At least 1.

    Examples
    --------
    >>> [slot_count(tokens, 4) for tokens in (0, 1, 4, 5, 512)]
    [0, 1, 1, 2, 128]
    """
    if tokens < 0 or not 1 <= rate < math.inf:
        raise ValueError(f"{tokens} tokens at a rate of {rate}: tokens are not negative, a rate is at least 1")
    return min(tokens, math.ceil(tokens / rate - _ROUNDING))


def groups(tokens: int, slots: int) -> list[int]:
    """Boundaries of `slots` groups of neighbouring tokens whose sizes differ by at most 1.

    Group j holds the tokens from ``boundaries[j]`` up to, not including, ``boundaries[j + 1]``.

    Examples
    --------
    >>> groups(10, 4)
    [0, 2, 5, 7, 10]
    """
    if not 0 <= slots <= tokens or (tokens and not slots):
        raise ValueError(f"{tokens} tokens cannot be put into {slots} groups")
    return [place * tokens // slots for place in range(slots + 1)] if slots else [0]


def centres(boundaries: Sequence[int]) -> list[int]:
    """The position in the middle of each group, of an even number the one before the middle.

    Examples
    --------
    >>> centres([0, 2, 5, 7, 10])
    [0, 3, 5, 8]
    """
    return [(first + last - 1) // 2 for first, last in pairwise(boundaries)]


def segments(tokens: int, longest: int) -> list[slice]:
    """As few segments of a text as hold at most `longest` tokens each, all of one size but for a shorter last.

    The authors' cut (getao/icae): the last one lacks fewer tokens than there are segments.

    Examples
    --------
    >>> segments(10, 4)
    [slice(0, 4, None), slice(4, 8, None), slice(8, 10, None)]
    >>> segments(0, 4)
    []
    """
    if tokens < 0 or longest < 1:
        raise ValueError(f"{tokens} tokens cannot be cut into segments of {longest}")
    number = -(-tokens // longest)
    size = -(-tokens // number) if number else 0
    return [slice(at, min(at + size, tokens)) for at in range(0, tokens, max(size, 1))]


class Slotting(NamedTuple):
    """The slots of a batch of segments.

    Attributes
    ----------
    weights : float32, shape (batch, most slots, most tokens), or None
        Row j of a segment has 1 / (size of group j) at its tokens; None where slots have no groups.
    mask : bool, shape (batch, most slots)
        True where a slot is.
    positions : int64, shape (batch, most slots)
        In a prompt, from the segment's beginning; 0 where `mask` is False.
    """

    weights: np.ndarray | None
    mask: np.ndarray
    positions: np.ndarray


def slotting(lengths: Sequence[int], counts: Sequence[int], *, centred: bool, grouped: bool = True) -> Slotting:
    """Groups and positions of the slots of a batch.

    Parameters
    ----------
    lengths, counts : sequence of int
        Tokens and slots of each segment.
    centred : bool
        A slot stands at its group's centre; else slots are numbered from 0 on.
    grouped : bool
        Whether each slot stands for a group; `centred` needs it.
    """
    if centred and not grouped:
        raise ValueError("slots without groups have no centres")
    most_slots, most_tokens = max(counts, default=0), max(lengths, default=0)
    weights = np.zeros((len(counts), most_slots, most_tokens), dtype=np.float32) if grouped else None
    mask = np.arange(most_slots)[None] < np.asarray(counts, dtype=np.int64)[:, None]
    positions = np.zeros(mask.shape, dtype=np.int64)
    for row, (tokens, slots) in enumerate(zip(lengths, counts, strict=True)):
        positions[row, :slots] = np.arange(slots)
        if weights is None:
            continue
        boundaries = groups(tokens, slots)
        for slot, (first, last) in enumerate(pairwise(boundaries)):
            weights[row, slot, first:last] = 1.0 / (last - first)
        if centred:
            positions[row, :slots] = centres(boundaries)
    return Slotting(weights, mask, positions)


def starts(spans: Sequence[int], base: int, *, parallel: bool) -> tuple[list[int], int]:
    """Where several passages of one prompt begin, and the first position after them.

    Parameters
    ----------
    spans : sequence of int
        Positions that each passage takes up.
    base : int
        The first free position.
    parallel : bool
        All begin at `base`, and what follows stands after the longest; else one after the other.

    Examples
    --------
    >>> starts([5, 8], 3, parallel=True)
    ([3, 3], 11)
    >>> starts([5, 8], 3, parallel=False)
    ([3, 8], 16)
    """
    if parallel:
        return [base] * len(spans), base + max(spans, default=0)
    places = []
    for span in spans:
        places.append(base)
        base += span
    return places, base
