"""Reading PDF files made here: pages, headings, hyphens, Korean, and files that cannot be read."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas
from slotrag.rag.documents import NoText, ReadError
from slotrag.rag.readers import read

Page = list[tuple[str, int]]


def write(path: Path, pages: list[Page], *, font: str = "Helvetica", password: str | None = None) -> Path:
    """A PDF of pages of (line, font size)."""
    canvas = Canvas(str(path), encrypt=password)
    for lines in pages:
        height = 780.0
        for text, size in lines:
            canvas.setFont(font, size)
            canvas.drawString(72, height, text)
            height -= size * 1.2
        canvas.showPage()
    canvas.save()
    return path


BODY: Page = [("The boiler is serviced every September by the landlord of the house", 11)] * 3


def test_pages_and_headings(tmp_path: Path) -> None:
    pages = [[("Heating", 24), *BODY], [("The second page tells of the cellar and its two damp walls.", 11)]]
    document = read(write(tmp_path / "a.pdf", pages))
    heading = next(block for block in document.blocks if block.kind == "heading")
    assert document.text[heading.start : heading.end] == "Heating"
    assert document.title == "Heating"
    assert document.page_at(document.text.index("boiler")) == 1
    assert document.page_at(document.text.index("cellar")) == 2
    assert not document.partial and document.reader.startswith("pdf/")


def test_a_word_parted_at_a_line_end_is_joined(tmp_path: Path) -> None:
    lines: Page = [("The contract ends in the month of Sep-", 11), ("tember, as both parties have agreed before.", 11)]
    assert "September, as both" in read(write(tmp_path / "a.pdf", [lines])).text


def test_korean(tmp_path: Path) -> None:
    pdfmetrics.registerFont(UnicodeCIDFont("HYSMyeongJo-Medium"))
    path = write(tmp_path / "a.pdf", [[("보일러는 매년 구월에 점검합니다.", 11)]], font="HYSMyeongJo-Medium")
    assert "보일러는 매년 구월에 점검합니다." in read(path).text


def test_a_password_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="password"):
        read(write(tmp_path / "a.pdf", [BODY], password="secret"))


def test_a_page_without_text_makes_it_partial(tmp_path: Path) -> None:
    document = read(write(tmp_path / "a.pdf", [BODY, [], BODY]))
    assert document.partial
    assert any("page 2" in note for note in document.notes)


def test_no_text_at_all_is_a_scan(tmp_path: Path) -> None:
    with pytest.raises(NoText, match="scan"):
        read(write(tmp_path / "a.pdf", [[], []]))


def test_broken_and_cut_off_files_fail(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7\nthis is no pdf")
    whole = write(tmp_path / "whole.pdf", [BODY]).read_bytes()
    cut = tmp_path / "cut.pdf"
    cut.write_bytes(whole[: len(whole) // 3])
    for path in (broken, cut):
        with pytest.raises(ReadError):
            read(path)


def test_a_zip_named_pdf_fails_with_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("words.txt", "words " * 100)
    with pytest.raises(ReadError, match="zip archive"):
        read(path)


def test_the_content_counts_not_the_suffix(tmp_path: Path) -> None:
    assert "boiler" in read(write(tmp_path / "a.txt", [BODY])).text
