"""The lexical index of a collection: an FTS5 table of its own, so that its statistics are its own.

It knows tokens and passage ids, no document and no path. It runs inside the transaction of whoever calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from .tokenise import tokens

COMMON_SHARE = 0.1
"""A query word standing in more than this share of the passages is dropped, unless nothing is left."""


def create(connection: Connection, collection_id: int) -> None:
    connection.exec_driver_sql(
        f"CREATE VIRTUAL TABLE lexical_{collection_id:d} USING fts5(tokens, tokenize = \"ascii tokenchars '._-'\")"
    )
    connection.exec_driver_sql(
        f"CREATE VIRTUAL TABLE lexical_words_{collection_id:d} USING fts5vocab(lexical_{collection_id:d}, row)"
    )


def drop(connection: Connection, collection_id: int) -> None:
    connection.exec_driver_sql(f"DROP TABLE lexical_words_{collection_id:d}")
    connection.exec_driver_sql(f"DROP TABLE lexical_{collection_id:d}")


def add(connection: Connection, collection_id: int, texts: Iterable[tuple[int, str]]) -> None:
    rows = [(passage_id, " ".join(tokens(text))) for passage_id, text in texts]
    if rows:
        connection.exec_driver_sql(f"INSERT INTO lexical_{collection_id:d}(rowid, tokens) VALUES (?, ?)", rows)


def remove(connection: Connection, collection_id: int, passage_ids: Iterable[int]) -> None:
    rows = [(passage_id,) for passage_id in passage_ids]
    if rows:
        connection.exec_driver_sql(f"DELETE FROM lexical_{collection_id:d} WHERE rowid = ?", rows)


def counts(connection: Connection, collection_id: int, words: Sequence[str]) -> dict[str, int]:
    """Number of passages that hold each of `words`."""
    found = dict.fromkeys(words, 0)
    for word in found:
        row = connection.exec_driver_sql(
            f"SELECT doc FROM lexical_words_{collection_id:d} WHERE term = ?", (word,)
        ).first()
        found[word] = row[0] if row else 0
    return found


def search(
    connection: Connection, collection_id: int, query: str, k: int, passages: int, allowed: set[int] | None = None
) -> list[tuple[int, float]]:
    """The `k` passages that fit the words of `query` best, with their BM25 score, higher is better."""
    words = kept_words(counts(connection, collection_id, tokens(query)), passages)
    if not words:
        return []
    match = " OR ".join(f'"{word}"' for word in words)
    limit = k if allowed is None else -1
    rows = connection.exec_driver_sql(
        f"SELECT rowid, -rank FROM lexical_{collection_id:d} WHERE lexical_{collection_id:d} MATCH ? "
        "ORDER BY rank, rowid LIMIT ?",
        (match, limit),
    )
    if allowed is None:
        return [(row[0], row[1]) for row in rows]
    return [(row[0], row[1]) for row in rows if row[0] in allowed][:k]


def kept_words(document_counts: dict[str, int], passages: int) -> list[str]:
    """The words worth asking for."""
    present = [word for word, count in document_counts.items() if count]
    rare = [word for word in present if document_counts[word] <= COMMON_SHARE * passages]
    return rare or present
