"""The catalog's raw vectors, float16, keyed by encoder fingerprint and hash of what was encoded. It knows no index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from sqlalchemy import Connection

from .errors import LibraryDamaged
from .part import Part

_CHUNK = 8_192
_HALF = np.dtype("<f2")
_STORED, _REMOVED = 1, 2
"""Bits of ``user_version``: a vector was stored whose passage may never come, a passage was removed."""
_BYTES = "CASE WHEN typeof(vectors.data) = 'blob' THEN vectors.data END"
_JOIN = (
    "FROM passages JOIN collections ON collections.id = passages.collection_id "
    "JOIN encoder_fingerprints ON encoder_fingerprints.fingerprint = collections.fingerprint "
    "JOIN vectors ON vectors.encoder_id = encoder_fingerprints.id AND vectors.input_hash = passages.input_hash "
)


class VectorsPart(Part):
    """Vectors of passages."""

    def stored_vectors(self, fingerprint: str, hashes: Iterable[bytes]) -> set[bytes]:
        """Those of `hashes` that have a vector under the encoder of this fingerprint."""
        wanted = list(hashes)
        with self._library.reading() as connection:
            encoder_id = _encoder_id(connection, fingerprint)
            found: set[bytes] = set()
            for at in range(0, len(wanted), _CHUNK):
                chunk = wanted[at : at + _CHUNK]
                marks = ", ".join("?" * len(chunk))
                rows = connection.exec_driver_sql(
                    f"SELECT input_hash FROM vectors WHERE encoder_id = ? AND input_hash IN ({marks})",
                    (encoder_id, *chunk),
                )
                found.update(row[0] for row in rows)
            return found

    def put_vectors(self, fingerprint: str, hashes: Sequence[bytes], vectors: np.ndarray) -> None:
        """Store raw vectors, float32 of shape (len(hashes), d), rounded to float16; one stored before is kept.

        Raises
        ------
        ValueError
            The shape does not fit, or a number is not finite or beyond float16.
        """
        if vectors.ndim != 2 or len(vectors) != len(hashes):
            raise ValueError(f"{len(hashes)} hashes but vectors of shape {vectors.shape}")
        if not len(hashes):
            return
        with np.errstate(over="ignore"):
            rounded = np.ascontiguousarray(vectors, dtype=_HALF)
        if not np.isfinite(rounded).all():
            raise ValueError("a vector holds a number that is not finite in float16")
        with self._library.writing() as connection:
            connection.exec_driver_sql(
                "INSERT INTO encoder_fingerprints(fingerprint) VALUES (?) ON CONFLICT DO NOTHING", (fingerprint,)
            )
            note_leftovers(connection, removed=False)
            encoder_id = _encoder_id(connection, fingerprint)
            rows = [(encoder_id, key, row.tobytes()) for key, row in zip(hashes, rounded, strict=True)]
            connection.exec_driver_sql(
                "INSERT INTO vectors(encoder_id, input_hash, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows
            )

    def vectors(
        self, collection_id: int, passage_ids: np.ndarray | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Ids and raw vectors of a collection's passages, in ascending order of id, as seen at one moment.

        Parameters
        ----------
        passage_ids : int64 array, optional
            Only these; those that are no more, or have no vector, are left out.

        Yields
        ------
        (ids int64 (n,), vectors float32 (n, d))

        Raises
        ------
        LibraryDamaged
            A stored vector is of another length or holds a number that is not finite; see `broken_vectors`.
        """
        with self._library.reading() as connection:
            length = _length(connection, collection_id)
            select = f"SELECT passages.id, vectors.data {_JOIN} WHERE passages.collection_id = ? "
            if passage_ids is None:
                rows = connection.exec_driver_sql(select + "ORDER BY passages.id", (collection_id,))
                while chunk := rows.fetchmany(_CHUNK):
                    yield _unpacked(chunk, length)
                return
            wanted = np.unique(np.asarray(passage_ids, dtype=np.int64)).tolist()
            for at in range(0, len(wanted), _CHUNK):
                part = wanted[at : at + _CHUNK]
                marks = ", ".join("?" * len(part))
                rows = connection.exec_driver_sql(
                    f"{select} AND passages.id IN ({marks}) ORDER BY passages.id", (collection_id, *part)
                )
                if chunk := rows.fetchall():
                    yield _unpacked(chunk, length)

    def broken_vectors(self, collection_id: int) -> list[int]:
        """Ids of stored vectors of a collection that are of another length or hold a number that is not finite."""
        with self._library.reading() as connection:
            length = _length(connection, collection_id)
            rows = connection.exec_driver_sql(
                f"SELECT DISTINCT vectors.id, {_BYTES} {_JOIN} WHERE passages.collection_id = ?", (collection_id,)
            )
            broken: list[int] = []
            while chunk := rows.fetchmany(_CHUNK):
                broken += [row[0] for row in chunk if not _is_whole(row[1], length)]
            return broken

    def erase_vectors(self, vector_ids: Iterable[int]) -> None:
        """Erase stored vectors by their own ids; their passages are without one then."""
        with self._library.writing() as connection:
            for vector_id in vector_ids:
                connection.exec_driver_sql("DELETE FROM vectors WHERE id = ?", (vector_id,))
            note_leftovers(connection)

    def prune_vectors(self) -> int:
        """Erase vectors that no passage refers to, and variants and slots of texts that are no more.

        Returns
        -------
        int
            The number of vectors erased.

        To be called at the end of an indexing run and after removing documents: it also empties the write-ahead logs,
        so that no file holds anything of a removed text. Until it has ended `has_leftovers` says so, after a kill too.
        """
        with self._library.writing() as connection:
            erased = connection.exec_driver_sql(
                "DELETE FROM vectors WHERE NOT EXISTS (SELECT 1 FROM passages "
                "JOIN collections ON collections.id = passages.collection_id "
                "JOIN encoder_fingerprints ON encoder_fingerprints.fingerprint = collections.fingerprint "
                "WHERE passages.input_hash = vectors.input_hash AND encoder_fingerprints.id = vectors.encoder_id)"
            ).rowcount
            _prune_variants(connection)
        self._prune_slots()
        self._library.checkpoint()
        with self._library.writing() as connection:
            connection.exec_driver_sql("PRAGMA user_version = 0")
        return erased

    def has_leftovers(self, *, removed: bool = False) -> bool:
        """Whether something was stored or removed since the last `prune_vectors` that may have left a vector behind;
        with `removed` only whether something was removed."""
        with self._library.reading() as connection:
            return bool(_leftovers(connection) & (_REMOVED if removed else _REMOVED | _STORED))


