"""Plain text: paragraphs between blank lines. It knows no markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..documents import Block, Document, first_line
from .base import Reader
from .decoding import looks_like_text, read_text, text_parts

WHOLE_BYTES = 16_000_000
"""A larger file is read in parts, so that memory does not grow with it."""

_PARAGRAPH_BREAK = re.compile(r"\n[ \t\f\v]*(?=\n)")


class TextReader(Reader):
    """Reads any text file; the file's lines are the document's lines."""

    name = "text"
    media_types = ("text/plain",)
    suffixes = (".txt", ".text", ".log", ".tex", ".srt", ".vtt")

    def sniff(self, head: bytes, path: Path) -> float:
        return 0.25 if looks_like_text(head) else 0.0

    def read(self, path: Path) -> Document:
        text = read_text(path)
        return Document(first_line(text), text, "text/plain", paragraphs(text))

    def parts(self, path: Path) -> Iterator[Document]:
        if path.stat().st_size <= WHOLE_BYTES:
            yield self.read(path)
            return
        title, line, character = "", 1, 0
        for text in text_parts(path):
            title = title or first_line(text)
            yield Document(title, text, "text/plain", paragraphs(text), first_line=line, first_character=character)
            line, character = line + text.count("\n"), character + len(text)


def paragraphs(text: str) -> list[Block]:
    """The paragraphs of a plain text."""
    blocks = []
    start = 0
    for stop in [*(match.start() for match in _PARAGRAPH_BREAK.finditer(text)), len(text)]:
        chunk = text[start:stop]
        if chunk.strip():
            lead = len(chunk) - len(chunk.lstrip())
            blocks.append(Block("paragraph", start + lead, start + len(chunk.rstrip())))
        start = stop
    return blocks
