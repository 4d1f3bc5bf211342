"""From the lines of PDF pages to paragraphs, headings and tables, by their places and sizes. It opens no file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from statistics import median

from .pdf_lines import Line
from .pdf_tables import table_end, table_text

HEADING_RATIO = 1.15
"""A line is a heading if its letters are this much larger than the body's ..."""

HEADING_LENGTH = 200
"""... and it is no longer than this."""

HEADING_LEVELS = 4

_HYPHENS = "\x02\xad\ufffe"  # PDFium's mark for a hyphen at a line end, and soft hyphens
_ENDS = re.compile(r"""[.!?…:;。！？]["'”’)\]」』]*$""")
_HAN_KANA = re.compile("[\u3000-\u30ff\u4e00-\u9fff\uff00-\uff60]")


@dataclass(slots=True)
class Paragraph:
    """Lines joined; `level` of a heading, else 0; `hyphenated` where it ends within a word; `table` of rows."""

    text: str
    level: int = 0
    hyphenated: bool = False
    table: bool = False

    def runs_on(self, following: Paragraph) -> bool:
        """Whether `following`, the first of the next page, goes on with this one."""
        if self.table or following.table:
            return False
        return not following.level and (self.hyphenated or not _ENDS.search(self.text)) and following.text[0].islower()


def sizes_of_headings(pages: Iterable[Sequence[Line]]) -> dict[float, int]:
    """Font sizes of headings with their levels, the largest first; the body's size is the one of most characters."""
    characters: Counter[float] = Counter()
    for lines in pages:
        for line in lines:
            characters[line.size] += len(line.text)
    if not characters:
        return {}
    body = characters.most_common(1)[0][0]
    larger = sorted((size for size in characters if size >= body * HEADING_RATIO), reverse=True)
    return {size: min(level, HEADING_LEVELS) for level, size in enumerate(larger, 1)}


@dataclass(slots=True)
class RepeatedLines:
    """Running heads and page numbers: the first or last line of more than half of the pages, digits aside."""

    patterns: set[str] = field(default_factory=set)

    def drop(self, line: Line, seen: set[str]) -> bool:
        """Whether to leave `line` out: a repeated one that was `seen` before. The first is kept, so nothing is lost."""
        pattern = _pattern(line.text)
        if not line.edge or pattern not in self.patterns:
            return False
        if pattern in seen or pattern == "#":
            return True
        seen.add(pattern)
        return False


def _pattern(text: str) -> str:
    return re.sub(r"\d+", "#", text)


def repeated_lines(pages: Sequence[Sequence[Line]]) -> RepeatedLines:
    counts: Counter[str] = Counter()
    for lines in pages:
        counts.update({_pattern(line.text) for line in lines if line.edge})
    filled = sum(1 for lines in pages if lines)
    return RepeatedLines({pattern for pattern, count in counts.items() if count >= 4 and 2 * count > filled})


def page_paragraphs(lines: Sequence[Line], levels: dict[float, int]) -> list[Paragraph]:
    """The paragraphs and headings of one page."""
    if not lines:
        return []
    gaps = [above.last_y - below.y for above, below in pairwise(lines) if above.last_y > below.y]
    spacing = median(gaps) if gaps else 0.0
    right = max(line.right for line in lines)
    found: list[Paragraph] = []
    group: list[Line] = []
    at = 0
    while at < len(lines):
        stop = table_end(lines, at)
        if group and (stop > at or _starts_paragraph(lines[at - 1], lines[at], spacing, right, group)):
            found.append(_paragraph(group, levels))
            group = []
        if stop > at:
            found.append(Paragraph(table_text(lines[at:stop]), table=True))
        else:
            group.append(lines[at])
        at = max(stop, at + 1)
    if group:
        found.append(_paragraph(group, levels))
    return found


def _starts_paragraph(above: Line, line: Line, spacing: float, right: float, group: list[Line]) -> bool:
    if abs(line.size - above.size) > 0.1 * max(line.size, above.size):
        return True
    gap = above.last_y - line.y
    ended = bool(_ENDS.search(above.text))
    if gap <= 0:  # the next column, or a part of the same line
        return ended and gap < -spacing
    if spacing and gap > 1.35 * max(spacing, 1.1 * line.size if spacing < line.size else spacing):
        return True
    indented = (
        line.left > group[0].left + 0.8 * line.size and len(group) > 1 and line.left > above.left + 0.8 * line.size
    )
    short = above.right < right - 4 * line.size
    return ended and (indented or short)


def _paragraph(group: list[Line], levels: dict[float, int]) -> Paragraph:
    text = group[0].text
    for line in group[1:]:
        text = _joined(text, line.text)
    level = levels.get(group[0].size, 0)
    if len(text) > HEADING_LENGTH or not any(character.isalnum() for character in text):
        level = 0
    if not level and text[-1] in _HYPHENS:
        return Paragraph(text.rstrip(_HYPHENS), hyphenated=True)
    return Paragraph(_clean(text), level, not level and text[-1] == "-" and text[-2:-1].isalpha())


def _joined(text: str, following: str) -> str:
    """Two lines as one: a word cut at the line end is joined; Chinese and Japanese take no space."""
    if text[-1] in _HYPHENS:
        return text[:-1] + following
    if text[-1] == "-" and len(text) > 1 and text[-2].isalpha() and following[0].islower():
        return text[:-1] + following
    if _HAN_KANA.match(text[-1]) and _HAN_KANA.match(following[0]):
        return text + following
    return f"{text} {following}"


def _clean(text: str) -> str:
    return text.translate({ord(mark): None for mark in _HYPHENS})


def ranges(numbers: Sequence[int]) -> str:
    """Numbers in ascending order as text, runs joined.

    Examples
    --------
    >>> ranges([1, 2, 3, 7])
    '1-3, 7'
    """
    parts = []
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        group = [number for _, number in run]
        parts.append(str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}")
    return ", ".join(parts)
