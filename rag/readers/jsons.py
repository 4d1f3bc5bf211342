"""JSON and JSON Lines as lines ``key: value``; each element of the outermost list is a paragraph of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..documents import Document, NoText, ReadError, first_line
from .base import Reader
from .builder import DocumentBuilder
from .decoding import looks_like_text, read_text
from .tables import bounded, shortened
from .text import paragraphs

_OBJECT = re.compile(rb'\s*(?:\{\s*"[^"]{0,200}"\s*:|\[\s*[{\[]\s*["\[{\d])')
_TITLES = ("title", "name", "subject", "heading")

KEY_LENGTH = 300
"""Most characters of a path of keys, which each value under it repeats; of a longer one the middle is left out."""


class JsonReader(Reader):
    """Reads JSON and JSON Lines. A text that only resembles JSON is read as plain text, and a note says so."""

    name = "JSON"
    version = "3"
    media_types = ("application/json", "application/jsonl")
    suffixes = (".json", ".jsonl", ".ndjson", ".geojson")

    def sniff(self, head: bytes, path: Path) -> float:
        if not looks_like_text(head):
            return 0.0
        return 0.6 if _OBJECT.match(head) else 0.2

    def read(self, path: Path) -> Document:
        text = read_text(path)
        lines = path.suffix.lower() in (".jsonl", ".ndjson")
        try:
            if not lines:
                return _document([_loads(text)], self.media_types[0])
        except ValueError as error:
            if not text.rstrip().count("\n"):
                return _plain(text, error)
            first_error = error
        except RecursionError as error:
            raise ReadError("its JSON is nested too deeply to be read") from error
        else:
            first_error = ValueError("no line is JSON")
        return _read_lines(text, self.media_types[1]) or _plain(text, first_error)


class _Pairs(dict[str, Any]):
    """An object that has a key more than once: as a dict it would keep the last of its values alone."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Pairs(pairs)


def _loads(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object)


def _read_lines(text: str, media_type: str) -> Document | None:
    """JSON Lines; None where fewer than half of the lines are JSON."""
    values, broken = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                values.append(_loads(line))
            except (ValueError, RecursionError):
                broken.append(number)
    if len(values) <= len(broken):
        return None
    document = _document(values, media_type)
    if broken:
        shown = ", ".join(map(str, broken[:10])) + (", …" if len(broken) > 10 else "")
        document.notes.append(f"not JSON and left out: lines {shown}")
        document.partial = True
    return document


def _plain(text: str, error: Exception) -> Document:
    note = f"not valid JSON ({error}), read as plain text"
    return Document(first_line(text), text, "text/plain", paragraphs(text), [note])


def _document(values: list[Any], media_type: str) -> Document:
    builder = DocumentBuilder(media_type)
    records = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    if len(values) == 1 and isinstance(values[0], dict):
        builder.title = next((v for k in _TITLES if isinstance(v := values[0].get(k), str)), "")
    for record in records:
        builder.add("table", "\n".join(bounded(_lines(record))))
    if not builder.length:
        raise NoText("no value in it")
    return builder.document()


def _lines(record: Any) -> Iterator[str]:
    """``key: value`` lines in order, nested keys as ``outer.inner``, without recursion."""
    stack: list[tuple[str, Any]] = [("", record)]
    while stack:
        key, value = stack.pop()
        if isinstance(value, dict):
            inner = [(_inner(key, name), part) for name, part in _items(value)]
            stack.extend(reversed(inner))
        elif isinstance(value, list):
            if value and all(not isinstance(part, (dict, list)) for part in value) and _short(value):
                yield _line(key, ", ".join(_scalar(part) for part in value))
            else:
                stack.extend((key, part) for part in reversed(value))
        else:
            text = _scalar(value)
            if text.strip():
                yield _line(key, text)


def _items(value: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    return value.pairs if isinstance(value, _Pairs) else value.items()


def _inner(key: str, name: str) -> str:
    return shortened(f"{key}.{name}" if key else name, KEY_LENGTH)


def _line(key: str, text: str) -> str:
    return f"{key}: {text}" if key else text


def _short(values: list[Any]) -> bool:
    return len(values) <= 100 and all(len(str(value)) <= 80 for value in values)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)
