"""Reading Word documents, and Office archives that are broken or dangerous."""

from __future__ import annotations

import zipfile
from pathlib import Path

import docx
import pytest
from slotrag.rag.documents import ReadError
from slotrag.rag.readers import archives, read


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    source = docx.Document()
    source.core_properties.title = "The lease"
    source.add_heading("Rent", 1)
    source.add_paragraph("The rent is due on the third day.")
    table = source.add_table(rows=2, cols=2)
    for cell, text in zip(table._cells, ("Month", "Amount", "May", "900"), strict=True):
        cell.text = text
    source.add_heading("Notice", 2)
    source.add_paragraph("Three months", style="List Bullet")
    path = tmp_path / "lease.docx"
    source.save(str(path))
    return path


def add_member(path: Path, name: str, data: str) -> None:
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)


def test_blocks_in_document_order(letter: Path) -> None:
    document = read(letter)
    kinds = [block.kind for block in document.blocks]
    assert kinds == ["heading", "paragraph", "table", "heading", "list"]
    assert document.title == "The lease"
    assert document.blocks[3].heading_path == "Rent > Notice" and document.blocks[3].level == 2
    table = document.blocks[2]
    assert "May" in document.text[table.start : table.end] and "900" in document.text[table.start : table.end]


def test_recognised_under_any_suffix(letter: Path) -> None:
    assert read(letter.rename(letter.with_suffix(".bin"))).reader.startswith("word/")


def test_a_cut_off_file_fails(letter: Path) -> None:
    data = letter.read_bytes()
    letter.write_bytes(data[: len(data) // 2])
    with pytest.raises(ReadError, match="broken"):
        read(letter)


def test_a_protected_file_is_named_so(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2000))
    with pytest.raises(ReadError, match="password"):
        read(path)


def test_declared_entities_are_refused(letter: Path) -> None:
    add_member(letter, "word/extra.xml", '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>')
    with pytest.raises(ReadError, match="entities"):
        read(letter)


def test_an_archive_that_unpacks_too_large_is_refused(letter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAXIMUM_XML", 2_000_000)
    add_member(letter, "word/large.xml", "<a>" + " " * 2_100_000 + "</a>")
    assert letter.stat().st_size < 100_000
    with pytest.raises(ReadError, match="refused"):
        read(letter)
