"""Reading plain text: encodings, paragraphs, and what is refused."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from slotrag.rag.documents import LineIndex, NoText, ReadError, UnsupportedFile
from slotrag.rag.readers import read

KOREAN = "보일러는 해마다 점검합니다.\n다음 점검은 사월에 있습니다.\n"
WESTERN = "The café’s menu costs 20 € – “très bien”, said the Müller family after dinner.\n"


def write(folder: Path, data: bytes, name: str = "notes.txt") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("text", "data"),
    [
        pytest.param(KOREAN, KOREAN.encode(), id="utf-8"),
        pytest.param(KOREAN, KOREAN.encode("utf-8-sig"), id="utf-8 with a mark"),
        pytest.param(KOREAN, codecs.BOM_UTF16_LE + KOREAN.encode("utf-16-le"), id="utf-16-le with a mark"),
        pytest.param(KOREAN, codecs.BOM_UTF16_BE + KOREAN.encode("utf-16-be"), id="utf-16-be with a mark"),
        pytest.param(KOREAN, codecs.BOM_UTF32_LE + KOREAN.encode("utf-32-le"), id="utf-32-le with a mark"),
        pytest.param(WESTERN, WESTERN.encode("utf-16-le"), id="utf-16-le without a mark"),
        pytest.param(WESTERN, WESTERN.encode("utf-16-be"), id="utf-16-be without a mark"),
        pytest.param(KOREAN, KOREAN.encode("cp949"), id="cp949"),
        pytest.param(WESTERN, WESTERN.encode("cp1252"), id="cp1252"),
    ],
)
def test_encodings(tmp_path: Path, text: str, data: bytes) -> None:
    document = read(write(tmp_path, data))
    assert document.text == text
    assert document.media_type == "text/plain"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(codecs.BOM_UTF8 + b"good \xff\xfe bad", id="a mark of UTF-8, then other bytes"),
        pytest.param(
            codecs.BOM_UTF16_LE + "good".encode("utf-16-le") + b"\x00\xd8\x20\x00", id="half a surrogate pair"
        ),
        pytest.param(bytes(range(0x80, 0x100)) * 8, id="every high byte"),
    ],
)
def test_what_no_encoding_fits_is_an_error_with_a_reason(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ReadError) as caught:
        read(write(tmp_path, data))
    assert "encod" in caught.value.reason or "marked as" in caught.value.reason


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n ", codecs.BOM_UTF8, codecs.BOM_UTF8 + b"\n\n"])
def test_a_file_without_text(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(NoText):
        read(write(tmp_path, data))


def test_bytes_of_a_program_are_not_text(tmp_path: Path) -> None:
    with pytest.raises((UnsupportedFile, ReadError)):
        read(write(tmp_path, b"\x7fELF\x02\x01\x01\x00" + bytes(range(32)) * 20, "program"))


def test_line_ends_and_composition_are_made_alike(tmp_path: Path) -> None:
    document = read(write(tmp_path, "cafe\u0301\r\ntwo\rthree\0".encode()[:-1]))
    assert document.text == "café\ntwo\nthree"


def test_paragraphs_lie_between_blank_lines(tmp_path: Path) -> None:
    document = read(write(tmp_path, b"\n  Rules of the house\n\n\nNo dogs.\nNo cats.\n \t\nNo birds.\n"))
    index = LineIndex(document.text)
    found = [(document.text[b.start : b.end], index.lines(b.start, b.end)) for b in document.blocks]
    assert found == [("Rules of the house", (2, 2)), ("No dogs.\nNo cats.", (5, 6)), ("No birds.", (8, 8))]
    assert {block.kind for block in document.blocks} == {"paragraph"}
    assert document.title == "Rules of the house"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="cannot be opened"):
        read(tmp_path / "missing.txt")
