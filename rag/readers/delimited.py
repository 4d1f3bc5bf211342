"""CSV and TSV: each record a line ``column: value | column: value``, so that a line's number is its record's."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from ..documents import Block, Document, first_line
from .base import Reader
from .decoding import MAXIMUM_BYTES, looks_like_text, read_text
from .tables import table_lines

_DELIMITERS = ",;\t|"


class DelimitedReader(Reader):
    """Reads CSV and TSV; the delimiter is found by its even count in the first lines."""

    name = "CSV"
    version = "2"
    media_types = ("text/csv", "text/tab-separated-values")
    suffixes = (".csv", ".tsv", ".tab")

    def sniff(self, head: bytes, path: Path) -> float:
        return 0.2 if looks_like_text(head) else 0.0

    def read(self, path: Path) -> Document:
        source = read_text(path)
        tab = path.suffix.lower() in (".tsv", ".tab")
        text = "\n".join(table_lines(_records(source, "\t" if tab else delimiter(source)))).rstrip() + "\n"
        media_type = self.media_types[1] if tab else self.media_types[0]
        return Document(first_line(text), text, media_type, [Block("table", 0, len(text) - 1)])


def delimiter(text: str) -> str:
    """The delimiter that stands most evenly in the first 20 lines; a comma where none does."""
    lines = [line for line in text[:100_000].split("\n")[:20] if line.strip()]
    best, best_score = ",", 0.0
    for mark in _DELIMITERS:
        counts = [line.count(mark) for line in lines]
        usual = max(set(counts), key=counts.count, default=0)
        score = usual and counts.count(usual) / len(counts) + min(usual, 10) / 100
        if score > best_score:
            best, best_score = mark, score
    return best


def _records(text: str, mark: str) -> Iterator[list[str]]:
    """The records; a quote that is never closed would swallow the rest, so such a file is taken line by line."""
    if csv.field_size_limit() < MAXIMUM_BYTES:
        csv.field_size_limit(MAXIMUM_BYTES)  # one for the process; the default of 128 KB refuses long texts
    lines = text.rstrip("\n").split("\n")
    quoting = csv.QUOTE_MINIMAL if text.count('"') % 2 == 0 else csv.QUOTE_NONE
    reader = csv.reader((line + "\n" for line in lines), delimiter=mark, quoting=quoting)
    for record in reader:
        while record and not record[-1].strip():
            record.pop()
        yield record
