"""Taking passages and documents out, inside the transaction of whoever calls it. It knows no state and no path.

Whatever goes leaves its id in the log of removals, by which index files catch up, and nothing else: its text, its
words and its row are overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, insert, literal, select, update

from . import lexical
from .library_models import Collection, Document, Passage, RemovedPassage
from .tables import table
from .vectors import note_leftovers

LOG_LIMIT = 20_000
"""Most removals kept in a collection's log; an index file older than its start is built anew."""

_CHUNK = 5_000


def lexical_text(context: str, heading: str, text: str) -> str:
    """What the lexical index holds of a passage: what the encoder gets, and the headings that this lacks."""
    return "\n".join((context, "" if heading in context else heading, text))


def remove_documents(connection: Connection, document_ids: Sequence[int], states: dict[int, int]) -> int:
    """Remove documents and their passages; `states` are the new states of the collections they are in."""
    for at in range(0, len(document_ids), _CHUNK):
        chunk = document_ids[at : at + _CHUNK]
        rows = connection.execute(select(Passage.collection_id, Passage.id).where(Passage.document_id.in_(chunk))).all()
        for collection, state in states.items():
            gone = [row.id for row in rows if row.collection_id == collection]
            remove_passages(connection, collection, state, gone)
        connection.execute(delete(table(Document)).where(Document.id.in_(chunk)))
    return len(document_ids)


def remove_passages(connection: Connection, collection_id: int, state: int, passage_ids: Sequence[int]) -> None:
    """Remove passages of a collection whose new state is `state`."""
    for at in range(0, len(passage_ids), _CHUNK):
        chunk = Passage.id.in_(passage_ids[at : at + _CHUNK])
        texts = connection.execute(select(Passage.id, Passage.context, Passage.heading, Passage.text).where(chunk))
        lexical.remove(connection, collection_id, [(row[0], lexical_text(*row[1:])) for row in texts])
        columns = ["passage_id", "collection_id", "state", "added_state"]
        logged = select(Passage.id, Passage.collection_id, literal(state), Passage.added_state).where(chunk)
        connection.execute(insert(table(RemovedPassage)).from_select(columns, logged))
        connection.execute(delete(table(Passage)).where(chunk))
    if passage_ids:
        note_leftovers(connection)
        _trim_log(connection, collection_id)


def _trim_log(connection: Connection, collection_id: int) -> None:
    mine = RemovedPassage.collection_id == collection_id
    beyond = select(RemovedPassage.state).where(mine).order_by(RemovedPassage.state.desc()).offset(LOG_LIMIT).limit(1)
    cut = connection.execute(beyond).scalar()
    if cut is None:
        return
    connection.execute(delete(table(RemovedPassage)).where(mine, RemovedPassage.state <= cut))
    connection.execute(
        update(table(Collection))
        .where(Collection.id == collection_id)
        .values(log_start=func.max(Collection.log_start, cut))
    )
