"""A long text in the pieces that GenEOL varies one by one. It knows no model: tokens are counted by a function."""

from __future__ import annotations

import re
from collections.abc import Callable

STRATEGIES = ("whole", "sentences", "window", "summarise")

_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])[)\]}\"'”’」』]*(?:\s+|(?<=[。！？]))|\n+")
_LEAST_WORDS = 3


def pieces(text: str, strategy: str, window: int, token_offsets: Callable[[str], list[tuple[int, int]]]) -> list[str]:
    """The pieces of `text`, at least one; only ``sentences`` and ``window`` take it apart.

    Parameters
    ----------
    window : int
        Tokens of a piece; it ends at a word's end.
    """
    if strategy == "sentences":
        found = sentences(text)
    elif strategy == "window":
        found = windows(text, window, token_offsets(text))
    else:
        found = []
    return found if len(found) > 1 else [text]


def sentences(text: str) -> list[str]:
    """The sentences of `text`; what is too short to vary stands with its neighbour.

    Examples
    --------
    >>> sentences("The wing bends under load. Why? Dr. Kim measured it in 1958.")
    ['The wing bends under load. Why? Dr.', 'Kim measured it in 1958.']
    """
    found: list[str] = []
    start = 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
        piece = text[start:end].strip()
        start = end
        if not piece:
            continue
        if found and (len(piece.split()) < _LEAST_WORDS or len(found[-1].split()) < _LEAST_WORDS):
            found[-1] += " " + piece
        else:
            found.append(piece)
    return found


def windows(text: str, size: int, spans: list[tuple[int, int]]) -> list[str]:
    """`text` in pieces of `size` tokens, one after the other, a word never cut."""
    found: list[str] = []
    start = first = 0
    while first < len(spans):
        last = min(first + size, len(spans))
        # A token that begins where the one before ends is the rest of a word, unless white space is part of tokens.
        while last < len(spans) and not _word_begins(text, spans[last][0]):
            last += 1
        end = spans[last][0] if last < len(spans) else len(text)
        if piece := text[start:end].strip():
            found.append(piece)
        start, first = end, last
    return found


def _word_begins(text: str, place: int) -> bool:
    return text[place : place + 1].isspace() or text[place - 1 : place].isspace()
