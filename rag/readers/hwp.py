"""Hangul documents as binary files (hwp 5.x): headings, paragraphs, tables, boxes and notes.

Page headers and footers and comments are left out. Where its pages end is known only to the program that lays them
out. Protected documents, distribution documents (their text is encrypted) and hwp 3.x are named as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..documents import Document, NoText, ReadError
from .archives import OLE_MAGIC
from .base import Reader
from .builder import DocumentBuilder
from .hangul import Paragraph, Table, add_paragraph, style_level
from .hwp_records import Record, text_pieces, trees, unpacked

_SIGNATURE = b"HWP Document File"
_OLD_SIGNATURE = b"HWP Document File V"
_SECTION = re.compile(r"BodyText/Section(\d+)")
_SUMMARY = "\x05HwpSummaryInformation"
_TITLE_PROPERTY = 2

_COMPRESSED, _PASSWORD, _DISTRIBUTION, _DRM = 1 << 0, 1 << 1, 1 << 2, 1 << 4
_CERTIFICATE, _CERTIFICATE_DRM = 1 << 8, 1 << 10

_PARA_SHAPE, _STYLE = 25, 26
_PARA_HEADER, _PARA_TEXT, _CTRL_HEADER, _LIST_HEADER, _TABLE, _EQUATION = 66, 67, 71, 72, 77, 88
_OUTLINE = 1
_LEFT_OUT = frozenset((b"head", b"foot", b"tcmt", b"secd", b"cold"))
"""Page headers and footers, comments, and settings of a section, whose master pages hold text too."""


@dataclass(slots=True)
class _Shapes:
    """(level of a heading or 0, whether it is a list item) of the paragraph shapes and styles, by number."""

    shapes: list[tuple[int, bool]]
    styles: list[tuple[int, bool]]


class HwpReader(Reader):
    """Reads hwp 5.x."""

    name = "Hangul (hwp)"
    version = "2"
    media_types = ("application/x-hwp", "application/vnd.hancom.hwp", "application/haansofthwp")
    suffixes = (".hwp",)

    def sniff(self, head: bytes, path: Path) -> float:
        if head.startswith(_OLD_SIGNATURE):
            return 1.0
        if not head.startswith(OLE_MAGIC):
            return 0.0
        status = path.stat()
        known = _is_hwp(str(path), status.st_size, status.st_mtime_ns)
        if known is None:
            return 0.3 if path.suffix.lower() in self.suffixes else 0.0
        return float(known)

    def read(self, path: Path) -> Document:
        import olefile

        with path.open("rb") as stream:
            if stream.read(len(_OLD_SIGNATURE)) == _OLD_SIGNATURE:
                raise ReadError("in the format of Hangul 3 or older: save it as hwpx")
        try:
            file = olefile.OleFileIO(str(path))
        except Exception as error:  # whatever a broken file provokes
            raise ReadError("broken: not a whole compound file, as hwp files are") from error
        with file:
            flags = _flags(file)
            builder = DocumentBuilder(self.media_types[0])
            builder.title = _title(file)
            whole = _add_sections(builder, file, bool(flags & _COMPRESSED))
        if not whole:
            if not builder.length:
                raise ReadError("broken: the file is cut off")
            builder.notes.append("the file is cut off, its end is missing")
            builder.partial = True
        if not builder.length:
            raise NoText("no text in the document")
        return builder.document()


@lru_cache(maxsize=1)
def _is_hwp(path: str, size: int, mtime_ns: int) -> bool | None:
    """Whether a compound file is a hwp file; None where it is broken."""
    import olefile

    try:
        with olefile.OleFileIO(path) as file:
            return bool(file.exists("FileHeader")) and file.openstream("FileHeader").read(17) == _SIGNATURE
    except Exception:  # the library raises whatever a broken file provokes
        return None


def _flags(file: Any) -> int:
    """The file's properties. Raises `ReadError` where they say that the text is encrypted."""
    header = _stream(file, "FileHeader")
    if not header.startswith(_SIGNATURE) or len(header) < 40:
        raise ReadError("broken: its header is not that of a hwp file")
    if header[35] != 5:
        raise ReadError(f"in version {header[35]} of the hwp format, which is not known")
    flags = int.from_bytes(header[36:40], "little")
    if flags & _PASSWORD:
        raise ReadError("protected by a password")
    if flags & (_DRM | _CERTIFICATE | _CERTIFICATE_DRM):
        raise ReadError("protected by digital rights management (DRM)")
    if flags & _DISTRIBUTION:
        raise ReadError("a distribution document, whose text is encrypted: save an open copy")
    return flags


