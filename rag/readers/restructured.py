"""reStructuredText, read line by line: titles by their underlines, literal blocks, lists, tables. It renders nothing.

The document's text is the file itself, so that lines and offsets are the file's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..documents import Block, BlockKind, Document, first_line, title_from
from .base import Reader
from .builder import HeadingStack
from .decoding import looks_like_text, read_text

_RULE = re.compile(r"""([!-/:-@\[-`{-~])\1*[ \t]*$""")
_UNDERLINED = re.compile(rb"^\S[^\r\n]*\r?\n([=~^*#+\"'-])\1{2,}[ \t]*\r?$", re.MULTILINE)
_LIST = re.compile(r"[ \t]*(?:[-*+•]|\(?(?:\d{1,4}|#|[a-zA-Z])[.)])[ \t]+\S")
_TABLE = re.compile(r"[ \t]*(?:\+[-=+]{3,}\+?|=+(?:[ \t]+=+)+)[ \t]*$")
_CODE_DIRECTIVE = re.compile(r"[ \t]*\.\. (?:code|code-block|sourcecode|parsed-literal|literalinclude|math|raw)::")


class RestructuredReader(Reader):
    """Reads reStructuredText."""

    name = "reStructuredText"
    media_types = ("text/x-rst",)
    suffixes = (".rst", ".rest")

    def sniff(self, head: bytes, path: Path) -> float:
        if not looks_like_text(head):
            return 0.0
        # Documentation sites keep their pages' sources as page.rst.txt, whose last suffix names plain text.
        return 0.8 if path.name.lower().endswith(".rst.txt") and _UNDERLINED.search(head) else 0.2

    def read(self, path: Path) -> Document:
        text = read_text(path)
        blocks: list[Block] = []
        headings = HeadingStack()
        styles: list[str] = []
        title = ""
        for kind, start, end, style in _runs(text):
            path_above, level = headings.path, 0
            if kind == "heading":
                if style not in styles:
                    styles.append(style)
                level = styles.index(style) + 1
                shown = title_from(_title_line(text[start:end]))
                path_above = headings.push(level, shown)
                title = title or shown
            blocks.append(Block(kind, start, end, level, path_above))
        return Document(title or first_line(text), text, "text/x-rst", blocks)


def _title_line(source: str) -> str:
    lines = source.split("\n")
    return lines[1] if _RULE.match(lines[0]) and len(lines) > 1 else lines[0]


def _runs(text: str) -> Iterator[tuple[BlockKind, int, int, str]]:
    """(kind, start, end, style of a heading's underline) of each block."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    row = 0
    literal = False
    while row < len(lines):
        if not lines[row].strip():
            row += 1
            continue
        kind, stop, style = _block_at(lines, row, literal)
        literal = lines[stop - 1].rstrip().endswith("::") and kind in ("paragraph", "list")
        yield kind, starts[row], starts[stop - 1] + len(lines[stop - 1].rstrip()), style
        row = stop


def _block_at(lines: list[str], row: int, literal: bool) -> tuple[BlockKind, int, str]:
    """Kind, the line after it, and underline style of the block that begins at line `row`."""
    line = lines[row]
    if literal and line[0] in " \t":
        return "code", _after_indented(lines, row), ""
    heading = _heading(lines, row)
    if heading:
        return "heading", *heading
    if _CODE_DIRECTIVE.match(line):
        return "code", _after_indented(lines, row + 1), ""
    if _TABLE.match(line):
        return "table", _after_table(lines, row), ""
    stop = row + 1
    kind: BlockKind = "list" if _LIST.match(line) else "paragraph"
    while stop < len(lines) and lines[stop].strip() and not _heading(lines, stop):
        stop += 1
    return kind, stop, ""


def _heading(lines: list[str], row: int) -> tuple[int, str] | None:
    """(line after it, style) of a title at line `row`: underlined, or between two rules."""

    def rule(number: int) -> str:
        line = lines[number] if number < len(lines) else ""
        match = _RULE.match(line) if len(line) < 500 else None
        return line.strip() if match and len(line.strip()) >= 3 else ""

    line = lines[row]
    over = rule(row)
    if over:
        under = rule(row + 2)
        if under and under[0] == over[0] and lines[row + 1].strip() and not rule(row + 1):
            return row + 3, over[0] * 2
        return None
    under = rule(row + 1)
    if under and line[0] not in " \t" and len(under) >= min(len(line.strip()), 4) and not _TABLE.match(lines[row + 1]):
        return row + 2, under[0]
    return None


def _after_indented(lines: list[str], row: int) -> int:
    """The line after an indented run that may hold blank lines."""
    stop = last = row
    while stop < len(lines) and (not lines[stop].strip() or lines[stop][0] in " \t"):
        stop += 1
        if lines[stop - 1].strip():
            last = stop
    return max(last, row)


def _after_table(lines: list[str], row: int) -> int:
    """A grid table ends at a blank line, a simple one at its last rule."""
    simple = lines[row].lstrip().startswith("=")
    stop = row + 1
    rules = 1
    while stop < len(lines):
        if not lines[stop].strip() and (not simple or rules >= 2):
            break
        rules += bool(_TABLE.match(lines[stop]))
        stop += 1
        if simple and rules >= 3:
            break
    while stop > row + 1 and not lines[stop - 1].strip():
        stop -= 1
    return stop
