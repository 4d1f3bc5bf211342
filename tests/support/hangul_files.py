"""Writes small documents of the Korean word processor, as its makers describe the formats: hwp 5 and hwpx.

A document is a list of parts: ("heading", level, text), ("text", text), ("bullet", text), ("table", rows),
("note", text, footnote) and ("box", text). It knows nothing of slotrag.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from compound_files import write_compound

Part = tuple[Any, ...]

PARA_SHAPE, STYLE = 25, 26
PARA_HEADER, PARA_TEXT, CTRL_HEADER, LIST_HEADER, TABLE = 66, 67, 71, 72, 77
SHAPE_COMPONENT = 76
BODY, BULLET, FIRST_OUTLINE = 0, 1, 2  # numbers of the paragraph shapes, and of the styles


def record(tag: int, level: int, data: bytes) -> bytes:
    size = min(len(data), 0xFFF)
    long = struct.pack("<I", len(data)) if size == 0xFFF else b""
    return struct.pack("<I", tag | level << 10 | size << 20) + long + data


def words(text: str) -> bytes:
    return struct.pack("<H", len(text.encode("utf-16-le")) // 2) + text.encode("utf-16-le")


def control(code: int, kind: bytes = b"\0\0\0\0") -> bytes:
    """A control character of eight, which names the kind of control."""
    return struct.pack("<H", code) + kind[::-1] + bytes(8) + struct.pack("<H", code)


def paragraph(text: str | bytes, level: int = 0, shape: int = BODY) -> bytes:
    data = text if isinstance(text, bytes) else text.encode("utf-16-le")
    data = data.replace(b"\t\0", control(9)) + b"\x0d\0"
    head = struct.pack("<IIHBBHHHI", len(data) // 2 | 1 << 31, 0, shape, shape, 0, 1, 0, 1, 0)
    return record(PARA_HEADER, level, head) + record(PARA_TEXT, level + 1, data)


def table(rows: Sequence[Sequence[str | bytes]], level: int) -> bytes:
    """The records of a table; a cell given as bytes holds records of its own."""
    found = record(CTRL_HEADER, level, b"tbl "[::-1] + bytes(40))
    found += record(TABLE, level + 1, struct.pack("<IHH", 0, len(rows), max(map(len, rows))) + bytes(18))
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            place = struct.pack("<IIHHHH", 1, 0, column, row, 1, 1)
            found += record(LIST_HEADER, level + 1, place + bytes(31))
            found += cell if isinstance(cell, bytes) else paragraph(cell, level + 1)
    return found


def inner(kind: bytes, text: str, level: int) -> bytes:
    """A control of some kind with one paragraph in it; that of a shape lies a level deeper."""
    found = record(CTRL_HEADER, level, kind[::-1] + bytes(20))
    if kind == b"gso ":
        level += 1
        found += record(SHAPE_COMPONENT, level, bytes(40))
    return found + record(LIST_HEADER, level + 1, struct.pack("<II", 1, 0)) + paragraph(text, level + 1)


def hwp_part(part: Part) -> bytes:
    match part:
        case ("heading", level, text):
            return paragraph(text, shape=FIRST_OUTLINE + level - 1)
        case ("bullet", text):
            return paragraph(text, shape=BULLET)
        case ("text", text):
            return paragraph(text)
        case ("table", rows):
            return paragraph(control(11, b"tbl ")) + table(rows, 1)
        case ("note", text, note):
            return paragraph(text.encode("utf-16-le") + control(17, b"fn  ")) + inner(b"fn  ", note, 1)
        case ("box", text):
            return paragraph(control(11, b"gso ")) + inner(b"gso ", text, 1)
    raise ValueError(part)


def document_info() -> bytes:
    """Paragraph shapes and styles: body, bullet, three outline levels."""
    kinds = [0, 3 << 23, *(1 << 23 | level << 25 for level in range(3))]
    names = ["바탕글", "글머리", *(f"개요 {level}" for level in range(1, 4))]
    found = record(16, 0, bytes(26)) + record(17, 0, bytes(60))
    found += b"".join(record(PARA_SHAPE, 1, struct.pack("<I", kind) + bytes(50)) for kind in kinds)
    for number, name in enumerate(names):
        tail = struct.pack("<BBhHH", 0, number, 1042, number, 0)
        found += record(STYLE, 1, words(name) + words("") + tail)
    return found


def write_hwp(
    path: Path, parts: Sequence[Part] = (), *, flags: int = 1, version: int = 5, sections: Sequence[bytes] = ()
) -> Path:
    """Write a document of `parts`, or of ready `sections`; `flags` as in the file's header (bit 0: compressed)."""
    settings = control(2, b"secd") + control(16, b"head")
    first = paragraph(settings) + record(CTRL_HEADER, 1, b"dces") + inner(b"head", "머리말", 1)
    bodies = list(sections) or [first + b"".join(map(hwp_part, parts))]
    streams = {f"BodyText/Section{number}": body for number, body in enumerate(bodies)}
    streams["DocInfo"] = document_info()
    if flags & 1:
        streams = {name: deflated(data) for name, data in streams.items()}
    header = b"HWP Document File".ljust(32, b"\0") + bytes((0, 3, 0, version)) + struct.pack("<I", flags)
    streams["FileHeader"] = header.ljust(256, b"\0")
    return write_compound(path, streams)


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PARAGRAPHS = "http://www.hancom.co.kr/hwpml/2011/paragraph"
HEAD = f'xmlns:hh="http://www.hancom.co.kr/hwpml/2011/head" xmlns:hp="{PARAGRAPHS}"'


