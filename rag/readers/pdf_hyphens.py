"""Words cut at a line end of a PDF: whether the hyphen belongs to the word or to the line. It knows no layout."""

from __future__ import annotations

import re
from collections.abc import Iterable

HYPHENS = "\x02\xad\ufffe"
"""PDFium's marks for a hyphen at a line end, and the soft hyphen."""

_MARKED = re.compile(rf"(?P<before>[^\s{HYPHENS}]*)[{HYPHENS}](?P<after>[^\s{HYPHENS}]*)")
_COMPOUND = re.compile(r"\w+(?:-\w+)+")
_WORD = re.compile(r"\w*")
_HAN_KANA = re.compile("[\u3000-\u30ff\u4e00-\u9fff\uff00-\uff60]")
_SUSPENDED = frozenset(("und", "oder", "bzw", "bis", "and", "or", "to"))
_LEAST_CAPITALS = 3
"""Letters of either half from which a word in capitals counts as cut: ``INTER-NATIONAL``, but ``EU-US``."""


def compounds(texts: Iterable[str]) -> frozenset[str]:
    """The words that `texts` write with a hyphen within a line, in lower case."""
    return frozenset(word.lower() for text in texts if "-" in text for word in _COMPOUND.findall(text))


def join_lines(text: str, following: str, known: frozenset[str]) -> str:
    """Two lines as one: a word cut at the line end is joined; Chinese and Japanese take no space.

    Examples
    --------
    >>> join_lines("in the month of Sep-", "tember", frozenset()), join_lines("mother-in-", "law", frozenset())
    ('in the month of September', 'mother-in-law')
    """
    if text[-1] in HYPHENS or (text[-1] == "-" and text[-2:-1].isalnum() and following[0].isalnum()):
        word = text[:-1].rsplit(maxsplit=1)[-1] if text[:-1].strip() else ""
        if text[-1] == "-" and _WORD.match(following.lower())[0] in _SUSPENDED:  # pyright: ignore[reportOptionalSubscript]
            return f"{text} {following}"
        return text[:-1] + _hyphen(word, following, known, soft=text[-1] == "\xad") + following
    if _HAN_KANA.match(text[-1]) and _HAN_KANA.match(following[0]):
        return text + following
    return f"{text} {following}"


def without_hyphens(text: str, known: frozenset[str]) -> str:
    """`text` with PDFium's marks, at which it joined lines itself, made hyphens or nothing; one at the end stays."""
    end = text[-1] if text[-1:] and text[-1] in HYPHENS else ""
    text = text.removesuffix(end) if end else text
    while match := _MARKED.search(text):
        mark = text[match.end("before")]
        between = _hyphen(match["before"], match["after"], known, soft=mark == "\xad")
        text = text[: match.end("before")] + between + text[match.start("after") :]
    return text + ("-" if end and end != "\xad" else end)


def _hyphen(word: str, following: str, known: frozenset[str], *, soft: bool) -> str:
    """``-`` where the hyphen between two parts of a word belongs to it, else nothing."""
    last = re.search(r"[\w-]*$", word)
    first = _WORD.match(following)
    before, after = last.group() if last else "", first.group() if first else ""
    if soft or not before or not after:
        return ""
    if "-" in before or f"{before}-{after}".lower() in known or not before[-1].isalpha():
        return "-"
    if after[0].islower():
        return ""
    capitals = before.isupper() and after.isupper() and min(len(before), len(after)) >= _LEAST_CAPITALS
    return "" if capitals or (not after[0].isupper() and not after[0].isdigit()) else "-"
