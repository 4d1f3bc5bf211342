"""E-books (epub): the chapters in reading order, each under its title in the book's table of contents.

A chapter is a page of XHTML and is read as such. It knows no pictures and no scripts, and opens no protected book.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ..documents import Document, NoText, ReadError, title_from
from .archives import check_archive, declared_type, office_score, parse_xml
from .base import Reader
from .builder import DocumentBuilder
from .html import html_document, html_text

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_FONT_METHODS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_PAGE_TYPES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document")


class EpubReader(Reader):
    """Reads epub 2 and 3."""

    name = "e-book"
    version = "2"
    media_types = ("application/epub+zip",)
    suffixes = (".epub",)

    def sniff(self, head: bytes, path: Path) -> float:
        declared = declared_type(head)
        if declared:
            return float(declared == self.media_types[0])
        return 0.5 * office_score(head, path, _CONTAINER, self.suffixes)

    def read(self, path: Path) -> Document:
        check_archive(path, entities=True)
        with zipfile.ZipFile(path) as archive:
            book = _Book(archive)
            builder = DocumentBuilder(self.media_types[0])
            builder.title = book.title
            for name in dict.fromkeys(book.spine):  # some books name a chapter twice
                _add_chapter(builder, book, name)
        if not builder.length and builder.partial:
            raise ReadError("broken e-book: no chapter can be read")
        if not builder.length:
            raise NoText("no text in any chapter")
        return builder.document()


@dataclass(slots=True)
class _Entry:
    """An entry of the table of contents: the page it leads to, its title, and the titles above it."""

    page: str
    title: str
    above: tuple[str, ...]
    whole: bool
    """It leads to the page's beginning, and not to a place within the page."""


@dataclass(slots=True)
class _Book:
    """What the book's package file says: title, pages in reading order, table of contents."""

    archive: zipfile.ZipFile
    title: str = ""
    spine: list[str] = field(default_factory=list)
    contents: dict[str, _Entry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        container = parse_xml(self.read(_CONTAINER))
        package = next((file.get("full-path") for file in _all(container, "rootfile") if file.get("full-path")), "")
        root = parse_xml(self.read(package))
        folder = posixpath.dirname(package)
        self.title = next(("".join(title.itertext()) for title in _all(root, "title")), "")
        items = {item.get("id", ""): item for item in _all(root, "item")}
        tables = [item for item in items.values() if "nav" in item.get("properties", "").split()]
        ncx = [item for item in items.values() if item.get("media-type") == "application/x-dtbncx+xml"]
        navigation = {_target(folder, item.get("href", ""))[0] for item in tables}
        for reference in _all(root, "itemref"):
            item = items.get(reference.get("idref", ""))
            if item is not None and item.get("media-type", _PAGE_TYPES[0]) in _PAGE_TYPES:
                name = _target(folder, item.get("href", ""))[0]
                if name not in navigation:
                    self.spine.append(name)
        if not self.spine:
            raise ReadError("broken e-book: it names no chapter")
        self._refuse_protected()
        for item in (tables or ncx)[:1]:
            self._read_contents(_target(folder, item.get("href", ""))[0])

    def read(self, name: str) -> bytes:
        """A part of the book. Raises `ReadError` where it is missing or broken."""
        try:
            return self.archive.read(name)
        except (KeyError, zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as error:
            raise ReadError(f"broken e-book: the part {name or 'that lists its chapters'} cannot be read") from error

    def _refuse_protected(self) -> None:
        """Fonts are often scrambled; where a chapter is, the book is protected."""
        if _ENCRYPTION not in self.archive.namelist():
            return
        for data in _all(parse_xml(self.read(_ENCRYPTION)), "EncryptedData"):
            method = next((part.get("Algorithm", "") for part in _all(data, "EncryptionMethod")), "")
            names = {unquote(part.get("URI", "")) for part in _all(data, "CipherReference")}
            if method not in _FONT_METHODS and names & set(self.spine):
                raise ReadError("protected by digital rights management (DRM): its chapters are encrypted")

    def _read_contents(self, name: str) -> None:
        """Take in the table of contents; a book whose own is missing or broken is read by its headings alone."""
        try:
            root = parse_xml(self.read(name))
        except ReadError:
            return
        entries: dict[str, list[_Entry]] = {}
        for entry in _entries(root, posixpath.dirname(name)):
            entries.setdefault(entry.page, []).append(entry)
        for page, found in entries.items():
            whole = [entry for entry in found if entry.whole]
            if whole or len(found) == 1:  # else the page holds several chapters: its headings tell them apart
                self.contents[page] = whole[-1] if whole else found[0]  # a part often begins with its first chapter


def _all(root: Any, name: str) -> Iterator[Any]:
    """Elements by name in whatever name space: books write several."""
    return root.iter(f"{{*}}{name}")


def _target(folder: str, reference: str) -> tuple[str, bool]:
    """(name of the part, whether it is the whole part) that a reference from a part in `folder` leads to."""
    parts = urlsplit(reference)
    return posixpath.normpath(posixpath.join(folder, unquote(parts.path))), not parts.fragment


def _entries(root: Any, folder: str) -> Iterator[_Entry]:
    """The entries of a table of contents, of epub 3 (nested lists of links) or of epub 2 (``navPoint``)."""
    tables = [nav for nav in _all(root, "nav") if "toc" in (nav.get("{http://www.idpf.org/2007/ops}type") or "")]
    top = (tables or [root])[0]
    for point in top.iter("{*}navPoint", "{*}li"):
        link, title = _link(point), _label(point)
        if link and title:
            outer = (_label(ancestor) for ancestor in point.iterancestors("{*}navPoint", "{*}li"))
            page, whole = _target(folder, link)
            yield _Entry(page, title, tuple(filter(None, outer))[::-1], whole)


def _child(point: Any, *names: str) -> Any:
    return next(point.iterchildren(*(f"{{*}}{name}" for name in names)), None)


def _link(point: Any) -> str:
    element = _child(point, "content", "a")
    return "" if element is None else element.get("src") or element.get("href") or ""


def _label(point: Any) -> str:
    element = _child(point, "navLabel", "a", "span")
    return "" if element is None else title_from("".join(element.itertext()))


def _add_chapter(builder: DocumentBuilder, book: _Book, name: str) -> None:
    """A page of the book. One that the table of contents does not name goes on with the chapter before."""
    try:
        document = html_document(html_text(book.read(name)), furniture=True)
    except ReadError as error:
        builder.notes.append(f"{name} not read: {error.reason}")
        builder.partial = True
        return
    builder.notes.extend(f"{name}: {note}" for note in document.notes)
    builder.partial = builder.partial or document.partial
    if not document.text:
        return
    entry = book.contents.get(name)
    if entry is not None:
        first = document.blocks[0]
        if first.kind == "heading" and _same(first.heading_path, entry.title):
            builder.new_section(*entry.above)
        else:
            builder.new_section(*entry.above, entry.title, shown=True)
    builder.add_all(document.text, document.blocks, keep_headings=True)


def _same(heading: str, title: str) -> bool:
    """Whether a heading says what the table of contents says; numbers, signs and case aside."""
    return _letters(heading) == _letters(title)


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, text)).casefold() or text
