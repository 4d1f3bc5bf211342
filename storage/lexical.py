"""The lexical index of a collection: postings by segment and word, ranked by BM25 over all words of a query.

It knows tokens and passage ids, no document and no path, and runs inside the transaction of whoever calls it.

Passages whose ids agree above the lowest 12 bits form a segment. A row holds the postings of one word in one segment:
for each passage its place in the segment and how often it holds the word. Adding or removing passages rewrites only the
rows of their segment and their words, and leaves nothing of a removed text behind. A query reads one row for each of
its words and segments, and every word counts. (SQLite's FTS5 was measured first: at 50,000 passages a question takes 54
ms with the words left out that stand in more than a tenth of the passages, which costs a sixth of nDCG@10 on
Cranfield; this takes a tenth of the time with every word.)
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby

import numpy as np
from sqlalchemy import Connection

from .tokenise import query_tokens, tokens

K1, B = 1.5, 0.75
"""BM25's constants: how fast a word's count saturates, how much a passage's length matters."""

_SEGMENT_BITS = 12
_SEGMENT = 1 << _SEGMENT_BITS
_POSTING = np.dtype([("place", "<u2"), ("count", "u1")])
_LENGTH = np.dtype("<u2")
_CHUNK = 5_000


def add(connection: Connection, collection_id: int, texts: Iterable[tuple[int, str]]) -> None:
    """Index passages, (id, text) each; an id is added once."""
    for segment, group in _by_segment(texts):
        places, lists = [place for place, _ in group], [tokens(text) for _, text in group]
        lengths = _lengths(connection, collection_id, segment)
        lengths[places] = [max(1, min(len(found), 0xFFFF)) for found in lists]
        _put_lengths(connection, collection_id, segment, lengths)
        new = _postings(places, lists)
        old = _rows(connection, collection_id, segment, list(new))
        _put_rows(connection, collection_id, segment, {word: old.get(word, b"") + data for word, data in new.items()})


def remove(connection: Connection, collection_id: int, texts: Iterable[tuple[int, str]]) -> None:
    """Take passages out, (id, text) each, with the text that they were added with."""
    for segment, group in _by_segment(texts):
        lengths = _lengths(connection, collection_id, segment)
        gone = np.zeros(_SEGMENT, dtype=bool)
        gone[[place for place, _ in group]] = True
        lengths[gone] = 0
        _put_lengths(connection, collection_id, segment, lengths)
        words = {word for _, text in group for word in tokens(text)}
        rows = {}
        for word, data in _rows(connection, collection_id, segment, list(words)).items():
            postings = np.frombuffer(data, dtype=_POSTING)
            rows[word] = postings[~gone[postings["place"]]].tobytes()
        _put_rows(connection, collection_id, segment, rows)


def drop(connection: Connection, collection_id: int) -> None:
    """Take everything of a collection out."""
    connection.exec_driver_sql("DELETE FROM lexical_postings WHERE collection_id = ?", (collection_id,))
    connection.exec_driver_sql("DELETE FROM lexical_lengths WHERE collection_id = ?", (collection_id,))


def counts(connection: Connection, collection_id: int, words: Iterable[str]) -> dict[str, int]:
    """Number of passages that hold each of `words`."""
    found = dict.fromkeys(words, 0)
    for word, _, data in _postings_of(connection, collection_id, list(found)):
        found[word] += len(data) // _POSTING.itemsize
    return found


def indexed(connection: Connection, collection_id: int) -> set[int]:
    """Ids of the passages that the index of a collection holds."""
    rows = connection.exec_driver_sql(
        "SELECT segment, data FROM lexical_lengths WHERE collection_id = ?", (collection_id,)
    )
    return {
        (segment << _SEGMENT_BITS) + place
        for segment, data in rows
        for place in np.flatnonzero(np.frombuffer(data, dtype=_LENGTH)).tolist()
    }


