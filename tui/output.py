"""Writing to the terminal, a pipe or a file: data on stdout, notices on stderr. It knows no command.

Text of documents may hold escape sequences; none of them reaches the terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_TABLE_WIDTH = 60
"""On a narrower terminal a table's rows become lines."""
_LONGEST_WORD = 12
"""Of a table; a longer one may be broken, but for those of the first column."""
_GAP = 2


def set_up_streams() -> None:
    """Make both streams take any text: file names that are no text keep their bytes on a pipe."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller, as in `slotrag status >&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8", errors="replace"))  # noqa: PTH123, SIM115
        elif hasattr(stream, "reconfigure"):
            keeps_bytes = stream.encoding.lower() in ("utf-8", "utf8") and not stream.isatty()
            stream.reconfigure(errors="surrogateescape" if keeps_bytes else "backslashreplace")


def clean(text: str) -> str:
    """`text` without what a terminal would obey: escape sequences, other controls, marks that turn the direction.

    Examples
    --------
    >>> clean("red \\x1b[31mtext\\r")
    'red [31mtext'
    """
    return _CONTROLS.sub("", text)


def one_line(text: str) -> str:
    """`clean` text in one line: a file name may hold line breaks.

    Examples
    --------
    >>> one_line("two\\nlines.txt")
    'two lines.txt'
    """
    return clean(text).replace("\n", " ").replace("\t", " ")


def on_terminal(stream: Any = None) -> bool:
    """Whether `stream` (stdout by default) is a terminal that can move its cursor."""
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


def styled(stream: Any = None) -> bool:
    """Whether bold and colour may be used on `stream` (``NO_COLOR`` forbids them)."""
    return on_terminal(stream) and not os.environ.get("NO_COLOR")


def bold(text: str, stream: Any = None) -> str:
    return f"\x1b[1m{text}\x1b[0m" if styled(stream) else text


def dim(text: str, stream: Any = None) -> str:
    return f"\x1b[2m{text}\x1b[0m" if styled(stream) else text


def columns() -> int:
    """Width of the terminal; at least 20."""
    import shutil

    return max(shutil.get_terminal_size((80, 24)).columns, 20)


def say(text: str = "", end: str = "\n") -> None:
    """Write a line of data."""
    sys.stdout.write(text + end)


def tell(text: str) -> None:
    """Write a line that is not data: a notice or an error."""
    sys.stdout.flush()
    sys.stderr.write(clean(text) + "\n")
    sys.stderr.flush()


def say_json(value: dict[str, Any]) -> None:
    """Write `value` as one line of JSON, its keys in their order; what a terminal would obey is escaped."""
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:  # a file name that is no text; "\udcff" is read back as the same name
        line = json.dumps(value, separators=(",", ":"), allow_nan=False)
    say(_CONTROLS.sub(lambda match: f"\\u{ord(match.group()):04x}", line))  # they stand within strings only


def say_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write `rows` as a table fitted to the terminal; on a pipe with tabs between the columns and without `head`.

    The first column names the thing and is never broken, so that it can be copied.
    """
    texts = [[one_line(str(cell)) for cell in row] for row in rows]
    if not on_terminal():
        for row in texts:
            say("\t".join(row))
    elif columns() < _TABLE_WIDTH or not _say_grid(head, texts):
        _say_records(head, texts)


def _say_grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Write a table; whether there was room for the first column and for enough of the others."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    first, *others = zip(head, *rows, strict=True)
    words = [[cell_len(word) for cell in column for word in cell.split()] for column in others]
    least = [max(map(cell_len, first)), *(min(max(lengths, default=0), _LONGEST_WORD) for lengths in words)]
    if sum(least) + _GAP * len(others) > columns():
        return False
    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="none")
    for number, (name, width) in enumerate(zip(head, least, strict=True)):
        table.add_column(name, overflow="fold", no_wrap=not number, min_width=width)
    for row in rows:
        table.add_row(*map(Text, row))
    # With the gap after the last column, which Rich counts in any case; it is cut off each line.
    console = Console(file=sys.stdout, highlight=False, width=columns() + _GAP)
    with console.capture() as captured:
        console.print(table)
    for number, line in enumerate(captured.get().splitlines()):
        say(line.rstrip() if number else bold(line.rstrip()))
    return True


def _say_records(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write a line ``key: value`` for each cell that holds something; the terminal breaks long ones itself."""
    for number, row in enumerate(rows):
        if number:
            say()
        for name, cell in zip(head, row, strict=True):
            if cell:
                say(f"{name}: {cell}" if name else cell)


def say_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Write names with their values, the values aligned."""
    listed = [(name, clean(str(value))) for name, value in pairs]
    width = max((len(name) for name, _ in listed), default=0)
    for name, value in listed:
        say(f"{name:<{width}}  {value}")


def size(count: int | float) -> str:
    """A number of bytes for a reader.

    Examples
    --------
    >>> size(98_362_432)
    '98.4 MB'
    """
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError
