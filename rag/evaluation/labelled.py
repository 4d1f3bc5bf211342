"""Reads texts with a label each from csv, tsv and jsonl files. It knows no measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import UsageError
from .errors import DatasetError
from .tables import plain_name, read_content, records

TEXT_COLUMNS = ("text", "sentence", "question", "utterance")
LABEL_COLUMNS = ("label", "category", "intent", "class")


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts with a label each."""

    name: str
    texts: list[str]
    labels: list[str]


def read_labelled(path: Path, *, columns: Sequence[str] | None = None) -> Labelled:
    """Read a csv, tsv or jsonl file with a text and a label in each row.

    Parameters
    ----------
    columns : sequence of two str, optional
        Names of the columns; by default one of `TEXT_COLUMNS` and one of `LABEL_COLUMNS`.

    Raises
    ------
    DatasetError
        It cannot be read or a line is malformed.
    slotrag.UsageError
        Not two columns.
    """
    if columns is not None and (len(columns) != 2 or not all(columns)):
        raise UsageError("Name two columns, TEXT,LABEL: of the text and of its label.")
    path = Path(path)
    content = read_content(path)
    texts, labels = [], []
    chosen: list[str] | None = None
    for number, record in records(content):
        chosen = chosen or _columns(path, record, columns)
        text, label = (record.get(name) for name in chosen)
        if not isinstance(text, str) or not text.strip():
            raise DatasetError(path, f"there is no text in {chosen[0]!r}", number)
        if isinstance(label, bool) or not isinstance(label, str | int) or not str(label).strip():
            raise DatasetError(path, f"there is no label in {chosen[1]!r}", number)
        texts.append(text)
        labels.append(str(label).strip())
    if not texts:
        raise DatasetError(path, "it holds no text")
    return Labelled(plain_name(path), texts, labels)


def _columns(path: Path, record: Mapping[str, Any], columns: Sequence[str] | None) -> list[str]:
    by_small = {name.lower(): name for name in record}
    there = ", ".join(record)
    chosen = []
    wanted = (TEXT_COLUMNS, LABEL_COLUMNS) if columns is None else tuple((name,) for name in columns)
    find: Callable[[str], str | None] = by_small.get if columns is None else {name: name for name in record}.get
    for known in wanted:
        name = next((found for found in map(find, known) if found is not None), None)
        if name is None:
            raise DatasetError(
                path, f"there is no column {known[0]!r}; there are {there}; name yours by --columns TEXT,LABEL", 1
            )
        chosen.append(name)
    return chosen
