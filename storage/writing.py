"""Putting documents inside one transaction, in batches. It knows no thread and no file.

Ids are taken from the tables' own sequences, never used again. A passage that the replaced document held word for word
under the same heading keeps its id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from . import lexical, paths
from .library_models import Document, Passage
from .records import NewDocument, NewPassage
from .removal import lexical_text, remove_passages
from .tables import table

_DOCUMENT = table(Document)
_PASSAGE = table(Passage)
_COPIED = ("size", "mtime_ns", "ctime_ns", "inode", "content_hash")
_COPIED_TEXT = ("reader", "status", "reason", "title", "media_type")
_MOVED = ("position", "page", "line_start", "line_end", "char_start", "char_end")
_CHUNK = 5_000

_Key = tuple[bytes, bytes, str, str]


class DocumentWriter:
    """Gathers the rows of documents, then writes them table by table.

    Parameters
    ----------
    state : int
        The state of the collection that this transaction leads to.
    """

    def __init__(self, connection: Connection, collection_id: int, state: int) -> None:
        self._connection = connection
        self._collection_id = collection_id
        self._state = state
        self._next_document = _next_id(connection, "documents")
        self._next_passage = _next_id(connection, "passages")
        self._new_documents: list[dict[str, Any]] = []
        self._changed_documents: list[dict[str, Any]] = []
        self._new_passages: list[dict[str, Any]] = []
        self._moved_passages: list[dict[str, Any]] = []
        self._gone: list[int] = []

    def put(self, documents: Sequence[NewDocument]) -> list[list[int]]:
        """Write documents; the passage ids of each. Raises ValueError for the same path twice."""
        keys = [paths.to_bytes(document.path) for document in documents]
        if len(set(keys)) < len(keys):
            raise ValueError("the same path twice in one call")
        present = dict(located(self._connection, self._collection_id, keys))
        kept = self._old_passages(list(present.values()))
        ids = [
            self._put(document, present.get(key), kept.get(present.get(key, 0), {}))
            for document, key in zip(documents, keys, strict=True)
        ]
        self._write()
        return ids

    def put_large(self, document: NewDocument, passages: Iterable[NewPassage]) -> int:
        """Write one document and its passages in batches; the number of passages."""
        present = located(self._connection, self._collection_id, [paths.to_bytes(document.path)])
        for _, document_id in present:
            query = select(Passage.id).where(Passage.document_id == document_id)
            self._gone = list(self._connection.execute(query).scalars())
        document_id = present[0][1] if present else self._next_document
        self._put(replace(document, passages=[]), present[0][1] if present else None, {})
        self._write()
        count = 0
        for batch in _batches(passages):
            for passage in batch:
                self._put_passage(document_id, count, passage, {})
                count += 1
            self._write()
        update_rows(self._connection, _DOCUMENT, [_bound(document_id, {"passage_count": count})])
        return count

    def _put(self, document: NewDocument, document_id: int | None, kept: dict[_Key, list[int]]) -> list[int]:
        values = {
            "source_id": document.source_id,
            **path_columns(document.path, document.relative_path),
            **{name: getattr(document, name) for name in _COPIED},
            **{name: _clean(getattr(document, name)) for name in _COPIED_TEXT},
            "passage_count": len(document.passages),
        }
        if document_id is not None:
            self._changed_documents.append(_bound(document_id, values))
        else:
            document_id = self._next_document
            self._next_document += 1
            self._new_documents.append({"id": document_id, "collection_id": self._collection_id, **values})
        ids = [self._put_passage(document_id, at, passage, kept) for at, passage in enumerate(document.passages)]
        self._gone += [passage_id for left in kept.values() for passage_id in left]
        return ids

    def _put_passage(self, document_id: int, position: int, passage: NewPassage, kept: dict[_Key, list[int]]) -> int:
        values = _passage_columns(document_id, position, passage)
        reusable = kept.get((values["input_hash"], values["text_hash"], values["heading"], values["context"]))
        if reusable:
            passage_id = reusable.pop()
            self._moved_passages.append(_bound(passage_id, {name: values[name] for name in _MOVED}))
            return passage_id
        passage_id = self._next_passage
        self._next_passage += 1
        self._new_passages.append(
            {"id": passage_id, "collection_id": self._collection_id, "added_state": self._state, **values}
        )
        return passage_id

    def _old_passages(self, document_ids: Sequence[int]) -> dict[int, dict[_Key, list[int]]]:
        """Passage ids of each document by what must be equal to keep them, the lowest last."""
        kept: dict[int, dict[_Key, list[int]]] = {}
        columns = (Passage.document_id, Passage.id, Passage.input_hash, Passage.text_hash, Passage.heading)
        for at in range(0, len(document_ids), _CHUNK):
            query = select(*columns, Passage.context).where(Passage.document_id.in_(document_ids[at : at + _CHUNK]))
            for row in self._connection.execute(query.order_by(Passage.id.desc())):
                key = (row.input_hash, row.text_hash, row.heading, row.context)
                kept.setdefault(row.document_id, {}).setdefault(key, []).append(row.id)
        return kept

    def _write(self) -> None:
        remove_passages(self._connection, self._collection_id, self._state, self._gone)
        if self._new_documents:
            self._connection.execute(insert(_DOCUMENT), self._new_documents)
        update_rows(self._connection, _DOCUMENT, self._changed_documents)
        update_rows(self._connection, _PASSAGE, self._moved_passages)
        if self._new_passages:
            self._connection.execute(insert(_PASSAGE), self._new_passages)
        texts = [(row["id"], lexical_text(row["context"], row["heading"], row["text"])) for row in self._new_passages]
        lexical.add(self._connection, self._collection_id, texts)
        for written in (
            self._gone, self._new_documents, self._changed_documents, self._moved_passages, self._new_passages,
        ):  # fmt: skip
            written.clear()


def _batches(passages: Iterable[NewPassage]) -> Iterator[list[NewPassage]]:
    remaining = iter(passages)
    while batch := list(islice(remaining, _CHUNK)):
        yield batch


def update_rows(connection: Connection, target: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Update rows, each a dict of ``key`` (the id) and ``new_COLUMN``."""
    if rows:
        columns = {name: bindparam(name) for name in rows[0] if name != "key"}
        statement = update(target).where(target.c.id == bindparam("key"))
        connection.execute(
            statement.values({name.removeprefix("new_"): bound for name, bound in columns.items()}), rows
        )


