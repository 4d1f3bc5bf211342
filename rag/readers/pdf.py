"""PDF: text page by page through PDFium, lines joined to paragraphs, headings told by their size. No OCR.

PDFium runs in this process: a file made to crash it takes the process down, which an indexing run survives as it does a
kill. PDFium allows one thread at a time, hence the lock.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..documents import Document, NoText, ReadError, title_from
from .base import Reader
from .builder import DocumentBuilder
from .pdf_annotations import PageAnnotations, page_annotations
from .pdf_hyphens import compounds, join_lines
from .pdf_layout import Paragraph, page_paragraphs, ranges, sizes_of_headings
from .pdf_lines import Line, page_lines
from .pdf_running import running_lines
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
    version = "3"
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
        empty = [number for number, page in enumerate(pages, 1) if page.is_empty and number not in broken]
        if all(page.is_empty for page in pages):
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


@dataclass(slots=True)
class _Page:
    """What a page holds."""

    lines: list[Line] = field(default_factory=list)
    annotations: PageAnnotations = field(default_factory=PageAnnotations)

    @property
    def is_empty(self) -> bool:
        return not self.lines and not self.annotations.holds_text


def _cut_off(path: Path) -> bool:
    """Whether the end mark is missing from the last 2 KB."""
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - 2048))
        return b"%%EOF" not in stream.read()


def _extract(path: Path) -> tuple[list[_Page], set[int], str]:
    """The pages, the numbers of the pages that cannot be read, and the file's own title."""
    import pypdfium2

    pages: list[_Page] = []
    broken: set[int] = set()
    with _lock:
        try:
            source = pypdfium2.PdfDocument(path)
        except pypdfium2.PdfiumError as error:
            locked = "password" in str(error).lower() or "security" in str(error).lower()
            raise ReadError("protected by a password" if locked else f"broken PDF: {error}") from error
        try:
            source.init_forms()
            title = _own_title(source)
        except pypdfium2.PdfiumError:
            title = ""
        count = len(source)
    try:
        for number in range(count):
            with _lock:
                try:
                    page = _read_page(source, number)
                except pypdfium2.PdfiumError:
                    page = _Page()
                    broken.add(number + 1)
            page.lines = in_reading_order(page.lines)
            pages.append(page)
    finally:
        with _lock:
            source.close()
    if not count:
        raise ReadError("broken PDF: it has no pages")
    return pages, broken, title


def _read_page(source: Any, number: int) -> _Page:
    page = source[number]
    try:
        return _Page(page_lines(page), page_annotations(page))
    finally:
        page.close()


def _own_title(source: object) -> str:
    title = title_from(source.get_metadata_dict().get("Title", ""))  # pyright: ignore[reportAttributeAccessIssue]
    return "" if title.lower().startswith(_JUNK_TITLES) or title.lower().endswith((".doc", ".docx", ".tex")) else title


def _build(builder: DocumentBuilder, pages: list[_Page]) -> None:
    """Pages to blocks. A sentence that runs over a page end stays whole; what follows it stands on its own page."""
    lines_of_pages = [page.lines for page in pages]
    levels = sizes_of_headings(lines_of_pages)
    running = running_lines(lines_of_pages)
    known = compounds(line.text for lines in lines_of_pages for line in lines)
    held: Paragraph | None = None  # the last of a page waits for the first of the next
    for number, page in enumerate(pages, 1):
        kept = [line for line in page.lines if not running.drop(line, number)]
        paragraphs = page_paragraphs(kept, levels, known)
        stop = held.runs_on(paragraphs[0]) if held is not None and paragraphs else 0
        if held is not None and stop:
            first = paragraphs[0]
            whole = join_lines(held.text, first.text[:stop], known)
            tail = first.text[:stop]
            builder.add("paragraph", whole.removesuffix(tail).rstrip())
            builder.start_page()
            builder.add("paragraph", tail, join=" " if whole.endswith(f" {tail}") else "")
            first.text = first.text[stop:].lstrip()
            paragraphs = paragraphs if first.text else paragraphs[1:]
        else:
            _add(builder, held)
            builder.start_page()
        held = paragraphs.pop() if paragraphs and not page.annotations.holds_text else None
        for paragraph in paragraphs:
            _add(builder, paragraph)
        _add_annotations(builder, page.annotations)
    _add(builder, held)


def _add(builder: DocumentBuilder, paragraph: Paragraph | None) -> None:
    if paragraph is None:
        return
    if paragraph.level:
        builder.heading(paragraph.text, paragraph.level)
    else:
        builder.add("table" if paragraph.table else "paragraph", paragraph.text)


def _add_annotations(builder: DocumentBuilder, annotations: PageAnnotations) -> None:
    """What was filled in and written onto a page, after its text."""
    builder.add("table", "\n".join(f"{name}: {value}" if name else value for name, value in annotations.fields))
    for text in annotations.texts:
        builder.add("paragraph", text)
