"""Reading workbooks, CSV and TSV: each row whole, under its columns' names."""

from __future__ import annotations

import zipfile
from pathlib import Path

import openpyxl
import pytest
from openpyxl.comments import Comment
from slotrag.rag.documents import ReadError
from slotrag.rag.readers import read, sheets, tables


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


@pytest.mark.parametrize(("row", "column", "reason"), [(900, 1, "1,000 rows in all"), (1, 900, "million cells in all")])
def test_many_sheets_that_are_empty_but_for_a_far_cell_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: int, column: int, reason: str
) -> None:
    monkeypatch.setattr(sheets, "MAXIMUM_ROWS_TOGETHER", 1000)
    monkeypatch.setattr(sheets, "MAXIMUM_CELLS", 1000)
    book = openpyxl.Workbook()
    book.worksheets[0].cell(row, column, "Seoul")
    path = tmp_path / "a.xlsx"
    book.save(path)
    assert "Seoul" in read(path).text
    book.create_sheet("second").cell(row, column, "Busan")
    book.save(path)
    with pytest.raises(ReadError, match=reason):
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


def write_wide(path: Path, names: list[str], rows: int) -> Path:
    path.write_text("\n".join(",".join(row) for row in [names, *[["y"] * len(names)] * rows]), encoding="utf-8")
    return path


def test_long_names_are_not_repeated_whole_in_a_wide_table(tmp_path: Path) -> None:
    wide = write_wide(tmp_path / "a.csv", [f"{n:04} " + "name " * 12 + f"end {n}" for n in range(1000)], 200)
    text = read(wide).text
    assert len(text) < 3 * wide.stat().st_size and "0999" in text
    survey = read(write_wide(tmp_path / "b.csv", [f"{n} " + "question " * 8 for n in range(100)], 3)).text
    assert (
        all(len(line) < 5000 for line in survey.split("\n")[1:])
        and "99 question question…n question question: y" in survey
    )


def test_few_values_keep_their_names_in_a_wide_table(tmp_path: Path) -> None:
    names = [f"{n:04} " + "name " * 12 + "end" for n in range(1000)]
    path = tmp_path / "a.csv"
    path.write_text(f"{','.join(names)}\n{',' * 800}warm\n", encoding="utf-8")
    assert f"\n{names[800]}: warm\n" in read(path).text


def test_a_table_that_unfolds_too_far_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAXIMUM_BYTES", 1_000_000)
    path = write_wide(tmp_path / "a.csv", [f"{n} " + "name " * 12 for n in range(50)], 500)
    assert path.stat().st_size < 100_000
    with pytest.raises(ReadError, match="unfolds to more than 1 million"):
        read(path)


def test_comments_on_cells_are_read_with_their_cells(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    workbook.active["B2"] = 12.5
    workbook.active["B2"].comment = Comment("Paid twice,\nsee May", "Anna")
    other = workbook.create_sheet("Empty")
    other["A1"].comment = Comment("Nothing yet", "Ben")
    workbook.save(tmp_path / "a.xlsx")
    text = read(tmp_path / "a.xlsx").text
    assert "12.5\n\nComment on B2: Paid twice, see May\n\nEmpty\n\nComment on A1: Nothing yet\n" in text
