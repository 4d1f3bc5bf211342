"""From the lines of PDF pages to paragraphs, headings and tables, by their places and sizes. It opens no file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median

from ..sentences import sentences
from .pdf_hyphens import HYPHENS, join_lines, without_hyphens
from .pdf_lines import Line
from .pdf_tables import table_end, table_text

HEADING_RATIO = 1.15
"""A line is a heading if its letters are this much larger than the body's ..."""

HEADING_LENGTH = 200
"""... and it is no longer than this."""

HEADING_LEVELS = 4

LEAST_PROSE = 40
"""Characters of a paragraph's text from which it may go on over the page end."""

_ENDS = re.compile(r"""[.!?…:;。！？]["'”’)\]」』]*$""")
_SENTENCE_LENGTH = 1000
"""Most characters that a sentence is followed over a page end."""


@dataclass(slots=True)
class Paragraph:
    """Lines joined; `level` of a heading, else 0; `table` of rows; `size` of its letters.

    `full` means that its last line goes as far to the right as others of the page do, so that it may go on.
    """

    text: str
    level: int = 0
    table: bool = False
    size: float = 0.0
    full: bool = False

    def runs_on(self, following: Paragraph) -> int:
        """How many characters of `following`, the first of the next page, end this one's last sentence; 0 if none.

        A sentence goes on where it has no end on this page, its last line is full, and the next page begins in the
        same size and in lower case. It must end there: without an end, lines such as those of a list would be joined.
        """
        if self.table or following.table or self.level or following.level or _ENDS.search(self.text):
            return 0
        if abs(self.size - following.size) > 0.1 * max(self.size, following.size) or not following.text[0].islower():
            return 0
        parted = self.text[-1] in HYPHENS or self.text[-1] == "-"
        if not parted and not (self.full and len(self.text) >= LEAST_PROSE):
            return 0
        rest = following.text[:_SENTENCE_LENGTH]
        stop = sentences(rest)[0][1]
        if _ENDS.search(rest[:stop]):
            return stop
        return len(rest.split(maxsplit=1)[0]) if parted else 0


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


def page_paragraphs(
    lines: Sequence[Line], levels: dict[float, int], compounds: frozenset[str] = frozenset()
) -> list[Paragraph]:
    """The paragraphs and headings of one page; `compounds` are the words that the document writes with hyphens."""
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
            found.append(_paragraph(group, levels, right, compounds))
            group = []
        if stop > at:
            found.append(Paragraph(table_text(lines[at:stop]), table=True))
        else:
            group.append(lines[at])
        at = max(stop, at + 1)
    if group:
        found.append(_paragraph(group, levels, right, compounds))
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


def _paragraph(group: list[Line], levels: dict[float, int], right: float, compounds: frozenset[str]) -> Paragraph:
    text = group[0].text
    for line in group[1:]:
        text = join_lines(text, line.text, compounds)
    level = levels.get(group[0].size, 0)
    if len(text) > HEADING_LENGTH or not any(character.isalnum() for character in text):
        level = 0
    last = group[-1]
    return Paragraph(without_hyphens(text, compounds), level, False, last.size, last.right > right - 4 * last.size)


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