def _stream(file: Any, name: str) -> bytes:
    try:
        return file.openstream(name).read()
    except OSError as error:
        raise ReadError(f"broken: its part {name} cannot be read") from error


def _title(file: Any) -> str:
    """The title among the file's properties."""
    if not file.exists(_SUMMARY):
        return ""
    value = file.getproperties(_SUMMARY).get(_TITLE_PROPERTY)
    return value.rstrip("\0") if isinstance(value, str) else ""


def _add_sections(builder: DocumentBuilder, file: Any, compressed: bool) -> bool:
    """Append the text of all sections; whether all of it was there."""
    names = ("/".join(parts) for parts in file.listdir())
    sections = {int(match.group(1)): name for name in names if (match := _SECTION.fullmatch(name))}
    if not sections:
        raise ReadError("broken: it holds no section of text")

    def content(name: str) -> tuple[bytes, bool]:
        data = _stream(file, name)
        return unpacked(data) if compressed else (data, True)

    shapes = _shapes(content("DocInfo")[0])
    all_whole = True
    for number in sorted(sections):
        data, whole = content(sections[number])
        all_whole = all_whole and whole
        for record in trees(data):
            if record.tag == _PARA_HEADER:
                add_paragraph(builder, _paragraph(record, shapes))
    return all_whole


def _shapes(data: bytes) -> _Shapes:
    found = _Shapes([], [])
    for record in (record for tree in trees(data) for record in (tree, *tree.children)):
        if record.tag == _PARA_SHAPE:
            attributes = int.from_bytes(record.data[:4], "little")
            kind, level = attributes >> 23 & 3, attributes >> 25 & 7
            found.shapes.append((level + 1 if kind == _OUTLINE else 0, kind > _OUTLINE))
        elif record.tag == _STYLE:
            name, at = _word_string(record.data, 0)
            english, at = _word_string(record.data, at)
            level, listed = _at(found.shapes, int.from_bytes(record.data[at + 4 : at + 6], "little"))
            found.styles.append((style_level(name) or style_level(english) or level, listed))
    return found


def _word_string(data: bytes, at: int) -> tuple[str, int]:
    """A string behind its length, and the place after it."""
    end = at + 2 + 2 * int.from_bytes(data[at : at + 2], "little")
    return data[at + 2 : end].decode("utf-16-le", "replace"), end


def _at(found: list[tuple[int, bool]], number: int) -> tuple[int, bool]:
    return found[number] if number < len(found) else (0, False)


def _paragraph(record: Record, shapes: _Shapes) -> Paragraph:
    level, listed = _at(shapes.shapes, int.from_bytes(record.data[8:10], "little"))
    style, _ = _at(shapes.styles, record.data[10] if len(record.data) > 10 else len(shapes.styles))
    paragraph = Paragraph([], level or style, listed)
    controls = record.inner(_CTRL_HEADER)
    for text in record.inner(_PARA_TEXT):
        for piece in text_pieces(text.data):
            if piece is not None:
                paragraph.pieces.append(piece)
            elif (control := next(controls, None)) is not None:
                paragraph.pieces.extend(_control(control, shapes))
    for control in controls:  # none is left in a sound file
        paragraph.pieces.extend(_control(control, shapes))
    return paragraph


def _control(control: Record, shapes: _Shapes) -> Iterator[str | Table | list[Paragraph]]:
    """What stands for a control in its paragraph's text."""
    kind = control.data[:4][::-1]
    if kind in _LEFT_OUT:
        return
    if kind == b"tbl ":
        yield _table(control, shapes)
    elif kind == b"eqed":
        for equation in control.inner(_EQUATION):
            yield f" {_word_string(equation.data, 4)[0].strip()} "
    else:
        yield list(_inner(control, shapes))


def _inner(record: Record, shapes: _Shapes) -> Iterator[Paragraph]:
    """The paragraphs at any depth below a shape or note, none of those within others."""
    for child in record.children:
        if child.tag == _PARA_HEADER:
            yield _paragraph(child, shapes)
        else:
            yield from _inner(child, shapes)


def _table(control: Record, shapes: _Shapes) -> Table:
    """A table: a list header begins its caption (ahead of the table's own record) and each cell; paragraphs follow."""
    table = Table()
    paragraphs = table.caption
    begun = False
    for child in control.children:
        if child.tag == _TABLE:
            begun = True
        elif child.tag == _LIST_HEADER and begun:
            column, row = (int.from_bytes(child.data[at : at + 2], "little") for at in (8, 10))
            paragraphs = table.cells.setdefault((row, column), [])
        if child.tag == _PARA_HEADER:
            paragraphs.append(_paragraph(child, shapes))
        else:
            paragraphs.extend(_inner(child, shapes))
    return table
