"""The catalog's passages as readers see them: fetched, filtered by path, searched by words. It writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, bindparam, select

from . import lexical, paths
from .library_models import Collection, Document, Passage, RemovedPassage
from .part import Part
from .records import Changes, PassageRecord
from .tables import table

_CHUNK = 5_000
_PASSAGE_QUERY = (
    select(
        table(Passage),
        Collection.name.label("collection"),
        Document.path.label("document_path"),
        Document.relative_path,
        Document.title,
    )
    .join(table(Document), Document.id == Passage.document_id)
    .join(table(Collection), Collection.id == Passage.collection_id)
)

# Statements are built once: building one takes longer than SQLite takes for a few rows.
_IDS = bindparam("ids", expanding=True)
_PASSAGES_BY_ID = _PASSAGE_QUERY.where(Passage.id.in_(_IDS))
_OTHER = table(Passage).alias("other")
_COPIES = (
    select(Passage.id, Document.path)
    # The sum keeps SQLite from looking through the whole collection by its index in place of the hash's.
    .join(_OTHER, (_OTHER.c.text_hash == Passage.text_hash) & (_OTHER.c.collection_id + 0 == Passage.collection_id))
    .join(table(Document), Document.id == _OTHER.c.document_id)
    .where(Passage.id.in_(_IDS), _OTHER.c.document_id != Passage.document_id)
    .distinct()
)


class PassagesPart(Part):
    """Passages of the library."""

    def passages(self, ids: Iterable[int]) -> list[PassageRecord]:
        """The passages of `ids`, in that order; ids that are no more are left out."""
        wanted = [int(passage_id) for passage_id in ids]
        with self._library.reading() as connection:
            found: dict[int, PassageRecord] = {}
            for at in range(0, len(wanted), _CHUNK):
                rows = connection.execute(_PASSAGES_BY_ID, {"ids": wanted[at : at + _CHUNK]})
                found.update((row.id, _passage_record(row)) for row in rows)
        return [found[passage_id] for passage_id in wanted if passage_id in found]

    def neighbours(self, passage_id: int, before: int = 1, after: int = 1) -> list[PassageRecord]:
        """The passages around one in its document, without itself, in the order of the document."""
        with self._library.reading() as connection:
            place = connection.execute(
                select(Passage.document_id, Passage.position).where(Passage.id == passage_id)
            ).first()
            if place is None:
                return []
            rows = connection.execute(
                _PASSAGE_QUERY.where(
                    Passage.document_id == place.document_id,
                    Passage.position.between(place.position - before, place.position + after),
                    Passage.id != passage_id,
                ).order_by(Passage.position)
            )
            return [_passage_record(row) for row in rows]

    def copies(self, passage_ids: Iterable[int]) -> dict[int, list[str]]:
        """For each passage the paths of other documents of its collection that hold the same text, sorted."""
        ids = [int(passage_id) for passage_id in passage_ids]
        found: dict[int, list[str]] = {passage_id: [] for passage_id in ids}
        with self._library.reading() as connection:
            for passage_id, path in connection.execute(_COPIES, {"ids": ids}):
                found[passage_id].append(paths.from_bytes(path))
        return {passage_id: sorted(others) for passage_id, others in found.items()}

    def passage_ids(self, collection_id: int, path: str | None = None) -> np.ndarray:
        """Ids of a collection's passages, int64, ascending, not to be written to.

        Parameters
        ----------
        path : str, optional
            Only those of documents whose relative or absolute path fits this glob: ``*`` and ``?`` stay within one
            name, ``**`` crosses folders, a pattern without ``/`` is compared with names at any depth, a folder stands
            for everything in it. Composed and decomposed spellings of a name are the same.
        """
        with self._library.reading() as connection:
            return self._selections.ids(connection, collection_id, path)

    def changes_since(self, collection_id: int, state: int) -> Changes | None:
        """The passages that came and went since the collection was at `state`; None where that is not known any more,
        and the index must be built from all of `passage_ids`."""
        with self._library.reading() as connection:
            row = connection.execute(
                select(Collection.state, Collection.log_start).where(Collection.id == collection_id)
            ).first()
            if row is None or not row.log_start <= state <= row.state:
                return None
            added = select(Passage.id).where(Passage.collection_id == collection_id, Passage.added_state > state)
            removed = select(RemovedPassage.passage_id).where(
                RemovedPassage.collection_id == collection_id,
                RemovedPassage.state > state,
                RemovedPassage.added_state <= state,
            )
            return Changes(_ids(connection, added), _ids(connection, removed))

    def had_state(self, collection_id: int, state: int) -> bool:
        """Whether a change led to `state` of which there is a trace: a passage that came or went with it.

        One of which none is left is not known; states that this database never had are not, either.
        """
        found = (
            select(Passage.id).where(Passage.collection_id == collection_id, Passage.added_state == state),
            select(RemovedPassage.passage_id).where(
                RemovedPassage.collection_id == collection_id,
                (RemovedPassage.state == state) | (RemovedPassage.added_state == state),
            ),
        )
        with self._library.reading() as connection:
            return any(connection.execute(query.limit(1)).first() is not None for query in found)

    def lexical_search(
        self, collection_id: int, query: str, k: int, path: str | None = None
    ) -> list[tuple[int, float]]:
        """The passages that fit the words of `query` best, with their BM25 scores, best first.

        `query` is plain text whatever it holds; `path` as in `passage_ids`.
        """
        if k < 1:
            return []
        with self._library.reading() as connection:
            allowed = None if path is None else self._selections.ids(connection, collection_id, path)
            return lexical.search(connection, collection_id, query, k, allowed)

    def token_counts(self, collection_id: int, tokens: Sequence[str]) -> dict[str, int]:
        """Number of the collection's passages that hold each of `tokens` (as `tokenise.tokens` gives them)."""
        with self._library.reading() as connection:
            return lexical.counts(connection, collection_id, tokens)


def _ids(connection: Connection, query: Any) -> np.ndarray:
    return np.sort(np.fromiter((row[0] for row in connection.execute(query)), dtype=np.int64))


def _passage_record(row: Row[Any]) -> PassageRecord:
    return PassageRecord(
        id=row.id, collection_id=row.collection_id, collection=row.collection, document_id=row.document_id,
        position=row.position, path=paths.from_bytes(row.relative_path),
        absolute_path=paths.from_bytes(row.document_path), title=row.title, text=row.text, context=row.context,
        heading=row.heading, page=row.page, lines=(row.line_start, row.line_end),
        chars=(row.char_start, row.char_end), input_hash=row.input_hash, text_hash=row.text_hash,
    )  # fmt: skip
