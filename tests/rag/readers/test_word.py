"""Reading Word documents, and Office archives that are broken or dangerous."""

from __future__ import annotations

import zipfile
from pathlib import Path

import docx
import pytest
from docx.oxml import parse_xml
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


WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
MATH = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def test_formulas_are_read_and_parted_from_the_words(tmp_path: Path) -> None:
    source = docx.Document()
    paragraph = source.add_paragraph("The share is")
    paragraph._p.append(
        parse_xml(
            f"<m:oMath {MATH}><m:r><m:t>x</m:t></m:r><m:r><m:t>=</m:t></m:r><m:f><m:num><m:r><m:t>a</m:t></m:r></m:num>"
            "<m:den><m:r><m:t>b</m:t></m:r></m:den></m:f><m:sSup><m:e><m:r><m:t>c</m:t></m:r></m:e>"
            "<m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup></m:oMath>"
        )
    )
    paragraph.add_run("of all.")
    source.save(str(tmp_path / "a.docx"))
    assert read(tmp_path / "a.docx").text == "The share is x=a/bc^2 of all.\n"


def test_rows_and_cells_in_content_controls_are_read(tmp_path: Path) -> None:
    source = docx.Document()
    table = source.add_table(rows=2, cols=2)
    for cell, text in zip(table._cells, ("Month", "Amount", "May", "900"), strict=True):
        cell.text = text
    cell = "<w:tc><w:p><w:r><w:t>June</w:t></w:r></w:p></w:tc>"
    table._tbl.append(
        parse_xml(
            f"<w:sdt {WORD}><w:sdtContent><w:tr>{cell}<w:sdt><w:sdtContent>{cell.replace('June', '950')}</w:sdtContent>"
            "</w:sdt></w:tr></w:sdtContent></w:sdt>"
        )
    )
    source.save(str(tmp_path / "a.docx"))
    assert "Month: May | Amount: 900\nMonth: June | Amount: 950" in read(tmp_path / "a.docx").text


def test_headers_stand_once_and_comments_with_their_authors(tmp_path: Path) -> None:
    source = docx.Document()
    paragraph = source.add_paragraph("The rent is due.")
    for _ in range(2):
        section = source.add_section()
        section.header.is_linked_to_previous = section.footer.is_linked_to_previous = False
        section.header.paragraphs[0].text = "The house of Anna"
        section.footer.paragraphs[0].text = "Confidential"
    source.add_comment(paragraph.runs, text="Since when?", author="Ben")
    source.save(str(tmp_path / "a.docx"))
    document = read(tmp_path / "a.docx")
    assert document.title == "The rent is due."
    assert document.text.split("\n\n")[1:] == [
        "Header: The house of Anna", "Footer: Confidential", "Comment by Ben: Since when?\n"
    ]  # fmt: skip