def differs(connection: Connection, collection_id: int, texts: Iterable[tuple[int, str]]) -> bool:
    """Whether the index holds other words or counts than `texts`, (id, text) of all passages in ascending order."""
    segments = "SELECT DISTINCT segment FROM lexical_postings WHERE collection_id = ?"
    left = {row[0] for row in connection.exec_driver_sql(segments, (collection_id,))}
    for segment, group in groupby(texts, key=lambda item: item[0] >> _SEGMENT_BITS):
        held = dict(
            connection.exec_driver_sql(
                "SELECT term, data FROM lexical_postings WHERE collection_id = ? AND segment = ?",
                (collection_id, segment),
            ).all()
        )
        left.discard(segment)
        passages = [(passage_id & (_SEGMENT - 1), tokens(text)) for passage_id, text in group]
        lists = [found for _, found in passages]
        wanted = _postings([place for place, _ in passages], lists)
        lengths = np.zeros(_SEGMENT, dtype=_LENGTH)
        lengths[[place for place, _ in passages]] = [max(1, min(len(found), 0xFFFF)) for found in lists]
        if (lengths != _lengths(connection, collection_id, segment)).any() or held.keys() != wanted.keys():
            return True
        if any(len(held[word]) != len(data) or _ordered(held[word]) != _ordered(data) for word, data in wanted.items()):
            return True
    return bool(left)


def _ordered(postings: bytes) -> bytes:
    """Postings in the order of their places; those of a row stand in the order in which they were added."""
    return np.sort(np.frombuffer(postings, dtype=_POSTING), order="place").tobytes()


def search(
    connection: Connection, collection_id: int, query: str, k: int, allowed: np.ndarray | None = None
) -> list[tuple[int, float]]:
    """The `k` passages that fit the words of `query` best, with their BM25 scores; higher is better, none is zero.

    Parameters
    ----------
    allowed : int64 array, optional
        Only these passage ids; scores are as without it.
    """
    words = Counter(query_tokens(query))
    rows = connection.exec_driver_sql(
        "SELECT segment, data FROM lexical_lengths WHERE collection_id = ? ORDER BY segment", (collection_id,)
    ).all()
    if not words or not rows:
        return []
    base = {segment: at << _SEGMENT_BITS for at, (segment, _) in enumerate(rows)}
    lengths = np.frombuffer(b"".join([data for _, data in rows]), dtype=_LENGTH).astype(np.float32)
    passages = np.count_nonzero(lengths)
    if not passages:
        return []
    norms = K1 * (1 - B + B * lengths / (lengths.sum() / passages))
    scores = np.zeros(len(lengths), dtype=np.float32)
    for word, places, occurrences in _gathered(connection, collection_id, words, base):
        weight = words[word] * (K1 + 1) * math.log(1 + (passages - len(places) + 0.5) / (len(places) + 0.5))
        scores[places] += weight * occurrences / (occurrences + norms[places])
    ids = (np.repeat([segment for segment, _ in rows], _SEGMENT) << _SEGMENT_BITS) + np.tile(
        np.arange(_SEGMENT), len(rows)
    )
    if allowed is not None:
        scores[~np.isin(ids, allowed)] = 0
    return _best(ids, scores, k)


def _best(ids: np.ndarray, scores: np.ndarray, k: int) -> list[tuple[int, float]]:
    """The `k` highest scores above zero; equal ones in ascending order of id."""
    held = np.flatnonzero(scores)
    if len(held) > k:
        least = np.partition(scores[held], len(held) - k)[len(held) - k]
        held = held[scores[held] >= least]
    order = held[np.lexsort((ids[held], -scores[held]))][:k]
    return list(zip(ids[order].tolist(), scores[order].tolist(), strict=True))


