"""The catalog's documents: put, renamed, touched, removed, each in one short transaction. It knows no vector.

A transaction writes whole documents with their passages and words, counts up the collection's state and logs the ids
of passages that went; either all of it is seen by readers or nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, delete, select, update

from . import lexical, paths, tokenise
from .collections import bump_state
from .library_models import Collection, Document, Passage, Source
from .part import Part
from .records import DocumentRecord, FileStamp, NewDocument, NewPassage
from .removal import lexical_text, remove_documents
from .tables import table
from .writing import DocumentWriter, located, path_columns, update_rows

_DOCUMENT = table(Document)
_CHUNK = 5_000


class DocumentsPart(Part):
    """Documents of a collection and their passages."""

    def documents(
        self, collection_id: int, *, source_id: int | None = None, statuses: Iterable[str] | None = None
    ) -> list[DocumentRecord]:
        """The documents of a collection, in the order of their paths."""
        columns = [_DOCUMENT.c[field.name] for field in dataclasses.fields(DocumentRecord)]
        query = select(*columns).where(Document.collection_id == collection_id).order_by(_DOCUMENT.c.path)
        if source_id is not None:
            query = query.where(Document.source_id == source_id)
        if statuses is not None:
            query = query.where(Document.status.in_(list(statuses)))
        with self._library.reading() as connection:
            return [_document_record(row) for row in connection.execute(query)]

    def put_documents(self, collection_id: int, documents: Sequence[NewDocument]) -> list[list[int]]:
        """Store documents, each in place of whatever was at its path, in one transaction.

        A passage that the replaced document held word for word under the same heading keeps its id. The vectors should
        be stored before (`put_vectors`); `integrity_check` names passages without one.

        Returns
        -------
        list of list of int
            The passage ids of each document, in the order of its passages.

        Raises
        ------
        ValueError
            The same path twice in one call.
        """
        if not documents:
            return []
        with self._library.writing() as connection:
            return DocumentWriter(connection, collection_id, _begin_change(connection, collection_id)).put(documents)

    def put_large_document(self, collection_id: int, document: NewDocument, passages: Iterable[NewPassage]) -> int:
        """Store a document whose passages come one by one and are not held in memory; the number of passages.

        One transaction, like `put_documents`, that lasts as long as `passages`; what they raise undoes it. No passage
        keeps its id.
        """
        with self._library.writing() as connection:
            writer = DocumentWriter(connection, collection_id, _begin_change(connection, collection_id))
            return writer.put_large(document, passages)

    def rename_documents(self, renames: Sequence[tuple[int, int | None, str, str, FileStamp]]) -> None:
        """Give documents other paths: (document_id, source_id, path, relative_path, stamp) each.

        Paths may be swapped within one call. A document that is not renamed and stands at one of the new paths is
        removed. Passages keep their ids; ids of documents that are no more are ignored.
        """
        if not renames:
            return
        with self._library.writing() as connection:
            found = {row.id: row.collection_id for row in _rows_of(connection, [rename[0] for rename in renames])}
            renames = [rename for rename in renames if rename[0] in found]
            states = {collection: _begin_change(connection, collection) for collection in set(found.values())}
            aside = [{"key": rename[0], "new_path": b"\0%d" % rename[0]} for rename in renames]
            update_rows(connection, _DOCUMENT, aside)
            for collection, state in states.items():
                targets = [paths.to_bytes(rename[2]) for rename in renames if found[rename[0]] == collection]
                standing = [document_id for _, document_id in located(connection, collection, targets)]
                remove_documents(connection, standing, {collection: state})
            update_rows(connection, _DOCUMENT, [_renamed(*rename) for rename in renames])

    def touch_documents(self, touches: Sequence[tuple[int, FileStamp]]) -> None:
        """Note other file sizes and times: (document_id, stamp) each. Nothing that is searched changes, nor
        does the collection's state."""
        rows = [{"key": key, **_stamp_columns(stamp, "new_")} for key, stamp in touches]
        if rows:
            with self._library.writing() as connection:
                update_rows(connection, _DOCUMENT, rows)

    def remove_documents(self, document_ids: Iterable[int]) -> int:
        """Remove documents with their passages (unknown ids are ignored); the number removed.

        Their vectors and slots, and what the write-ahead log still holds of them, go with `prune_vectors`.
        """
        ids = [int(document_id) for document_id in document_ids]
        if not ids:
            return 0
        with self._library.writing() as connection:
            return _remove(connection, _rows_of(connection, ids))

    def remove_source(self, source_id: int) -> None:
        """Stop following a source and remove its documents."""
        with self._library.writing() as connection:
            query = select(Document.id, Document.collection_id).where(Document.source_id == source_id)
            _remove(connection, connection.execute(query).all())
            connection.execute(delete(table(Source)).where(Source.id == source_id))

    def refresh_lexical(self, collection_id: int) -> bool:
        """Build the lexical index anew where another version of the tokeniser made it; whether it was. Writing to the
        collection does so too."""
        with self._library.writing() as connection:
            return _refresh_lexical(connection, collection_id)


def _begin_change(connection: Connection, collection_id: int) -> int:
    """The collection's next state; its lexical index is brought to this version of the tokeniser first."""
    state = bump_state(connection, collection_id)
    _refresh_lexical(connection, collection_id)
    return state


def _refresh_lexical(connection: Connection, collection_id: int) -> bool:
    version = connection.execute(select(Collection.lexical_version).where(Collection.id == collection_id)).scalar()
    if version in (None, tokenise.VERSION):
        return False
    lexical.drop(connection, collection_id)
    columns = (Passage.id, Passage.context, Passage.heading, Passage.text)
    query = select(*columns).where(Passage.collection_id == collection_id).order_by(Passage.id)
    for rows in connection.execute(query).partitions(_CHUNK):
        lexical.add(connection, collection_id, [(row[0], lexical_text(*row[1:])) for row in rows])
    connection.execute(
        update(table(Collection)).where(Collection.id == collection_id).values(lexical_version=tokenise.VERSION)
    )
    return True


def _remove(connection: Connection, rows: Sequence[Any]) -> int:
    states = {collection: _begin_change(connection, collection) for collection in {row.collection_id for row in rows}}
    return remove_documents(connection, [row.id for row in rows], states)


def _rows_of(connection: Connection, ids: Sequence[int]) -> list[Any]:
    rows: list[Any] = []
    for at in range(0, len(ids), _CHUNK):
        query = select(Document.id, Document.collection_id).where(Document.id.in_(ids[at : at + _CHUNK]))
        rows.extend(connection.execute(query))
    return rows


def _renamed(
    document_id: int, source_id: int | None, path: str, relative_path: str, stamp: FileStamp
) -> dict[str, Any]:
    values = {"source_id": source_id, **path_columns(path, relative_path), **_stamp_columns(stamp)}
    return {"key": document_id, **{"new_" + name: value for name, value in values.items()}}


def _stamp_columns(stamp: FileStamp, prefix: str = "") -> dict[str, Any]:
    return {prefix + name: value for name, value in dataclasses.asdict(stamp).items()}


def _document_record(row: Any) -> DocumentRecord:
    document_id, collection_id, source_id, path, relative_path, *rest = row
    return DocumentRecord(
        document_id, collection_id, source_id, paths.from_bytes(path), paths.from_bytes(relative_path), *rest
    )
