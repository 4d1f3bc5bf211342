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


def set_up_streams() -> None:
    """Make both streams take any text: file names that are no text keep their bytes on a pipe."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller, as in `slotrag status >&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
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
    """Write `value` as one line of JSON, its keys in their order."""
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:  # a file name that is no text; "\udcff" is read back as the same name
        line = json.dumps(value, separators=(",", ":"), allow_nan=False)
    say(line)


def say_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write `rows` as a table fitted to the terminal; on a pipe with tabs between the columns and without `head`."""
    texts = [[clean(str(cell)).replace("\n", " ").replace("\t", " ") for cell in row] for row in rows]
    if not on_terminal():
        for row in texts:
            say("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in head:
        table.add_column(name, overflow="fold")
    for row in texts:
        table.add_row(*(Text(cell) for cell in row))
    Console(file=sys.stdout, highlight=False, width=columns()).print(table)


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
