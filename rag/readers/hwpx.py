"""Hangul documents as zipped XML (hwpx, the OWPML standard): headings, paragraphs, tables, boxes and notes.

Page headers and footers, comments and deleted text are left out. Where its pages end is known only to the program that
lays them out.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..documents import Document, NoText, ReadError
from .archives import check_archive, declared_type, office_score, parse_xml
from .base import Reader
from .builder import DocumentBuilder
from .hangul import Paragraph, Table, add_paragraph, style_level

_SECTION = re.compile(r"Contents/section(\d+)\.xml")
_FIRST_SECTION = "Contents/section0.xml"
_HEADER = "Contents/header.xml"
_PACKAGE = "Contents/content.hpf"
_MANIFEST = "META-INF/manifest.xml"
_SIGNS = {"tab": "\t", "lineBreak": "\n", "nbSpace": " ", "fwSpace": " ", "hyphen": "-"}
_NOTES = ("footNote", "endNote")

Levels = dict[str, tuple[int, bool]]
"""(level of a heading or 0, whether it is a list item) by id."""


class HwpxReader(Reader):
    """Reads hwpx."""

    name = "Hangul (hwpx)"
    version = "2"
    media_types = ("application/hwp+zip", "application/vnd.hancom.hwpx")
    suffixes = (".hwpx",)

    def sniff(self, head: bytes, path: Path) -> float:
        if declared_type(head) == self.media_types[0]:
            return 1.0
        return office_score(head, path, _FIRST_SECTION, self.suffixes)

    def read(self, path: Path) -> Document:
        check_archive(path)
        builder = DocumentBuilder(self.media_types[0])
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if _MANIFEST in names and b"encryption-data" in _read(archive, _MANIFEST):
                raise ReadError("protected by a password")
            if _PACKAGE in names:
                title = next(parse_xml(_read(archive, _PACKAGE)).iter("{*}title"), None)
                builder.title = "" if title is None else "".join(title.itertext())
            shapes, styles = _levels(parse_xml(_read(archive, _HEADER))) if _HEADER in names else ({}, {})
            sections = {int(match.group(1)): name for name in names if (match := _SECTION.fullmatch(name))}
            if not sections:
                raise ReadError("broken: it holds no section of text")
            for number in sorted(sections):
                for element in parse_xml(_read(archive, sections[number])).iterchildren("{*}p"):
                    add_paragraph(builder, _paragraph(element, shapes, styles))
        if not builder.length:
            raise NoText("no text in the document")
        return builder.document()


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        return archive.read(name)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise ReadError(f"broken: its part {name} cannot be read") from error


def _levels(header: Any) -> tuple[Levels, Levels]:
    """What the paragraph shapes and the styles of a document make of a paragraph, by their ids."""
    shapes: Levels = {}
    for shape in header.iter("{*}paraPr"):
        heading = next(shape.iter("{*}heading"), None)
        kind = heading.get("type", "") if heading is not None else ""
        number = heading.get("level", "0") if heading is not None else ""
        level = int(number) + 1 if kind == "OUTLINE" and number.isdecimal() else 0
        shapes[shape.get("id", "")] = level, kind in ("NUMBER", "BULLET")
    styles: Levels = {}
    for style in header.iter("{*}style"):
        named = style_level(style.get("name", "")) or style_level(style.get("engName", ""))
        level, listed = shapes.get(style.get("paraPrIDRef", ""), (0, False))
        styles[style.get("id", "")] = named or level, listed
    return shapes, styles


def _paragraph(element: Any, shapes: Levels, styles: Levels) -> Paragraph:
    level, listed = shapes.get(element.get("paraPrIDRef", ""), (0, False))
    style, _ = styles.get(element.get("styleIDRef", ""), (0, False))
    paragraph = Paragraph([], level or style, listed)
    deleted = False
    for child in (child for run in element.iterchildren("{*}run") for child in run):
        name = _name(child)
        if name == "t":
            deleted = _add_text(paragraph, child, deleted)
        elif name == "tbl":
            paragraph.pieces.append(_table(child, shapes, styles))
        elif name == "equation":
            scripts = ("".join(script.itertext()).strip() for script in child.iterchildren("{*}script"))
            paragraph.pieces.extend(f" {script} " for script in scripts)
        elif name == "ctrl":
            notes = (note for note in child if _name(note) in _NOTES)
            paragraph.pieces.extend(list(_inner(note, shapes, styles)) for note in notes)
        else:
            paragraph.pieces.extend(list(_inner(box, shapes, styles)) for box in _boxes(child))
    return paragraph


def _name(element: Any) -> str:
    """An element's name without its name space, of which there is one for each edition of the standard."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _add_text(paragraph: Paragraph, element: Any, deleted: bool) -> bool:
    """Append a text element; whether what follows it is marked as deleted."""
    texts = [element.text]
    if deleted:
        texts.clear()
    for sign in element:
        name = _name(sign)
        if name in ("deleteBegin", "deleteEnd"):
            deleted = name == "deleteBegin"
        if not deleted:
            texts += (_SIGNS.get(name, ""), sign.tail)
    paragraph.pieces.append("".join(filter(None, texts)))
    return deleted


def _inner(element: Any, shapes: Levels, styles: Levels) -> Iterator[Paragraph]:
    """The paragraphs of a cell, box, note or caption."""
    for part in element.iterchildren("{*}subList"):
        for paragraph in part.iterchildren("{*}p"):
            yield _paragraph(paragraph, shapes, styles)


def _boxes(shape: Any) -> Iterator[Any]:
    """The text boxes and captions of a drawn shape, of each shape in a group too; not those within their text."""
    for child in shape:
        if _name(child) in ("drawText", "caption"):
            yield child
        else:
            yield from _boxes(child)


def _table(element: Any, shapes: Levels, styles: Levels) -> Table:
    table = Table()
    for caption in element.iterchildren("{*}caption"):
        table.caption.extend(_inner(caption, shapes, styles))
    for row, line in enumerate(element.iterchildren("{*}tr")):
        for position, cell in enumerate(line.iterchildren("{*}tc")):
            address = next(cell.iterchildren("{*}cellAddr"), None)
            column = address.get("colAddr", "") if address is not None else ""
            place = row, int(column) if column.isdecimal() else position
            table.cells.setdefault(place, []).extend(_inner(cell, shapes, styles))
    return table
