"""PDF: text page by page through PDFium, lines joined to paragraphs, headings told by their size. No OCR.

PDFium runs in this process: a file made to crash it takes the process down, which an indexing run survives as it does a
kill. PDFium allows one thread at a time, hence the lock.
"""

from __future__ import annotations

import threading
from pathlib import Path

from ..documents import Document, NoText, ReadError, title_from
from .base import Reader
from .builder import DocumentBuilder
from .pdf_layout import Paragraph, page_paragraphs, ranges, repeated_lines, sizes_of_headings
from .pdf_lines import Line, page_lines
from .pdf_tables import in_reading_order

_lock = threading.Lock()
_JUNK_TITLES = (
    "untitled",
    "microsoft word",
    "microsoft powerpoint",
    "document",
    "powerpoint presentation",
    "(anonymous)",
)


class PdfReader(Reader):
    """Reads PDF. Pages without text are named in the notes; a file with none is a scan."""

    name = "PDF"
    version = "2"
    media_types = ("application/pdf",)
    suffixes = (".pdf",)

    def sniff(self, head: bytes, path: Path) -> float:
        if head.startswith(b"%PDF-"):
            return 1.0
        return 0.9 if b"%PDF-" in head[:1024] and path.suffix.lower() in self.suffixes else 0.0

    def read(self, path: Path) -> Document:
        cut_off = _cut_off(path)
        try:
            pages, broken, title = _extract(path)
        except ReadError as error:
            raise ReadError(f"{error.reason.rstrip('.')}; the file is cut off") if cut_off else error from error
        empty = [number for number, lines in enumerate(pages, 1) if not lines and number not in broken]
        if not any(pages):
            if cut_off or broken:
                raise ReadError("broken PDF: the file is cut off" if cut_off else "broken PDF: no page can be read")
            raise NoText(f"no text on any of its {len(pages)} pages (a scan?)")
        builder = DocumentBuilder(self.media_types[0])
        _build(builder, pages)
        for problem, numbers in (("no text on", empty), ("cannot be read:", sorted(broken))):
            if numbers:
                builder.notes.append(f"{problem} page{'s' if len(numbers) > 1 else ''} {ranges(numbers)}")
        if cut_off:
            builder.notes.append("the file is cut off, its end is missing")
        builder.partial = bool(builder.notes)
        document = builder.document()
        first = next((block for block in document.blocks if block.kind == "heading" and block.page == 1), None)
        if first is None and title:
            document.title = title
        elif first is not None:
            document.title = title_from(document.text[first.start : first.end])
        return document


def _cut_off(path: Path) -> bool:
    """Whether the end mark is missing from the last 2 KB."""
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - 2048))
        return b"%%EOF" not in stream.read()


def _extract(path: Path) -> tuple[list[list[Line]], set[int], str]:
    """The lines of each page, the numbers of the pages that cannot be read, and the file's own title."""
    import pypdfium2

    pages: list[list[Line]] = []
    broken: set[int] = set()
    with _lock:
        try:
            source = pypdfium2.PdfDocument(path)
        except pypdfium2.PdfiumError as error:
            locked = "password" in str(error).lower() or "security" in str(error).lower()
            raise ReadError("protected by a password" if locked else f"broken PDF: {error}") from error
        try:
            title = _own_title(source)
            count = len(source)
        except pypdfium2.PdfiumError:
            title, count = "", len(source)
    try:
        for number in range(count):
            with _lock:
                try:
                    lines = page_lines(source, number)
                except pypdfium2.PdfiumError:
                    lines = []
                    broken.add(number + 1)
            pages.append(in_reading_order(lines))
    finally:
        with _lock:
            source.close()
    if not count:
        raise ReadError("broken PDF: it has no pages")
    return pages, broken, title


def _own_title(source: object) -> str:
    title = title_from(source.get_metadata_dict().get("Title", ""))  # pyright: ignore[reportAttributeAccessIssue]
    return "" if title.lower().startswith(_JUNK_TITLES) or title.lower().endswith((".doc", ".docx", ".tex")) else title


def _build(builder: DocumentBuilder, pages: list[list[Line]]) -> None:
    """Pages to blocks; a paragraph that runs over a page end stays one."""
    levels = sizes_of_headings(pages)
    repeated = repeated_lines(pages)
    seen: set[str] = set()
    held: Paragraph | None = None  # the last of a page waits for the first of the next
    join: str | None = None
    for lines in pages:
        paragraphs = page_paragraphs([line for line in lines if not repeated.drop(line, seen)], levels)
        runs_on = held is not None and bool(paragraphs) and held.runs_on(paragraphs[0])
        _add(builder, held, join, parted=runs_on)
        builder.start_page()
        join = None
        if held is not None and runs_on:
            join = "" if held.hyphenated else " "
        for paragraph in paragraphs[:-1]:
            _add(builder, paragraph, join)
            join = None
        held = paragraphs[-1] if paragraphs else None
    _add(builder, held, join)


def _add(builder: DocumentBuilder, paragraph: Paragraph | None, join: str | None, *, parted: bool = False) -> None:
    """Append a paragraph, after `join` to the one before; the hyphen of a word that the page end parted goes."""
    if paragraph is None:
        return
    if paragraph.level:
        builder.heading(paragraph.text, paragraph.level)
    elif paragraph.table:
        builder.add("table", paragraph.text)
    else:
        text = paragraph.text.removesuffix("-") if parted and paragraph.hyphenated else paragraph.text
        builder.add("paragraph", text, join=join)
