"""Reads files of rows with named columns: csv, tsv and jsonl, plain or gzip, in UTF-8. It knows no data set."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import DatasetError

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds: its text, and the sha256 of its bytes on the disk."""

    path: Path
    text: str
    sha256: str


def read_content(path: Path) -> Content:
    """The text of a file; one compressed by gzip is told by its first bytes.

    Raises
    ------
    DatasetError
        It is missing, cannot be read, is damaged or not UTF-8.
    """
    try:
        stored = path.read_bytes()
    except FileNotFoundError:
        raise DatasetError(path, "the file is missing") from None
    except OSError as error:
        raise DatasetError(path, f"the file cannot be read ({error.strerror})") from None
    data = stored
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(stored)
        except (OSError, EOFError, zlib.error) as error:
            raise DatasetError(path, f"the file is no whole gzip file ({error})") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(path, "the file is not UTF-8", data[: error.start].count(b"\n") + 1) from None
    if not text.strip():
        raise DatasetError(path, "the file is empty")
    return Content(path, text, hashlib.sha256(stored).hexdigest())


def plain_name(path: Path) -> str:
    """The file's name without ``.gz``, in small letters.

    Examples
    --------
    >>> plain_name(Path("data/Train.TSV.gz"))
    'train.tsv'
    """
    name = path.name.lower()
    return name.removesuffix(".gz")


def records(content: Content) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of a jsonl file, or of a csv or tsv one under the names of its first line, with their line numbers."""
    if is_jsonl(content):
        yield from _json_records(content)
        return
    lines = rows(content)
    _, header = next(lines)
    names = [name.strip() for name in header]
    for number, fields in lines:
        if len(fields) != len(names):
            raise DatasetError(
                content.path, f"the line has {len(fields)} fields, the first line names {len(names)}", number
            )
        yield number, dict(zip(names, fields, strict=True))


def is_jsonl(content: Content) -> bool:
    """Whether each line is a JSON object: told by the name, else by the first character."""
    name = plain_name(content.path)
    return name.endswith((".jsonl", ".json", ".ndjson")) or content.text.lstrip().startswith("{")


def rows(content: Content) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line that is not blank, with its number: between tabs where the first line has one, else csv.

    A quotation mark in a tab-separated file is a character like any other, as in the files of the STS tasks.
    """
    first = content.text.lstrip("\r\n").split("\n", 1)[0]
    if "\t" in first:
        for number, line in enumerate(content.text.split("\n"), start=1):
            if line.strip():
                yield number, line.rstrip("\r").split("\t")
        return
    reader = csv.reader(io.StringIO(content.text, newline=""))
    before = 0
    try:
        for fields in reader:
            if fields:
                yield before + 1, fields
            before = reader.line_num
    except csv.Error as error:
        raise DatasetError(content.path, f"not csv ({error})", before + 1) from None


def _json_records(content: Content) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(content.text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise DatasetError(content.path, f"not JSON ({error})", number) from None
        if not isinstance(value, dict):
            raise DatasetError(content.path, "a line is a JSON object", number)
        yield number, value
