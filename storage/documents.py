"""The catalog's documents: put, renamed, touched, removed, each in one short transaction. It knows no vector.

A transaction writes whole documents with their passages and lexical entries, counts up the collection's state and
logs the ids of passages that went; either all of it is seen by readers or nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update

from . import lexical, paths
from .collections import bump_state
from .library_models import Collection, Document, Passage, RemovedPassage, Source
from .part import Part
from .records import DocumentRecord, NewDocument, NewPassage
from .tables import table

LOG_LIMIT = 20_000
"""Most removals kept in a collection's log; an index file older than its start is built anew."""

_DOCUMENT = table(Document)
_PASSAGE = table(Passage)
_REMOVED = table(RemovedPassage)
_CHUNK = 5_000


class DocumentsPart(Part):
    """Documents of a collection and their passages."""

    def documents(
        self, collection_id: int, *, source_id: int | None = None, statuses: Iterable[str] | None = None
    ) -> list[DocumentRecord]:
        """The documents of a collection, in the order of their paths."""
        query = select(_DOCUMENT).where(Document.collection_id == collection_id).order_by("path")
        if source_id is not None:
            query = query.where(Document.source_id == source_id)
        if statuses is not None:
            query = query.where(Document.status.in_(list(statuses)))
        with self._library.reading() as connection:
            return [_document_record(row) for row in connection.execute(query)]

    def put_documents(self, collection_id: int, documents: Sequence[NewDocument]) -> list[list[int]]:
        """Store documents, each in place of whatever was at its path, in one transaction.

        A passage that the replaced document held word for word under the same heading keeps its id.

        Returns
        -------
        list of list of int
            The passage ids of each document, in the order of its passages.
        """
        if not documents:
            return []
        with self._library.writing() as connection:
            writer = _Writer(connection, collection_id)
            return [writer.put(document) for document in documents] if writer.prepare(documents) else []

    def rename_documents(self, renames: Sequence[tuple[int, int | None, str, str, int, int]]) -> None:
        """Give documents other paths: (document_id, source_id, path, relative_path, size, mtime_ns) each.

        Paths may be swapped within one call. A document that is not renamed and stands at one of the new paths is
        removed. Passages keep their ids.
        """
        if not renames:
            return
        with self._library.writing() as connection:
            ids = [rename[0] for rename in renames]
            found = {row.id: row.collection_id for row in _rows_of(connection, ids)}
            renames = [rename for rename in renames if rename[0] in found]
            states = {collection: bump_state(connection, collection) for collection in set(found.values())}
            aside = [{"key": rename[0], "aside": b"\0" + str(rename[0]).encode()} for rename in renames]
            if not aside:
                return
            connection.execute(
                update(_DOCUMENT).where(_DOCUMENT.c.id == bindparam("key")).values(path=bindparam("aside")), aside
            )
            for collection, state in states.items():
                targets = [paths.to_bytes(r[2]) for r in renames if found[r[0]] == collection]
                _remove(connection, _ids_at(connection, collection, targets), {collection: state})
            connection.execute(
                update(_DOCUMENT)
                .where(_DOCUMENT.c.id == bindparam("key"))
                .values({name: bindparam("new_" + name) for name in _RENAMED}),
                [{"key": r[0], **_renamed(*r[1:])} for r in renames],
            )

    def touch_documents(self, touches: Sequence[tuple[int, int, int]]) -> None:
        """Note other file sizes and times: (document_id, size, mtime_ns) each. Nothing that is searched changes."""
        if not touches:
            return
        with self._library.writing() as connection:
            connection.execute(
                update(_DOCUMENT)
                .where(_DOCUMENT.c.id == bindparam("key"))
                .values(size=bindparam("new_size"), mtime_ns=bindparam("new_mtime_ns")),
                [{"key": key, "new_size": size, "new_mtime_ns": mtime} for key, size, mtime in touches],
            )

    def remove_documents(self, document_ids: Iterable[int]) -> int:
        """Remove documents with their passages (unknown ids are ignored); the number removed.

        Their vectors and slots go with `prune_vectors`.
        """
        ids = [int(document_id) for document_id in document_ids]
        if not ids:
            return 0
        with self._library.writing() as connection:
            rows = _rows_of(connection, ids)
            states = {c: bump_state(connection, c) for c in {row.collection_id for row in rows}}
            return _remove(connection, [row.id for row in rows], states)

    def remove_source(self, source_id: int) -> None:
        """Stop following a source and remove its documents."""
        with self._library.writing() as connection:
            found = select(Document.id, Document.collection_id).where(Document.source_id == source_id)
            rows = connection.execute(found).all()
            states = {c: bump_state(connection, c) for c in {row.collection_id for row in rows}}
            _remove(connection, [row.id for row in rows], states)
            connection.execute(delete(table(Source)).where(Source.id == source_id))


