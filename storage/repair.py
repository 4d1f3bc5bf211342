"""Finding and repairing rows that do not belong together, as a damaged disk or a foreign program leaves them.

It knows the tables and no file of an index: whoever repairs brings the index files up to date afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, func, select, update

from . import lexical
from .collections import bump_state
from .library_models import Collection, Document, Passage
from .part import Part
from .records import NewDocument
from .removal import lexical_text
from .tables import table
from .vectors import note_leftovers
from .writing import text_hash

_CHUNK = 2_000
_PASSES = 5
"""Erasing a row may leave others alone: collection, source, document, passage, postings."""


class RepairPart(Part):
    """Checks beyond SQLite's own, and repairs."""

    def lexical_damage(self, collection_id: int) -> bool:
        """Whether the lexical index of a collection is not what its passages make."""
        with self._library.reading() as connection:
            held = set(connection.execute(select(Passage.id).where(Passage.collection_id == collection_id)).scalars())
            if held != lexical.indexed(connection, collection_id):
                return True
            return lexical.differs(connection, collection_id, _texts(connection, collection_id))

    def rebuild_lexical(self, collection_id: int) -> None:
        """Make the lexical index of a collection anew from its passages."""
        with self._library.writing() as connection:
            lexical.drop(connection, collection_id)
            for chunk in _chunks(_texts(connection, collection_id)):
                lexical.add(connection, collection_id, chunk)
            bump_state(connection, collection_id)

    def orphans(self) -> dict[str, int]:
        """Number of rows that refer to a row that is not there, by table."""
        found: dict[str, int] = {}
        with self._library.reading() as connection:
            for row in connection.exec_driver_sql("PRAGMA foreign_key_check"):
                found[row[0]] = found.get(row[0], 0) + 1
        return found

    def erase_orphans(self) -> None:
        """Erase rows that refer to a row that is not there; a document whose source is gone is kept without one."""
        with self._library.writing() as connection:
            note_leftovers(connection)
            for _ in range(_PASSES):
                rows = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
                if not rows:
                    break
                for name, rowid, parent, _key in rows:
                    _erase(connection, name, rowid, parent)
            for (collection_id,) in connection.execute(select(Collection.id)).all():
                bump_state(connection, collection_id)

    def incomplete_documents(self, collection_id: int) -> list[int]:
        """Ids of documents that do not have the passages they were stored with."""
        held = select(func.count()).where(Passage.document_id == Document.id).scalar_subquery()
        query = select(Document.id).where(Document.collection_id == collection_id, Document.passage_count != held)
        with self._library.reading() as connection:
            return list(connection.execute(query).scalars())

    def altered_documents(self, collection_id: int) -> list[int]:
        """Ids of documents of which a passage is not the text that was stored, or at a place that cannot be."""
        columns = (
            Passage.document_id, Passage.text, Passage.text_hash, Passage.position,
            Passage.line_start, Passage.line_end, Passage.char_start, Passage.char_end,
        )  # fmt: skip
        query = select(*columns).where(Passage.collection_id == collection_id)
        with self._library.reading() as connection:
            return sorted({row.document_id for row in connection.execute(query) if _is_altered(row)})

    def unknown_statuses(self, collection_id: int, known: Sequence[str]) -> list[int]:
        """Ids of documents whose status is none of `known`."""
        query = select(Document.id).where(Document.collection_id == collection_id, Document.status.not_in(known))
        with self._library.reading() as connection:
            return list(connection.execute(query).scalars())

    def forget_content(self, document_ids: Iterable[int], status: str, reason: str) -> None:
        """Let documents be read anew by the next run: they lose their passages and what is known of their content."""
        wanted = set(document_ids)
        with self._library.reading() as connection:
            rows = connection.execute(select(table(Document)).where(Document.id.in_(wanted))).all()
        for collection_id, group in groupby(sorted(rows, key=lambda r: r.collection_id), key=lambda r: r.collection_id):
            from . import paths

            documents = [
                NewDocument(
                    row.source_id, paths.from_bytes(row.path), paths.from_bytes(row.relative_path), 0, 0, None,
                    row.reader, status, reason,
                )
                for row in group
            ]  # fmt: skip
            self.put_documents(collection_id, documents)  # type: ignore[attr-defined]

    def reindex(self) -> None:
        """Make SQLite's own indexes anew from the tables."""
        with self._library.writing() as connection:
            connection.exec_driver_sql("REINDEX")


def _is_altered(row: Any) -> bool:
    places = (row.position, row.line_start, row.char_start)
    backwards = row.line_end < row.line_start or row.char_end < row.char_start
    return backwards or min(places) < 0 or text_hash(row.text) != row.text_hash


def _texts(connection: Connection, collection_id: int) -> Iterator[tuple[int, str]]:
    columns = (Passage.id, Passage.context, Passage.heading, Passage.text)
    query = select(*columns).where(Passage.collection_id == collection_id).order_by(Passage.id)
    for row in connection.execute(query):
        yield row[0], lexical_text(*row[1:])


def _chunks(texts: Iterator[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    chunk: list[tuple[int, str]] = []
    for text in texts:
        chunk.append(text)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    yield chunk


def _erase(connection: Connection, name: str, rowid: int | None, parent: str) -> None:
    if name == "documents" and parent == "sources":
        connection.execute(update(table(Document)).where(Document.id == rowid).values(source_id=None))
    elif rowid is None:  # a table without row ids: all that have no collection
        connection.exec_driver_sql(f"DELETE FROM {name} WHERE collection_id NOT IN (SELECT id FROM collections)")
    else:
        connection.exec_driver_sql(f"DELETE FROM {name} WHERE rowid = ?", (rowid,))
