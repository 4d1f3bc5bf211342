"""Which passages a collection has, and which of them lie under a path; kept until the collection changes.

It knows no text. A warm search asks for the same selection more than once.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict

import numpy as np
from sqlalchemy import Connection

from .. import UsageError
from . import paths

_KEPT = 16
_CHUNK = 5_000


class Selections:
    """Passage ids by collection and path glob, for the state that a transaction sees."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int, str | None], np.ndarray] = OrderedDict()

    def ids(self, connection: Connection, collection_id: int, path: str | None) -> np.ndarray:
        """Ids, int64, ascending, not to be written to; none for a collection that there is not."""
        row = connection.exec_driver_sql("SELECT state FROM collections WHERE id = ?", (collection_id,)).first()
        if row is None:
            return np.empty(0, dtype=np.int64)
        key = (collection_id, row[0], path)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = _all(connection, collection_id) if path is None else _under(connection, collection_id, path)
        found.setflags(write=False)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found


def _all(connection: Connection, collection_id: int) -> np.ndarray:
    # One row of text is read five times as fast as a row for each id.
    query = "SELECT coalesce(group_concat(id), '') FROM passages WHERE collection_id = ?"
    joined = connection.exec_driver_sql(query, (collection_id,)).scalar_one()
    return np.sort(np.fromstring(joined, dtype=np.int64, sep=","))


_UNFINISHED = re.compile(r"(?:[^\[]|\[!?+.[^\]]*\])*+\[", re.DOTALL)
"""A glob up to a bracket that begins no character set, when matched from its start."""


def _under(connection: Connection, collection_id: int, path: str) -> np.ndarray:
    if _UNFINISHED.match(path):
        raise UsageError(f"{path!r} is no pattern for paths: its [ does not end; write [[] for the character itself.")
    try:
        fits = paths.glob_pattern(path).fullmatch
    except re.error:  # a character set whose range runs backwards
        raise UsageError(f"{path!r} is no pattern for paths; write one such as 'notes/*.md'.") from None
    columns = "display_path" if path.startswith("/") else "display_relative_path, display_path"
    rows = connection.exec_driver_sql(f"SELECT id, {columns} FROM documents WHERE collection_id = ?", (collection_id,))
    documents = [document_id for document_id, *shown in rows if any(map(fits, shown))]
    found: list[int] = []
    for at in range(0, len(documents), _CHUNK):
        chunk = documents[at : at + _CHUNK]
        marks = ", ".join("?" * len(chunk))
        query = f"SELECT id FROM passages WHERE document_id IN ({marks})"
        found += connection.exec_driver_sql(query, tuple(chunk)).scalars()
    return np.sort(np.array(found, dtype=np.int64))
