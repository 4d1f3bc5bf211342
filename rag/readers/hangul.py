"""What the documents of the Korean word processor Hangul are made of, and how it becomes text. It knows no file format.

Its two formats, hwp and hwpx, nest alike: a paragraph holds text, tables, boxes and notes, whose cells hold paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .builder import DocumentBuilder
from .tables import table_lines

MAXIMUM_COLUMNS = 1000
"""Cells of a table that says it has more are read one after the other."""

HEADING_LENGTH = 200
"""Most characters of a heading; a longer paragraph is text, whatever its style."""

_OUTLINE = re.compile(r"(?:개요|outline|제목|heading)\s*(\d{1,2})", re.IGNORECASE)
_TITLES = ("제목", "title", "문서 제목")


@dataclass(slots=True)
class Paragraph:
    """A paragraph: its text, with the tables, and the boxes and notes (lists of paragraphs), where they stand in it.

    `level` is that of a heading, from 1, else 0; `listed` means that it bears a number or a bullet.
    """

    pieces: list[str | Table | list[Paragraph]]
    level: int = 0
    listed: bool = False


@dataclass(slots=True)
class Table:
    """A table: the paragraphs of each cell by (row, column), and those of its caption."""

    cells: dict[tuple[int, int], list[Paragraph]] = field(default_factory=dict)
    caption: list[Paragraph] = field(default_factory=list)


def style_level(name: str) -> int:
    """Level of the headings that a style of this name makes; 0 for every other style.

    Examples
    --------
    >>> style_level("개요 2"), style_level("Title"), style_level("바탕글")
    (2, 1, 0)
    """
    match = _OUTLINE.fullmatch(name.strip())
    return int(match.group(1)) if match else int(name.strip().lower() in _TITLES)


def add_paragraph(builder: DocumentBuilder, paragraph: Paragraph) -> None:
    """Append a paragraph and what it holds; boxes and notes stand after it."""
    text: list[str] = []
    boxes: list[list[Paragraph]] = []
    for piece in paragraph.pieces:
        if isinstance(piece, str):
            text.append(piece)
        elif isinstance(piece, Table):
            _add_text(builder, paragraph, "".join(text))
            text.clear()
            _add_table(builder, piece)
        else:
            boxes.append(piece)
    _add_text(builder, paragraph, "".join(text))
    for inner in (paragraph for box in boxes for paragraph in box):
        add_paragraph(builder, inner)


def _add_text(builder: DocumentBuilder, paragraph: Paragraph, text: str) -> None:
    if paragraph.level and len(text) <= HEADING_LENGTH:
        builder.heading(text, paragraph.level)
    elif paragraph.listed and text.strip():
        builder.add("list", "- " + " ".join(text.split()), join="\n")
    else:
        builder.add("paragraph", text)


def _add_table(builder: DocumentBuilder, table: Table) -> None:
    """A table as lines; one that only arranges the page (a single cell, or tables in its cells) as what it holds."""
    for paragraph in table.caption:
        add_paragraph(builder, paragraph)
    if len(table.cells) == 1 or any(_holds_table(cell) for cell in table.cells.values()):
        for place in sorted(table.cells):
            for paragraph in table.cells[place]:
                add_paragraph(builder, paragraph)
    else:
        builder.add("table", "\n".join(line for line in table_lines(_rows(table)) if line))


def _holds_table(paragraphs: Sequence[Paragraph]) -> bool:
    return any(isinstance(piece, Table) for paragraph in paragraphs for piece in paragraph.pieces)


def _rows(table: Table) -> list[list[str]]:
    rows: dict[int, list[str]] = {}
    for row, column in sorted(table.cells):
        cells = rows.setdefault(row, [])
        if column < MAXIMUM_COLUMNS:
            cells.extend([""] * (column - len(cells)))
        cells.append(" ".join(map(_plain, table.cells[row, column])))
    return list(rows.values())


def _plain(paragraph: Paragraph) -> str:
    """The text of a paragraph in a cell, that of boxes and notes in it too."""
    return " ".join(
        piece if isinstance(piece, str) else " ".join(map(_plain, piece))
        for piece in paragraph.pieces
        if not isinstance(piece, Table)
    )
