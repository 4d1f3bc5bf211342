"""Rows of cells to readable lines, one a row: ``column: value | column: value``. It knows no format.

The column names stand in every line, so that a passage out of the middle of a table can be read alone.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence

from ..documents import ReadError
from .decoding import MAXIMUM_BYTES

_NUMBER = re.compile(r"[-+]?[\d.,:/%€$₩£ -]*\d[\d.,:/%€$₩£ -]*")
HEADER_LENGTH = 80
"""Most characters of a column's name; a row with a longer cell is no header."""

NAMES_LENGTH = 4_000
"""Most characters that the names take in one line; those of a wider row are cut alike, or left out."""

_LEAST_NAME = 12
"""Characters below which a name is not cut but left out."""


def cell_text(value: object) -> str:
    """A cell as one line: whole numbers without ``.0``, dates in ISO form, no line ends."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(" ", "seconds")
    return " ".join(str(value).split())


def is_number(text: str) -> bool:
    """Whether a cell holds a number, an amount, a share or a date in digits."""
    return bool(_NUMBER.fullmatch(text))


def table_lines(rows: Iterable[Sequence[object]], *, header: bool | None = None) -> Iterator[str]:
    """The lines of a table; a row without text gives an empty line.

    Parameters
    ----------
    header : bool, optional
        Whether the first row names the columns; by default judged by its look (short distinct words, a second row).

    Raises
    ------
    ReadError
        The lines, in which the names are repeated, come to more text than a document may hold.

    Examples
    --------
    >>> list(table_lines([["City", "People"], ["Seoul", 9411211]]))
    ['City | People', 'City: Seoul | People: 9411211']
    """
    return bounded(_lines(iter(rows), header))


def bounded(lines: Iterable[str]) -> Iterator[str]:
    """`lines` up to the size of a document's text; a small file may unfold into any number of them.

    Raises
    ------
    ReadError
        They are longer.
    """
    length = 0
    for line in lines:
        length += len(line) + 1
        if length > MAXIMUM_BYTES:
            raise ReadError(f"unfolds to more than {MAXIMUM_BYTES // 1_000_000} million characters of text: split it")
        yield line


def _lines(iterator: Iterator[Sequence[object]], header: bool | None) -> Iterator[str]:
    first = next(iterator, None)
    if first is None:
        return
    names = [cell_text(cell) for cell in first]
    yield " | ".join(name for name in names if name)
    if not (_is_header(names) if header is None else header):
        names = []
    for row in iterator:
        yield _line(row, names)


def _line(row: Sequence[object], names: list[str]) -> str:
    filled = [
        (names[number] if number < len(names) else "", text)
        for number, cell in enumerate(row)
        if (text := cell_text(cell))
    ]
    if sum(len(name) for name, _ in filled) > NAMES_LENGTH:
        width = NAMES_LENGTH // len(filled)
        filled = [(shortened(name, width) if width >= _LEAST_NAME else "", text) for name, text in filled]
    return " | ".join(f"{name}: {text}" if name else text for name, text in filled)


def shortened(name: str, length: int) -> str:
    """`name` in at most `length` characters; its beginning and its end stay.

    >>> shortened("measured temperature of the boiler", 16)
    'measured…boiler'
    """
    if len(name) <= length:
        return name
    half = (length - 1) // 2
    return f"{name[: length - 1 - half].rstrip()}…{name[-half:].lstrip()}"


def _is_header(names: list[str]) -> bool:
    filled = [name for name in names if name]
    return (
        len(filled) >= max(1, len(names) - 1)
        and len(set(filled)) == len(filled)
        and all(len(name) <= HEADER_LENGTH and not is_number(name) for name in filled)
    )