def xml_paragraph(content: str, shape: int = BODY) -> str:
    return f'<hp:p paraPrIDRef="{shape}" styleIDRef="{shape}"><hp:run>{content}</hp:run></hp:p>'


def xml_text(text: str) -> str:
    return f"<hp:t>{escape(text)}</hp:t>".replace("\t", '<hp:tab width="4000"/>').replace("\n", "<hp:lineBreak/>")


def xml_inner(name: str, text: str) -> str:
    return f"<hp:{name}><hp:subList>{xml_paragraph(xml_text(text))}</hp:subList></hp:{name}>"


def xml_table(rows: Sequence[Sequence[str]]) -> str:
    """A table; a cell that begins with ``<`` is taken as ready XML."""
    lines = ""
    for row, cells in enumerate(rows):
        found = (
            f"<hp:tc><hp:subList>{cell if cell.startswith('<') else xml_paragraph(xml_text(cell))}</hp:subList>"
            f'<hp:cellAddr colAddr="{column}" rowAddr="{row}"/></hp:tc>'
            for column, cell in enumerate(cells)
        )
        lines += f"<hp:tr>{''.join(found)}</hp:tr>"
    return f"<hp:tbl>{lines}</hp:tbl>"


def hwpx_part(part: Part) -> str:
    match part:
        case ("heading", level, text):
            return xml_paragraph(xml_text(text), FIRST_OUTLINE + level - 1)
        case ("bullet", text):
            return xml_paragraph(xml_text(text), BULLET)
        case ("text", text):
            return xml_paragraph(xml_text(text))
        case ("table", rows):
            return xml_paragraph(xml_table(rows))
        case ("note", text, note):
            return xml_paragraph(xml_text(text) + f"<hp:ctrl>{xml_inner('footNote', note)}</hp:ctrl>")
        case ("box", text):
            return xml_paragraph(f"<hp:rect>{xml_inner('drawText', text)}</hp:rect>")
    raise ValueError(part)


def write_hwpx(path: Path, parts: Sequence[Part], *, title: str = "", encrypted: bool = False, body: str = "") -> Path:
    """Write a document of `parts`, and of `body`, which is ready XML."""
    kinds = [("NONE", 0), ("BULLET", 0), *(("OUTLINE", level) for level in range(3))]
    shapes = "".join(
        f'<hh:paraPr id="{number}"><hh:heading type="{kind}" idRef="0" level="{level}"/></hh:paraPr>'
        for number, (kind, level) in enumerate(kinds)
    )
    header = f"<hh:head {HEAD}><hh:refList>{shapes}</hh:refList></hh:head>"
    furniture = xml_paragraph(f"<hp:secPr/><hp:ctrl>{xml_inner('header', '머리말')}</hp:ctrl>")
    section = (
        f'<hs:sec xmlns:hs="http://www.hancom.co.kr/hwpml/2011/section" {HEAD}>'
        f"{furniture}{''.join(map(hwpx_part, parts))}{body}</hs:sec>"
    )
    package = f'<package xmlns="http://www.idpf.org/2007/opf/"><metadata><title>{title}</title></metadata></package>'
    manifest = '<manifest xmlns="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">{}</manifest>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("mimetype"), "application/hwp+zip")
        archive.writestr("META-INF/manifest.xml", manifest.format("<encryption-data/>" if encrypted else ""))
        archive.writestr("META-INF/container.xml", "<container/>")
        archive.writestr("Contents/content.hpf", package)
        archive.writestr("Contents/header.xml", header)
        archive.writestr("Contents/section0.xml", section)
    return path
