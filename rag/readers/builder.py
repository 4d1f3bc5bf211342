"""Puts a document's text together from pieces and keeps the blocks' offsets and headings. It knows no format."""

from __future__ import annotations

from collections.abc import Sequence

from ..documents import Block, BlockKind, Document, ReadError, first_line, normalise, title_from
from .decoding import MAXIMUM_BYTES

SEPARATOR = "\n\n"


class HeadingStack:
    """The headings above the current place; `push` returns the path ``A > B`` that ends with the new heading."""

    def __init__(self) -> None:
        self._stack: list[tuple[int, str]] = []

    def push(self, level: int, title: str) -> str:
        while self._stack and self._stack[-1][0] >= level:
            self._stack.pop()
        self._stack.append((level, title))
        return self.path

    @property
    def path(self) -> str:
        return " > ".join(title for _, title in self._stack if title)


class DocumentBuilder:
    """Appends blocks with a separator between them; each text is normalised first, so that offsets stay right.

    Examples
    --------
    >>> builder = DocumentBuilder("text/plain")
    >>> builder.heading("Title", 1)
    >>> builder.add("paragraph", "Words.")
    >>> builder.document().text
    'Title\\n\\nWords.\\n'
    """

    def __init__(self, media_type: str) -> None:
        self.media_type = media_type
        self.title = ""
        self.notes: list[str] = []
        self.partial = False
        self._parts: list[str] = []
        self._length = 0
        self._blocks: list[Block] = []
        self._headings = HeadingStack()
        self._page_starts: list[int] = []

    def start_page(self) -> None:
        """What follows stands on the next page (the first call starts page 1)."""
        self._page_starts.append(self._length)

    def new_section(self, *titles: str, shown: bool = False) -> None:
        """What follows stands under no heading so far but `titles`, the outermost first.

        With `shown` the last of them is written as a heading; the text need not hold the others.
        """
        self._headings = HeadingStack()
        for level, title in enumerate(titles, 1 - len(titles)):  # above every heading that the text has
            self._headings.push(level, title_from(title))
        if shown and titles and (text := " ".join(normalise(titles[-1]).split())):
            self._append("heading", text, 1, self._headings.path)

    @property
    def length(self) -> int:
        """Characters so far, separators counted."""
        return self._length

    @property
    def last_kind(self) -> BlockKind | None:
        """Kind of the block added last."""
        return self._blocks[-1].kind if self._blocks else None

    def add(self, kind: BlockKind, text: str, *, join: str | None = None) -> None:
        """Append a block; white space around it is dropped, an empty one is left out.

        With `join` it becomes a part of the block before, after that string, if that is of the same kind.
        """
        text = normalise(text).strip("\n").rstrip()
        if kind != "code" and join is None:
            text = text.lstrip()
        if not text.strip():
            return
        last = self._blocks[-1] if self._blocks else None
        if join is not None and last is not None and last.kind == kind:
            self._parts[-1] = join
            self._length += len(join) - len(SEPARATOR)
            if self._page_starts and self._page_starts[-1] > self._length:
                self._page_starts[-1] = self._length
            last.end = self._length + len(text)
            self._append_text(text)
        else:
            self._append(kind, text, 0, self._headings.path)

    def heading(self, text: str, level: int) -> None:
        """Append a heading; the blocks after it stand under it."""
        text = " ".join(normalise(text).split())
        if text:
            self._append("heading", text, level, self._headings.push(level, title_from(text)))

    def add_all(self, text: str, blocks: Sequence[Block], *, keep_headings: bool = False) -> None:
        """Append a whole text (normalised already) with its blocks, under the headings so far.

        With `keep_headings` its headings hold for what is added later, as if the texts were one.
        """
        text = text.rstrip()
        above = self._headings.path
        page = len(self._page_starts) or None
        for block in blocks:
            if keep_headings and block.kind == "heading":
                self._headings.push(block.level, block.heading_path.rsplit(" > ", 1)[-1])
            path = self._headings.path if keep_headings else " > ".join(filter(None, (above, block.heading_path)))
            start, end = block.start + self._length, min(block.end, len(text)) + self._length
            if end > start:
                self._blocks.append(Block(block.kind, start, end, block.level, path, page))
        self._append_text(text)

    def _append(self, kind: BlockKind, text: str, level: int, path: str) -> None:
        page = len(self._page_starts) or None
        self._blocks.append(Block(kind, self._length, self._length + len(text), level, path, page))
        self._append_text(text)

    def _append_text(self, text: str) -> None:
        self._parts += (text, SEPARATOR)
        self._length += len(text) + len(SEPARATOR)
        if self._length > MAXIMUM_BYTES:
            raise ReadError(f"more than {MAXIMUM_BYTES // 1_000_000} million characters of text: split the file")

    def document(self) -> Document:
        """The document. Its title is `title`, else the first heading, else the first line."""
        text = "".join(self._parts).rstrip("\n")
        title = title_from(normalise(self.title))
        if not title:
            first = next((block for block in self._blocks if block.kind == "heading"), None)
            title = title_from(text[first.start : first.end]) if first else first_line(text)
        text = text + "\n" if text else ""
        return Document(
            title, text, self.media_type, self._blocks, self.notes, self.partial, page_starts=self._page_starts
        )
