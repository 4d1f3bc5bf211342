"""Puts a document's text together from pieces and keeps the blocks' offsets and headings. It knows no format."""

from __future__ import annotations

from ..documents import Block, BlockKind, Document, first_line, normalise, title_from


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

    @property
    def length(self) -> int:
        """Characters so far, separators counted."""
        return self._length

    def add(self, kind: BlockKind, text: str, *, separator: str = "\n\n") -> None:
        """Append a block; white space around it is dropped, an empty one is left out."""
        text = normalise(text).strip("\n").rstrip()
        if kind != "code":
            text = text.lstrip()
        if not text.strip():
            return
        self._append(kind, text, separator, 0, self._headings.path)

    def heading(self, text: str, level: int) -> None:
        """Append a heading; the blocks after it stand under it."""
        text = " ".join(normalise(text).split())
        if text:
            self._append("heading", text, "\n\n", level, self._headings.push(level, title_from(text)))

    def _append(self, kind: BlockKind, text: str, separator: str, level: int, path: str) -> None:
        page = len(self._page_starts) or None
        self._blocks.append(Block(kind, self._length, self._length + len(text), level, path, page))
        self._parts += (text, separator)
        self._length += len(text) + len(separator)

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
