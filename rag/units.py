"""A document's sections and the units they consist of: sentences, lines, headings. It knows no encoder."""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from .documents import Block, Document
from .packing import Unit
from .sentences import sentences

_CLAUSE = re.compile(r"[,;:](?=\s)|[，、；：]|\s[-–—](?=\s)")
_LINE_END = re.compile(r"\n")
_SPACE = re.compile(r"\s+")
_LINE = re.compile(r"[^\n]*\S[^\n]*")

SMALLEST_SHARE = 32
"""Lines and sentences below 1/32 of the limit are taken together with their neighbours in the same block, so that a
file of a million one-token lines is packed as quickly as prose."""


def covering_blocks(document: Document) -> list[Block]:
    """The document's blocks in order, without overlap, the text outside them as paragraphs; none is blank."""
    text = document.text
    covered: list[Block] = []
    position = 0
    above, page = "", None
    for block in sorted(document.blocks, key=lambda block: (block.start, block.end)):
        start, end = min(max(block.start, position), len(text)), min(block.end, len(text))
        _add(covered, text, Block("paragraph", position, start, 0, above, page))
        position = start
        if end > start:
            _add(covered, text, Block(block.kind, start, end, block.level, block.heading_path, block.page))
            position = end
        above, page = block.heading_path, block.page
    _add(covered, text, Block("paragraph", position, len(text), 0, above, page))
    return covered


def _add(covered: list[Block], text: str, block: Block) -> None:
    if block.end > block.start and not text[block.start : block.end].isspace():
        covered.append(block)


def sections(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Runs of blocks that may share a passage: under one heading and on one page, headings at the front."""
    section: list[Block] = []
    content: Block | None = None  # the section's first block that is no heading
    for block in blocks:
        if content is not None and (
            block.kind == "heading" or block.heading_path != content.heading_path or block.page != content.page
        ):
            yield section
            section, content = [], None
        section.append(block)
        if content is None and block.kind != "heading":
            content = block
    if section:
        yield section


def section_units(text: str, section: Sequence[Block], ends: array[int], limit: int, characters: int) -> list[Unit]:
    """The units of a section; `ends` are the places of the last characters of the text's tokens."""
    units: list[Unit] = []
    smallest = limit // SMALLEST_SHARE
    for number, block in enumerate(section):
        glued = number > 0 and section[number - 1].kind == "heading"
        first_of_block = True
        for start, end, penalty in _spans(text, block):
            for begin, stop, cost in _parts(text, (start, end, penalty), ends, limit, characters):
                tokens = bisect_left(ends, begin), bisect_left(ends, stop)
                unit = Unit(begin, stop, *tokens, number, cost, glued and first_of_block)
                if first_of_block or not _merged(units[-1], unit, smallest, limit, characters):
                    units.append(unit)
                first_of_block = False
    return units


def _merged(last: Unit, unit: Unit, smallest: int, limit: int, characters: int) -> bool:
    """Take `unit` into `last` if that is very small and both fit."""
    if (
        last.last_token - last.first_token >= smallest
        or unit.last_token - last.first_token > limit
        or unit.end - last.start > characters
    ):
        return False
    last.end, last.last_token = unit.end, unit.last_token
    return True


def _spans(text: str, block: Block) -> Iterator[tuple[int, int, float]]:
    """(start, end, penalty of ending a passage before it) of the units of a block."""
    source = text[block.start : block.end]
    if block.kind == "heading":
        lead = len(source) - len(source.lstrip())
        yield block.start + lead, block.start + len(source.rstrip()), 0.0
    elif block.kind in ("paragraph", "list"):
        for index, (start, end) in enumerate(sentences(source)):
            yield block.start + start, block.start + end, 0.3 if index else 0.0
    else:
        yield from _lines(source, block)


def _lines(source: str, block: Block) -> Iterator[tuple[int, int, float]]:
    """Lines of a table or of code; code is best ended where a blank line or a lesser indentation follows."""
    previous_end = 0
    for match in _LINE.finditer(source):
        line = match.group()
        start, end = match.start(), match.start() + len(line.rstrip())
        if block.kind == "table":
            penalty = 0.1
        else:
            indentation = len(line) - len(line.lstrip())
            penalty = 0.1 + 0.05 * min(indentation, 12)
            if start - previous_end > 1:
                penalty /= 2
        yield block.start + start, block.start + end, penalty if previous_end else 0.0
        previous_end = match.end()


def _parts(
    text: str, span: tuple[int, int, float], ends: array[int], limit: int, characters: int
) -> Iterator[tuple[int, int, float]]:
    """A span that fits as it is; else its sentences, each cut where it alone is too long."""
    start, end, penalty = span
    if bisect_left(ends, end) - bisect_left(ends, start) <= limit and end - start <= characters:
        yield span
        return
    for first, last in sentences(text[start:end]):
        for part in cut_span(text, start + first, start + last, ends, limit, characters):
            yield *part, penalty
            penalty = 1.0


def cut_span(
    text: str, start: int, end: int, ends: array[int], limit: int, characters: int
) -> Iterator[tuple[int, int]]:
    """Cut one long sentence or line into parts of like size within both limits, without white space around them."""
    while True:
        first = bisect_left(ends, start)
        tokens = bisect_left(ends, end) - first
        if tokens <= limit and end - start <= characters:
            break
        parts = max(-(-tokens // limit), -(-(end - start) // characters))
        share = -(-tokens // parts)
        most = min(end, start + characters)
        if tokens > limit:
            most = min(most, ends[first + limit - 1] + 1)
        wish = min(most, ends[first + share - 1] + 1 if tokens > limit else start + (end - start) // parts)
        cut = _cut_place(text, start, wish, max(most, start + 1))
        yield start, start + len(text[start:cut].rstrip())
        start = cut
        while start < end and text[start].isspace():
            start += 1
        if start >= end:
            return
    yield start, end


def _cut_place(text: str, start: int, wish: int, most: int) -> int:
    """Where to cut in ``(start, most]``: at a line end or a clause near `wish`, else a space, else `most`."""
    near = range(start + max(1, (wish - start) * 3 // 4), most + 1)
    stop = most + 1  # a space just after the last place that fits is a place to cut, too
    for pattern in (_LINE_END, _CLAUSE):
        places = [match.end() for match in pattern.finditer(text, start, stop) if match.end() in near]
        if places:
            return min(places, key=lambda place: abs(place - wish))
    spaces = [match.start() for match in _SPACE.finditer(text, start + 1, stop)]
    places = [place for place in spaces if place in near]
    if places:
        return min(places, key=lambda place: abs(place - wish))
    if spaces:
        return spaces[-1]
    cut = most
    while cut > start + 1 and cut < len(text) and unicodedata.combining(text[cut]):
        cut -= 1
    return cut