class _Writer:
    """Puts documents inside one transaction; ids are taken from the table's own sequence, never used again."""

    def __init__(self, connection: Connection, collection_id: int) -> None:
        self._connection = connection
        self._collection_id = collection_id
        self._state = bump_state(connection, collection_id)
        self._next_document = _next_id(connection, "documents")
        self._next_passage = _next_id(connection, "passages")

    def prepare(self, documents: Sequence[NewDocument]) -> bool:
        keys = [paths.to_bytes(document.path) for document in documents]
        if len(set(keys)) < len(keys):
            raise ValueError("the same path twice in one call")
        self._present = dict.fromkeys(keys, 0)
        for key, document_id in _located(self._connection, self._collection_id, keys):
            self._present[key] = document_id
        return True

    def put(self, document: NewDocument) -> list[int]:
        key = paths.to_bytes(document.path)
        values = {
            "source_id": document.source_id,
            **_paths_of(document.path, document.relative_path),
            **{name: getattr(document, name) for name in _COPIED},
            "passage_count": len(document.passages),
        }
        kept: dict[tuple[bytes, bytes, str], list[int]] = {}
        if document_id := self._present[key]:
            kept = self._old_passages(document_id)
            self._connection.execute(update(_DOCUMENT).where(Document.id == document_id).values(**values))
        else:
            document_id = self._next_document
            self._next_document += 1
            self._connection.execute(
                insert(_DOCUMENT), {"id": document_id, "collection_id": self._collection_id, **values}
            )
        return self._put_passages(document_id, document.passages, kept)

    def _old_passages(self, document_id: int) -> dict[tuple[bytes, bytes, str], list[int]]:
        kept: dict[tuple[bytes, bytes, str], list[int]] = {}
        rows = self._connection.execute(
            select(Passage.input_hash, Passage.text_hash, Passage.heading, Passage.id)
            .where(Passage.document_id == document_id)
            .order_by(Passage.id.desc())
        )
        for input_hash, text_hash, heading, passage_id in rows:
            kept.setdefault((input_hash, text_hash, heading), []).append(passage_id)
        return kept

    def _put_passages(
        self, document_id: int, passages: Sequence[NewPassage], kept: dict[tuple[bytes, bytes, str], list[int]]
    ) -> list[int]:
        new: list[dict[str, Any]] = []
        moved: list[dict[str, Any]] = []
        ids: list[int] = []
        for position, passage in enumerate(passages):
            values = _passage_values(document_id, position, passage)
            reusable = kept.get((passage.input_hash, values["text_hash"], passage.heading))
            if reusable:
                ids.append(reusable.pop())
                moved.append({"key": ids[-1], **{"new_" + name: values[name] for name in _MOVED}})
                continue
            ids.append(self._next_passage)
            self._next_passage += 1
            new.append({"id": ids[-1], "collection_id": self._collection_id, "added_state": self._state, **values})
        gone = [passage_id for left in kept.values() for passage_id in left]
        _remove_passages(self._connection, self._collection_id, self._state, gone)
        if moved:
            self._connection.execute(
                update(_PASSAGE)
                .where(_PASSAGE.c.id == bindparam("key"))
                .values({name: bindparam("new_" + name) for name in _MOVED}),
                moved,
            )
        if new:
            self._connection.execute(insert(_PASSAGE), new)
            lexical.add(
                self._connection,
                self._collection_id,
                [(row["id"], lexical_text(row["context"], row["heading"], row["text"])) for row in new],
            )
        return ids


_COPIED = ("size", "mtime_ns", "content_hash", "reader", "status", "reason", "title", "media_type")
_MOVED = ("position", "page", "line_start", "line_end", "char_start", "char_end", "context")
_RENAMED = (
    "source_id", "path", "relative_path", "display_path", "display_relative_path", "size", "mtime_ns",
)  # fmt: skip


def lexical_text(context: str, heading: str, text: str) -> str:
    """What the lexical index holds of a passage: what the encoder gets, and the heading it stands under."""
    return "\n".join((context, heading, text))


def _paths_of(path: str, relative_path: str) -> dict[str, Any]:
    return {
        "path": paths.to_bytes(path),
        "relative_path": paths.to_bytes(relative_path),
        "display_path": paths.display(path),
        "display_relative_path": paths.display(relative_path),
    }


