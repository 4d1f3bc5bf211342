"""Writes small e-books (epub), as the format's description has them; it knows nothing of slotrag."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

CONTAINER = (
    '<?xml version="1.0"?><container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
DOCTYPE = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">'

Entry = tuple[str, str, Sequence["Entry"]]
"""(title, reference, entries below it) of a table of contents."""


def xhtml(body: str, title: str = "") -> str:
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n{DOCTYPE}\n<html xmlns="http://www.w3.org/1999/xhtml">'
        f"<head><title>{title}</title></head><body>{body}</body></html>"
    )


def nav(entries: Sequence[Entry]) -> str:
    """The table of contents of epub 3."""
    head = '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><body>'
    return f'{head}<nav epub:type="toc"><h1>Contents</h1>{_list(entries)}</nav></body></html>'


def _list(entries: Sequence[Entry]) -> str:
    items = (
        f'<li><a href="{reference}">{escape(title)}</a>{_list(below)}</li>'
        if reference
        else f"<li><span>{escape(title)}</span>{_list(below)}</li>"
        for title, reference, below in entries
    )
    return f"<ol>{''.join(items)}</ol>" if entries else ""


def ncx(entries: Sequence[Entry]) -> str:
    """The table of contents of epub 2."""
    head = (
        '<?xml version="1.0"?><!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://example.org/ncx.dtd">'
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1"><docTitle><text>Book</text></docTitle>'
    )
    return f"{head}<navMap>{_points(entries)}</navMap></ncx>"


def _points(entries: Sequence[Entry]) -> str:
    return "".join(
        f'<navPoint id="n"><navLabel><text>{escape(title)}</text></navLabel><content src="{reference}"/>'
        f"{_points(below)}</navPoint>"
        for title, reference, below in entries
    )


def write_epub(
    path: Path,
    chapters: Sequence[tuple[str, str]],
    contents: Sequence[Entry] = (),
    *,
    title: str = "The house",
    version: int = 3,
    extra: Sequence[tuple[str, str]] = (),
) -> Path:
    """Write a book of (file name, XHTML body) `chapters` in reading order; `extra` are further parts."""
    items = "".join(
        f'<item id="c{number}" href="{name.replace(" ", "%20")}" media-type="application/xhtml+xml"/>'
        for number, (name, _) in enumerate(chapters)
    )
    table = ("nav.xhtml", nav(contents), "application/xhtml+xml", 'properties="nav"')
    if version == 2:
        table = ("toc.ncx", ncx(contents), "application/x-dtbncx+xml", "")
    items += f'<item id="toc" href="{table[0]}" media-type="{table[2]}" {table[3]}/>'
    spine = "".join(f'<itemref idref="c{number}"/>' for number in range(len(chapters)))
    package = (
        f'<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="{version}.0"><metadata '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{escape(title)}</dc:title></metadata>'
        f'<manifest>{items}</manifest><spine toc="toc"><itemref idref="toc"/>{spine}</spine></package>'
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("mimetype"), "application/epub+zip")
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr("OEBPS/book.opf", package)
        archive.writestr(f"OEBPS/{table[0]}", table[1])
        for name, body in chapters:
            archive.writestr(f"OEBPS/{name}", xhtml(body))
        for name, data in extra:
            archive.writestr(name, data)
    return path
