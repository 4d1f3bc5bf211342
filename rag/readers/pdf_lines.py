"""From the characters of a PDF page to its lines and their places. It opens no file and tells no paragraph."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass, field
from typing import Any

PART_GAP = 1.0
"""White space within a line that parts it, as multiple of the letters' size: a gutter, or the next cell of a table."""

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


def page_lines(source: Any, number: int) -> list[Line]:
    """The lines of page `number` (from 0) that hold text."""
    page = source[number]
    try:
        text_page = page.get_textpage()
        try:
            return _lines(text_page)
        finally:
            text_page.close()
    finally:
        page.close()


def _lines(text_page: Any) -> list[Line]:
    """The lines of a page; places in its text are PDFium's character numbers, which count UTF-16 units."""
    count = text_page.count_chars()
    if count <= 0:
        return []
    lines: list[Line] = []
    position = 0
    for raw in text_page.get_text_range(0, count, errors="replace").split("\n"):
        line = _line(text_page, raw, position, count)
        if line is not None:
            line.parts = _parts(text_page, raw, position, count, line.size)
            lines.append(line)
        position += _utf16_length(raw) + 1
    if lines:
        lines[0].edge = lines[-1].edge = True
    return lines


def _line(text_page: Any, raw: str, position: int, count: int) -> Line | None:
    """The line or part of a line that begins at character `position`; None where it holds nothing."""
    text = _CONTROLS.sub("", raw).strip()
    if not text:
        return None
    first = position + _utf16_length(raw[: len(raw) - len(raw.lstrip())])
    last = position + _utf16_length(raw.rstrip()) - 1
    return _measured(text_page, text, min(first, count - 1), min(last, count - 1))


def _parts(text_page: Any, raw: str, position: int, count: int, size: float) -> list[Line]:
    """The parts of a line between which more than `PART_GAP` is white; none where there is no such place."""
    starts = [0]
    stripped = raw.rstrip()
    for match in _SPACES.finditer(stripped, len(raw) - len(raw.lstrip())):
        before = position + _utf16_length(raw[: match.start()]) - 1
        after = position + _utf16_length(raw[: match.end()])
        if after < count and _white(text_page, before, after) > PART_GAP * size:
            starts.append(match.end())
    if len(starts) == 1:
        return []
    spans = zip(starts, [*starts[1:], len(stripped)], strict=True)
    found = (_line(text_page, raw[start:end], position + _utf16_length(raw[:start]), count) for start, end in spans)
    return [part for part in found if part is not None]


def _white(text_page: Any, before: int, after: int) -> float:
    """Points between two characters; negative where the second does not follow on the same line."""
    import pypdfium2.raw as raw

    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    if not raw.FPDFText_GetCharBox(text_page, before, left, right, bottom, top):
        return 0.0
    end, low, high = right.value, bottom.value, top.value
    if not raw.FPDFText_GetCharBox(text_page, after, left, right, bottom, top):
        return 0.0
    return left.value - end if bottom.value < high + 1 and top.value > low - 1 else -1.0


def _utf16_length(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text) if not text.isascii() else len(text)


def _measured(text_page: Any, text: str, first: int, last: int) -> Line:
    """A line with its place and size."""
    import pypdfium2.raw as raw

    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    raw.FPDFText_GetCharBox(text_page, first, left, right, bottom, top)
    start, y = left.value, bottom.value
    origin = ctypes.c_double()
    if raw.FPDFText_GetCharOrigin(text_page, first, left, origin):
        y = origin.value  # the baseline; a box ends lower under letters such as g
    size = raw.FPDFText_GetFontSize(text_page, first) or 0.0
    height = top.value - bottom.value
    if size <= 1.5:  # a font of size 1 scaled by the text matrix
        size = height * 1.3
    raw.FPDFText_GetCharBox(text_page, last, left, right, bottom, top)
    last_y = origin.value if raw.FPDFText_GetCharOrigin(text_page, last, left, origin) else y
    return Line(text, round(size, 1), start, right.value, y, last_y)
