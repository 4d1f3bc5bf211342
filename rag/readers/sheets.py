"""Excel workbooks (xlsx): each sheet under its name, each row a line ``column: value | column: value``.

Formulas give the values that the program saved last; one never calculated gives nothing.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..documents import Document, NoText, ReadError
from .archives import check_archive, office_score
from .base import Reader
from .builder import DocumentBuilder
from .sheet_notes import sheet_notes
from .tables import bounded, table_lines

MAXIMUM_CELLS = 50_000_000
"""Most cells of a workbook, empty ones before the last of a row counted; a lone value far to the right makes many."""

MAXIMUM_ROWS = 1_048_576
"""Most rows of a sheet, by the format; a number beyond it stands in broken files only."""

MAXIMUM_ROWS_TOGETHER = 8 * MAXIMUM_ROWS
"""Most rows of a workbook, empty ones before the last of a sheet counted; a lone value far down makes many."""


class SheetsReader(Reader):
    """Reads xlsx, row by row."""

    name = "Excel"
    version = "3"
    media_types = ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",)
    suffixes = (".xlsx", ".xlsm")

    def sniff(self, head: bytes, path: Path) -> float:
        return office_score(head, path, "xl/workbook.xml", self.suffixes)

    def read(self, path: Path) -> Document:
        check_archive(path)
        import openpyxl

        builder = DocumentBuilder(self.media_types[0])
        with (
            path.open("rb") as stream,
            zipfile.ZipFile(path) as archive,
        ):  # by its name the library would refuse a file with another suffix
            workbook = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
            builder.title = workbook.properties.title or ""
            walked: Counter[str] = Counter()
            for sheet in workbook.worksheets:
                lines = [line for line in table_lines(_rows(sheet, walked)) if line]
                part: str = getattr(sheet, "_worksheet_path")  # noqa: B009  # the library has no public name for it
                notes = list(bounded(sheet_notes(archive, part)))
                if lines or notes:
                    builder.heading(sheet.title, 1)
                builder.add("table", "\n".join(lines))
                for note in notes:
                    builder.add("paragraph", note)
        if not builder.length:
            raise NoText("no cell with a value")
        return builder.document()


def _rows(sheet: Any, walked: Counter[str]) -> Iterator[tuple[object, ...]]:
    """The rows that hold something, without the empty cells at their ends.

    `walked` counts rows and cells over the sheets of a workbook: each takes time, also those that hold nothing.
    """
    sheet.reset_dimensions()  # some programs write a wrong size, which would cut the sheet
    left = MAXIMUM_ROWS_TOGETHER - walked["rows"]
    number = 0
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):  # those that the file leaves out come as empty
        if number > MAXIMUM_ROWS:
            raise ReadError(f"refused: more than {MAXIMUM_ROWS:,} rows in a sheet, the most that the format allows")
        if number > left:
            raise ReadError(f"refused: more than {MAXIMUM_ROWS_TOGETHER:,} rows in all sheets together")
        if not row:
            continue
        walked["cells"] += len(row)
        if walked["cells"] > MAXIMUM_CELLS:
            raise ReadError(f"refused: more than {MAXIMUM_CELLS // 1_000_000} million cells in all sheets together")
        last = max((column for column, cell in enumerate(row, 1) if cell is not None), default=0)
        if last:
            yield row[:last]
    walked["rows"] += number
