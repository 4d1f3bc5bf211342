"""Reading workbooks, CSV and TSV: each row whole, under its columns' names."""

from __future__ import annotations

import zipfile
from pathlib import Path

import openpyxl
import pytest
from slotrag.rag.documents import ReadError
from slotrag.rag.readers import read


def test_sheets_are_headings_and_rows_name_their_columns(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for sheet, rows in ((book.active, [("City", "People"), ("Seoul", 9411211)]), (book.create_sheet(), [("a", "b")])):
        assert sheet is not None
        for row in rows:
            sheet.append(row)
    book.worksheets[0].title = "Cities"
    path = tmp_path / "a.xlsx"
    book.save(path)
    document = read(path)
    heading = document.blocks[0]
    assert heading.kind == "heading" and document.text[heading.start : heading.end] == "Cities"
    line = next(line for line in document.text.split("\n") if "Seoul" in line)
    assert "City: Seoul" in line and "People: 9411211" in line


@pytest.mark.parametrize("number", [1_048_577, 20_000_000_000])
def test_a_row_beyond_the_format_is_refused(tmp_path: Path, number: int) -> None:
    book = openpyxl.Workbook()
    book.worksheets[0].append(("City", "People"))
    book.save(tmp_path / "whole.xlsx")
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(tmp_path / "whole.xlsx") as whole, zipfile.ZipFile(path, "w") as archive:
        for name in whole.namelist():
            archive.writestr(name, whole.read(name).replace(b'<row r="1"', b'<row r="%d"' % number))
    with pytest.raises(ReadError, match="1,048,576 rows"):
        read(path)


@pytest.mark.parametrize(("mark", "name"), [(",", "a.csv"), (";", "a.csv"), ("\t", "a.tsv")])
def test_delimiters(tmp_path: Path, mark: str, name: str) -> None:
    path = tmp_path / name
    path.write_text(f"City{mark}People\nSeoul{mark}9\nBusan{mark}3\n", encoding="utf-8")
    lines = read(path).text.rstrip().split("\n")
    assert len(lines) == 3
    assert "City: Busan" in lines[2] and "People: 3" in lines[2]


def test_quoted_line_ends_stay_in_their_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('Name,Note\nAnna,"first\nsecond"\n', encoding="utf-8")
    assert "Note: first second" in read(path).text


def test_a_cell_may_be_of_any_size(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Name,Note\nAnna," + "word " * 60_000 + "end\n", encoding="utf-8")
    assert "word end" in read(path).text


def test_korean_csv_in_its_old_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("도시,인구\n서울,9\n부산,3\n".encode("cp949"))
    assert "도시: 서울" in read(path).text