def _renamed(source_id: int | None, path: str, relative_path: str, size: int, mtime_ns: int) -> dict[str, Any]:
    values = {"source_id": source_id, **_paths_of(path, relative_path), "size": size, "mtime_ns": mtime_ns}
    return {"new_" + name: value for name, value in values.items()}


def _passage_values(document_id: int, position: int, passage: NewPassage) -> dict[str, Any]:
    return {
        "document_id": document_id,
        "position": position,
        "text": passage.text,
        "context": passage.context,
        "heading": passage.heading,
        "page": passage.page,
        "line_start": passage.lines[0],
        "line_end": passage.lines[1],
        "char_start": passage.chars[0],
        "char_end": passage.chars[1],
        "input_hash": passage.input_hash,
        "text_hash": text_hash(passage.text),
    }


def text_hash(text: str) -> bytes:
    """sha256 of a passage's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _next_id(connection: Connection, table: str) -> int:
    row = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).first()
    return 1 if row is None else row[0] + 1


def _located(connection: Connection, collection_id: int, keys: Sequence[bytes]) -> list[tuple[bytes, int]]:
    found: list[tuple[bytes, int]] = []
    for at in range(0, len(keys), _CHUNK):
        query = select(Document.path, Document.id).where(
            Document.collection_id == collection_id, Document.path.in_(keys[at : at + _CHUNK])
        )
        found += [(row[0], row[1]) for row in connection.execute(query)]
    return found


def _ids_at(connection: Connection, collection_id: int, keys: Sequence[bytes]) -> list[int]:
    return [document_id for _, document_id in _located(connection, collection_id, keys)]


def _rows_of(connection: Connection, ids: Sequence[int]) -> list[Row[Any]]:
    rows: list[Row[Any]] = []
    for at in range(0, len(ids), _CHUNK):
        query = select(Document.id, Document.collection_id).where(Document.id.in_(ids[at : at + _CHUNK]))
        rows.extend(connection.execute(query).all())
    return rows


def _remove(connection: Connection, document_ids: Sequence[int], states: dict[int, int]) -> int:
    """Remove documents and their passages; `states` are the collections' new states."""
    for at in range(0, len(document_ids), _CHUNK):
        chunk = document_ids[at : at + _CHUNK]
        rows = connection.execute(select(Passage.collection_id, Passage.id).where(Passage.document_id.in_(chunk))).all()
        for collection, state in states.items():
            gone = [row.id for row in rows if row.collection_id == collection]
            _remove_passages(connection, collection, state, gone)
        connection.execute(delete(_DOCUMENT).where(Document.id.in_(chunk)))
    return len(document_ids)


def _remove_passages(connection: Connection, collection_id: int, state: int, passage_ids: Sequence[int]) -> None:
    if not passage_ids:
        return
    lexical.remove(connection, collection_id, passage_ids)
    for at in range(0, len(passage_ids), _CHUNK):
        chunk = Passage.id.in_(passage_ids[at : at + _CHUNK])
        columns = ["passage_id", "collection_id", "state", "added_state"]
        logged = select(Passage.id, Passage.collection_id, func.coalesce(state, 0), Passage.added_state).where(chunk)
        connection.execute(insert(_REMOVED).from_select(columns, logged))
        connection.execute(delete(_PASSAGE).where(chunk))
    _trim_log(connection, collection_id)


def _trim_log(connection: Connection, collection_id: int) -> None:
    mine = RemovedPassage.collection_id == collection_id
    newest = select(RemovedPassage.state).where(mine).order_by(RemovedPassage.state.desc()).offset(LOG_LIMIT).limit(1)
    cut = connection.execute(newest).scalar()
    if cut is None:
        return
    connection.execute(delete(_REMOVED).where(mine, RemovedPassage.state <= cut))
    connection.execute(
        update(table(Collection))
        .where(Collection.id == collection_id)
        .values(log_start=func.max(Collection.log_start, cut))
    )


def _document_record(row: Row[Any]) -> DocumentRecord:
    return DocumentRecord(
        id=row.id, collection_id=row.collection_id, source_id=row.source_id, path=paths.from_bytes(row.path),
        relative_path=paths.from_bytes(row.relative_path), size=row.size, mtime_ns=row.mtime_ns,
        content_hash=row.content_hash, reader=row.reader, status=row.status, reason=row.reason, title=row.title,
        media_type=row.media_type, passage_count=row.passage_count,
    )  # fmt: skip