def note_leftovers(connection: Connection, *, removed: bool = True) -> None:
    """Let `VectorsPart.has_leftovers` be true with the transaction that `connection` is in: after a kill, too, what
    was removed is to be erased by the next run. SQLite's ``user_version`` holds it."""
    now = _leftovers(connection)
    wanted = now | (_REMOVED if removed else _STORED)
    if wanted != now:
        connection.exec_driver_sql(f"PRAGMA user_version = {wanted}")


def _prune_variants(connection: Connection) -> int:
    """Erase the variants of what no passage is encoded from any more; the number erased."""
    return connection.exec_driver_sql(
        "DELETE FROM variants WHERE NOT EXISTS (SELECT 1 FROM passages WHERE passages.input_hash = variants.input_hash)"
    ).rowcount


def _leftovers(connection: Connection) -> int:
    return connection.exec_driver_sql("PRAGMA user_version").scalar_one()


def _encoder_id(connection: Connection, fingerprint: str) -> int:
    row = connection.exec_driver_sql(
        "SELECT id FROM encoder_fingerprints WHERE fingerprint = ?", (fingerprint,)
    ).first()
    return -1 if row is None else row[0]


def _length(connection: Connection, collection_id: int) -> int:
    """Bytes of a vector of a collection."""
    row = connection.exec_driver_sql("SELECT dimension FROM collections WHERE id = ?", (collection_id,)).first()
    return 0 if row is None else row[0] * _HALF.itemsize


def _is_whole(data: object, length: int) -> bool:
    return isinstance(data, bytes) and len(data) == length and bool(np.isfinite(np.frombuffer(data, dtype=_HALF)).all())


def _unpacked(rows: Sequence[Sequence], length: int) -> tuple[np.ndarray, np.ndarray]:
    ids = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
    blobs = [row[1] for row in rows]
    if all(isinstance(blob, bytes) and len(blob) == length for blob in blobs):
        vectors = np.frombuffer(b"".join(blobs), dtype=_HALF).reshape(len(rows), -1).astype(np.float32)
        if np.isfinite(vectors).all():
            return ids, vectors
    raise LibraryDamaged("library.db is damaged: a stored vector is broken; run slotrag doctor --fix")
