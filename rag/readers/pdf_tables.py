"""Lines of a PDF page whose parts stand apart: two columns of text read one after the other, and rows of a table.

It knows lines by their places alone, and nothing of PDF.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise

from .pdf_lines import Line
from .tables import is_number, table_lines

COLUMN_LINES = 6
"""Lines that must be parted at the same place of a page before its text counts as set in two columns ..."""

COLUMN_CHARACTERS = 20
"""... and characters that their halves must have on average; the cells of a table are shorter."""

MOST_COMPARED = 200
"""Lines of a page that are looked at to find the columns."""

Gap = tuple[float, float]


def in_reading_order(lines: Sequence[Line]) -> list[Line]:
    """The lines of a page, where two columns were read across each other with the left one first.

    Most programs write one column after the other; then nothing is to be done.
    """
    gutter = _gutter(lines)
    if gutter is None:
        return list(lines)
    ordered: list[Line] = []
    for across, group in groupby(lines, lambda line: _crosses(line, gutter)):
        if across:
            ordered += group
        else:
            parts = [part for line in group for part in line.parts or [line]]
            ordered += _column(parts, lambda part: part.right <= gutter[1])
            ordered += _column(parts, lambda part: part.right > gutter[1])
    return ordered


def _gutter(lines: Sequence[Line]) -> Gap | None:
    """The white stripe between two columns of text."""
    halved = [line for line in lines if len(line.parts) == 2 and len(line.text) >= 2 * COLUMN_CHARACTERS]
    candidates = [gap for line in halved[:MOST_COMPARED] for gap in _gaps(line)]
    if len(candidates) < COLUMN_LINES:
        return None
    gutter = max(candidates, key=lambda gap: sum(_overlap(gap, other) > 0 for other in candidates))
    parted = []
    for line in lines:
        gap = next((gap for gap in _gaps(line) if _overlap(gap, gutter) > 0), None)
        if gap is not None:
            gutter = max(gap[0], gutter[0]), min(gap[1], gutter[1])
            parted.append(line)
    if len(parted) < COLUMN_LINES or 2 * len(parted) < len([line for line in lines if line.parts]):
        return None
    characters = sum(len(line.text) for line in parted)
    if characters < COLUMN_CHARACTERS * sum(len(line.parts) for line in parted):
        return None
    return gutter


def _crosses(line: Line, gutter: Gap) -> bool:
    """Whether a line has text in the gutter, as a heading over both columns has."""
    return any(part.left < gutter[0] - 1 and part.right > gutter[1] + 1 for part in line.parts or [line])


def _column(parts: Sequence[Line], inside: Callable[[Line], bool]) -> Iterator[Line]:
    """The parts of one column; neighbours on the same line are one again."""
    for _, group in groupby(filter(inside, parts), lambda part: part.y):
        found = list(group)
        yield found[0] if len(found) == 1 else joined(found)


def joined(parts: Sequence[Line]) -> Line:
    """Parts of a line as one line."""
    first, last = parts[0], parts[-1]
    text = " ".join(part.text for part in parts)
    return Line(text, first.size, first.left, last.right, first.y, last.last_y, False, list(parts))


def table_end(lines: Sequence[Line], start: int) -> int:
    """The line after the table that begins at line `start`; `start` where none does."""
    stop = start
    while stop < len(lines) and len(lines[stop].parts) > 1:
        if stop > start and not _same_columns(lines[stop - 1], lines[stop]):
            break
        stop += 1
    return stop if stop > start + 1 else start


def _same_columns(above: Line, line: Line) -> bool:
    """Whether every gap of the line with fewer gaps lies, for half of a letter at least, under one of the other's."""
    if above.last_y <= line.y or abs(above.size - line.size) > 0.2 * above.size:
        return False
    fewer, more = sorted((_gaps(above), _gaps(line)), key=len)
    return all(any(_overlap(gap, other) >= 0.5 * line.size for other in more) for gap in fewer)


def _gaps(line: Line) -> list[Gap]:
    return [(left.right, right.left) for left, right in pairwise(line.parts)]


def _overlap(gap: Gap, other: Gap) -> float:
    return min(gap[1], other[1]) - max(gap[0], other[0])


def table_text(lines: Sequence[Line]) -> str:
    """The rows of a table as text; the row with the most cells says where the columns are.

    The first row names the columns only where it has no numbers and a column below it has nothing else: a list of
    terms and their meanings looks like a table, too.
    """
    columns = max(lines, key=lambda line: len(line.parts)).parts
    rows = []
    for line in lines:
        row = [""] * len(columns)
        for part in line.parts:
            place = max(range(len(columns)), key=lambda at: _closeness(part, columns[at]))
            row[place] = f"{row[place]} {part.text}".strip()
        rows.append(row)
    return "\n".join(table_lines(rows, header=_has_header(rows)))


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    if any(is_number(cell) for cell in rows[0]):
        return False
    return any(name and all(map(is_number, column)) for name, *column in zip(*rows, strict=True))


def _closeness(part: Line, column: Line) -> float:
    """How far two parts overlap; negative, the distance between them."""
    return _overlap((part.left, part.right), (column.left, column.right))
