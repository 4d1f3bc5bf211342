"""From the characters of a PDF page to its lines and their places. It opens no file and tells no paragraph.

Places are those of the page turned so that most of its text is upright, whatever the rotation that the page asks for:
a table set sideways is a table, and PDFium orders the lines of a page by the rotation it is shown in.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

PART_GAP = 1.0
"""White space within a line that parts it, as multiple of the letters' size: a gutter, or the next cell of a table."""

SAMPLED_CHARACTERS = 200
"""Characters of a page that are asked for the direction they are written in."""

_CONTROLS = re.compile("[\x00\x01\x03-\x08\x0b-\x1f\x7f\uffff]")  # but PDFium's mark for a hyphen at a line end
_SPACES = re.compile(r"[ \xa0]+")


@dataclass(slots=True)
class Line:
    """A line of a page: its text, font size, and edges in points (``y`` of its baseline, growing upwards).

    PDFium joins the two halves of a word cut at a line end, and so two lines; `last_y` is the second one's baseline.
    """

    text: str
    size: float
    left: float
    right: float
    y: float
    last_y: float
    edge: bool = False
    """The first or last of its page."""
    parts: list[Line] = field(default_factory=list)
    """What stands apart from each other in it; empty where nothing does."""


def page_lines(page: Any) -> list[Line]:
    """The lines of a page that hold text, the page turned upright."""
    text_page = page.get_textpage()
    try:
        turns = _turns(text_page)
        if page.get_rotation() == 90 * turns:
            return _Characters(text_page, turns).lines()
    finally:
        text_page.close()
    page.set_rotation(90 * turns)  # of the page in memory
    text_page = page.get_textpage()
    try:
        return _Characters(text_page, turns).lines()
    finally:
        text_page.close()


def _turns(text_page: Any) -> int:
    """Quarter turns to the right after which most of a page's text is upright."""
    import pypdfium2.raw as raw

    count = text_page.count_chars()
    step = max(1, count // SAMPLED_CHARACTERS)
    angles = (raw.FPDFText_GetCharAngle(text_page, place) for place in range(0, count, step))
    turns = Counter(round(-angle / (math.pi / 2)) % 4 for angle in angles if angle >= 0)
    return max(turns, key=lambda turn: (turns[turn], turn == 0)) if turns else 0


Box = tuple[float, float, float, float]
"""Left, bottom, right, top."""


@dataclass(slots=True)
class _Characters:
    """The characters of a page by PDFium's numbers, which count UTF-16 units, their places on the turned page."""

    text_page: Any
    turns: int

    def lines(self) -> list[Line]:
        count = self.text_page.count_chars()
        if count <= 0:
            return []
        lines: list[Line] = []
        position = 0
        for raw in self.text_page.get_text_range(0, count, errors="replace").split("\n"):
            line = self._line(raw, position, count)
            if line is not None:
                line.parts = self._parts(raw, position, count, line.size)
                lines.append(line)
            position += _utf16_length(raw) + 1
        if lines:
            lines[0].edge = lines[-1].edge = True
        return lines

    def _line(self, raw: str, position: int, count: int) -> Line | None:
        """The line or part of a line that begins at character `position`; None where it holds nothing."""
        text = _CONTROLS.sub("", raw).strip()
        if not text:
            return None
        first = position + _utf16_length(raw[: len(raw) - len(raw.lstrip())])
        last = position + _utf16_length(raw.rstrip()) - 1
        return self._measured(text, min(first, count - 1), min(last, count - 1))

    def _parts(self, raw: str, position: int, count: int, size: float) -> list[Line]:
        """The parts of a line between which more than `PART_GAP` is white; none where there is no such place."""
        starts = [0]
        stripped = raw.rstrip()
        for match in _SPACES.finditer(stripped, len(raw) - len(raw.lstrip())):
            before = position + _utf16_length(raw[: match.start()]) - 1
            after = position + _utf16_length(raw[: match.end()])
            if after < count and self._white(before, after) > PART_GAP * size:
                starts.append(match.end())
        if len(starts) == 1:
            return []
        spans = zip(starts, [*starts[1:], len(stripped)], strict=True)
        found = (self._line(raw[start:end], position + _utf16_length(raw[:start]), count) for start, end in spans)
        return [part for part in found if part is not None]

    def _white(self, before: int, after: int) -> float:
        """Points between two characters; negative where the second does not follow on the same line."""
        left, right = self._box(before), self._box(after)
        if left is None or right is None:
            return 0.0
        return right[0] - left[2] if right[1] < left[3] + 1 and right[3] > left[1] - 1 else -1.0

    def _measured(self, text: str, first: int, last: int) -> Line:
        """A line with its place and size."""
        import pypdfium2.raw as raw

        left, bottom, _, top = self._box(first) or (0.0, 0.0, 0.0, 0.0)
        y = self._baseline(first, bottom)  # a box ends lower under letters such as g
        size = raw.FPDFText_GetFontSize(self.text_page, first) or 0.0
        if size <= 1.5:  # a font of size 1 scaled by the text matrix
            size = (top - bottom) * 1.3
        end = self._box(last)
        return Line(text, round(size, 1), left, left if end is None else end[2], y, self._baseline(last, y))

    def _box(self, place: int) -> Box | None:
        import pypdfium2.raw as raw

        left, right, bottom, top = (ctypes.c_double() for _ in range(4))
        if not raw.FPDFText_GetCharBox(self.text_page, place, left, right, bottom, top):
            return None
        (x1, y1), (x2, y2) = self._turned(left.value, bottom.value), self._turned(right.value, top.value)
        return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)

    def _baseline(self, place: int, otherwise: float) -> float:
        import pypdfium2.raw as raw

        x, y = ctypes.c_double(), ctypes.c_double()
        return (
            self._turned(x.value, y.value)[1] if raw.FPDFText_GetCharOrigin(self.text_page, place, x, y) else otherwise
        )

    def _turned(self, x: float, y: float) -> tuple[float, float]:
        """A place on the page after the quarter turns to the right."""
        return ((x, y), (y, -x), (-x, -y), (-y, x))[self.turns]


def _utf16_length(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text) if not text.isascii() else len(text)