def _gathered(
    connection: Connection, collection_id: int, words: Iterable[str], base: dict[int, int]
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """For each word that occurs: its passages' places over all segments, and its number of occurrences in each."""
    found: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
    for word, segment, data in _postings_of(connection, collection_id, list(words)):
        found[word].append((base[segment], data))
    for word, parts in found.items():
        postings = np.frombuffer(b"".join([data for _, data in parts]), dtype=_POSTING)
        starts = np.repeat([start for start, _ in parts], [len(data) // _POSTING.itemsize for _, data in parts])
        yield word, starts + postings["place"], postings["count"].astype(np.float32)


def _postings_of(connection: Connection, collection_id: int, words: Sequence[str]) -> Iterator[tuple[str, int, bytes]]:
    for at in range(0, len(words), _CHUNK):
        chunk = words[at : at + _CHUNK]
        yield from connection.exec_driver_sql(
            "SELECT term, segment, data FROM lexical_postings WHERE collection_id = ? AND segment IN "
            "(SELECT segment FROM lexical_lengths WHERE collection_id = ?) "
            f"AND term IN ({', '.join('?' * len(chunk))}) ORDER BY segment, term",
            (collection_id, collection_id, *chunk),
        )


def _by_segment(texts: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    groups: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for passage_id, text in texts:
        groups[passage_id >> _SEGMENT_BITS].append((passage_id & (_SEGMENT - 1), text))
    yield from groups.items()


def _postings(places: Sequence[int], lists: Sequence[list[str]]) -> dict[str, bytes]:
    """Postings of each word that occurs in the token lists of the passages at `places`."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    words = np.fromiter((numbers[word] for found in lists for word in found), dtype=np.int64)
    owners = np.repeat(np.arange(len(lists)), [len(found) for found in lists])
    keys, occurrences = np.unique(words * len(lists) + owners, return_counts=True)
    postings = np.empty(len(keys), dtype=_POSTING)
    postings["place"] = np.asarray(places)[keys % len(lists)]
    postings["count"] = np.minimum(occurrences, 0xFF)
    packed = postings.tobytes()
    ends = (np.cumsum(np.bincount(keys // len(lists))) * _POSTING.itemsize).tolist() if len(keys) else []
    return {word: packed[start:end] for word, start, end in zip(numbers, [0, *ends], ends, strict=False)}


def _rows(connection: Connection, collection_id: int, segment: int, words: Sequence[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for at in range(0, len(words), _CHUNK):
        chunk = words[at : at + _CHUNK]
        rows = connection.exec_driver_sql(
            "SELECT term, data FROM lexical_postings WHERE collection_id = ? AND segment = ? "
            f"AND term IN ({', '.join('?' * len(chunk))})",
            (collection_id, segment, *chunk),
        )
        found.update((word, data) for word, data in rows)
    return found


def _put_rows(connection: Connection, collection_id: int, segment: int, rows: dict[str, bytes]) -> None:
    kept = sorted((collection_id, segment, word, data) for word, data in rows.items() if data)
    empty = [(collection_id, segment, word) for word, data in rows.items() if not data]
    if kept:
        connection.exec_driver_sql(
            "INSERT OR REPLACE INTO lexical_postings(collection_id, segment, term, data) VALUES (?, ?, ?, ?)", kept
        )
    if empty:
        connection.exec_driver_sql(
            "DELETE FROM lexical_postings WHERE collection_id = ? AND segment = ? AND term = ?", empty
        )


def _lengths(connection: Connection, collection_id: int, segment: int) -> np.ndarray:
    row = connection.exec_driver_sql(
        "SELECT data FROM lexical_lengths WHERE collection_id = ? AND segment = ?", (collection_id, segment)
    ).first()
    return np.zeros(_SEGMENT, dtype=_LENGTH) if row is None else np.frombuffer(row[0], dtype=_LENGTH).copy()


def _put_lengths(connection: Connection, collection_id: int, segment: int, lengths: np.ndarray) -> None:
    if lengths.any():
        connection.exec_driver_sql(
            "INSERT OR REPLACE INTO lexical_lengths(collection_id, segment, data) VALUES (?, ?, ?)",
            (collection_id, segment, lengths.tobytes()),
        )
    else:
        connection.exec_driver_sql(
            "DELETE FROM lexical_lengths WHERE collection_id = ? AND segment = ?", (collection_id, segment)
        )