def located(connection: Connection, collection_id: int, keys: Sequence[bytes]) -> list[tuple[bytes, int]]:
    """Path and id of the documents of a collection that stand at these paths."""
    found: list[tuple[bytes, int]] = []
    for at in range(0, len(keys), _CHUNK):
        query = select(Document.path, Document.id).where(
            Document.collection_id == collection_id, Document.path.in_(keys[at : at + _CHUNK])
        )
        found += [(row[0], row[1]) for row in connection.execute(query)]
    return found


def path_columns(path: str, relative_path: str) -> dict[str, Any]:
    """The columns of a document that hold its paths."""
    return {
        "path": paths.to_bytes(path),
        "relative_path": paths.to_bytes(relative_path),
        "display_path": paths.display(path),
        "display_relative_path": paths.display(relative_path),
    }


def text_hash(text: str) -> bytes:
    """sha256 of a passage's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _bound(key: int, values: dict[str, Any]) -> dict[str, Any]:
    return {"key": key, **{"new_" + name: value for name, value in values.items()}}


def _passage_columns(document_id: int, position: int, passage: NewPassage) -> dict[str, Any]:
    text = _clean(passage.text)
    return {
        "document_id": document_id,
        "position": position,
        "text": text,
        "context": _clean(passage.context),
        "heading": _clean(passage.heading),
        "page": passage.page,
        "line_start": passage.lines[0],
        "line_end": passage.lines[1],
        "char_start": passage.chars[0],
        "char_end": passage.chars[1],
        "input_hash": passage.input_hash,
        "text_hash": text_hash(text),
    }


def _clean(text: str) -> str:
    """`text` without lone surrogates, which no database takes; its length stays."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


def _next_id(connection: Connection, name: str) -> int:
    row = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = ?", (name,)).first()
    return 1 if row is None else row[0] + 1
