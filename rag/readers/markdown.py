"""Markdown, read line by line: headings, fenced and indented code, lists, tables. It renders nothing.

The document's text is the file itself, so that lines and offsets are the file's own. Front matter before it gives the
title and is left out: it speaks of the file, in words that would win over what the file says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..documents import Block, BlockKind, Document, first_line, title_from
from .base import Reader
from .builder import HeadingStack
from .decoding import looks_like_text, read_text

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)(.*)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_FRONT_MATTER_LINES = 500
_LIST = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\S")


class MarkdownReader(Reader):
    """Reads Markdown."""

    name = "Markdown"
    version = "2"
    media_types = ("text/markdown",)
    suffixes = (".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd")

    def sniff(self, head: bytes, path: Path) -> float:
        return 0.2 if looks_like_text(head) else 0.0

    def read(self, path: Path) -> Document:
        text = read_text(path)
        rows = _skip_front_matter(text.split("\n", _FRONT_MATTER_LINES))
        start = sum(len(line) + 1 for line in text.split("\n", rows)[:rows])
        body = text[start:]
        if not body.strip():
            rows, start, body = 0, 0, text
        blocks, title = markdown_blocks(body)
        title = _front_matter_title(text) or title or first_line(body)
        return Document(title, body, "text/markdown", blocks, first_line=rows + 1, first_character=start)


def markdown_blocks(text: str) -> tuple[list[Block], str]:
    """The blocks of a Markdown text, and its title (front matter, else the first heading; may be empty)."""
    title = ""
    blocks: list[Block] = []
    headings = HeadingStack()
    for kind, start, end, level in _runs(text):
        path = headings.path
        if kind == "heading":
            shown = title_from(_heading_text(text[start:end]))
            path = headings.push(level, shown)
            title = title or shown
        blocks.append(Block(kind, start, end, level, path))
    return blocks, _front_matter_title(text) or title


def _heading_text(source: str) -> str:
    match = _HEADING.match(source)
    return match.group(2) if match else source.split("\n", 1)[0]


def _front_matter_title(text: str) -> str:
    if not text.startswith("---\n"):
        return ""
    end = text.find("\n---", 4, 20_000)
    match = re.search(r"^title:[ \t]*(.+)$", text[4:end], re.MULTILINE) if end > 0 else None
    return title_from(match.group(1)) if match else ""


def _runs(text: str) -> Iterator[tuple[BlockKind, int, int, int]]:
    """(kind, start, end, level) of each block."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    row = _skip_front_matter(lines)
    if row:
        yield "code", 0, starts[row] - 1, 0
    while row < len(lines):
        if not lines[row].strip():
            row += 1
            continue
        kind, stop, level = _block_at(lines, row)
        last = stop - 1
        while last > row and not lines[last].strip():
            last -= 1
        yield kind, starts[row], starts[last] + len(lines[last].rstrip()), level
        row = stop


def _skip_front_matter(lines: list[str]) -> int:
    if lines[0] != "---":
        return 0
    for row in range(1, min(len(lines), _FRONT_MATTER_LINES)):
        if lines[row] == "---":
            return row + 1
    return 0


def _block_at(lines: list[str], row: int) -> tuple[BlockKind, int, int]:
    """Kind, the line after it, and level of the block that begins at line `row`."""
    line = lines[row]
    fence = _FENCE.match(line)
    if fence:
        return "code", _after_fence(lines, row, fence.group(1)), 0
    heading = _HEADING.match(line)
    if heading:
        return "heading", row + 1, len(heading.group(1))
    if row + 1 < len(lines) and not _LIST.match(line):
        underline = _UNDERLINE.match(lines[row + 1])
        if underline and "|" not in line and not _UNDERLINE.match(line):
            return "heading", row + 2, 1 if underline.group(1)[0] == "=" else 2
    if line.startswith(("    ", "\t")):
        return "code", _after_indented(lines, row), 0
    kind: BlockKind = "table" if line.lstrip().startswith("|") else "list" if _LIST.match(line) else "paragraph"
    return kind, _after_text(lines, row, kind), 0


def _after_fence(lines: list[str], row: int, mark: str) -> int:
    for stop in range(row + 1, len(lines)):
        closing = lines[stop].strip()
        if closing.startswith(mark) and not closing.strip(mark[0]):
            return stop + 1
    return len(lines)


def _after_indented(lines: list[str], row: int) -> int:
    stop = row + 1
    while stop < len(lines) and (not lines[stop].strip() or lines[stop].startswith(("    ", "\t"))):
        stop += 1
    return stop


def _after_text(lines: list[str], row: int, kind: BlockKind) -> int:
    """A paragraph, list or table ends at a blank line, or before a heading or a fence."""
    stop = row + 1
    while stop < len(lines):
        line = lines[stop]
        if not line.strip() or _FENCE.match(line) or _HEADING.match(line):
            break
        if kind == "paragraph" and _LIST.match(line):
            break
        stop += 1
    return stop
