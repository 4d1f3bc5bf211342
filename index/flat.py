"""Exact inner-product search with FAISS. It knows vectors and ids only.

An instance may be searched from several threads at once; adding, removing and searching do not overlap.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from .. import SlotragError
from . import files
from .base import IndexFileError, IndexState, VectorIndex

_TIE_MARGIN = 16
_PIECE = 1 << 20
"""Bytes that are written or read at once."""
_BITMAP_LIMIT = 1 << 28
"""Ids below this are selected by a bitmap (32 MiB at most), others by a hashed set."""


class FaissMissing(SlotragError):
    """FAISS is not installed."""


class FlatIndex(VectorIndex):
    """`IndexFlatIP` under `IndexIDMap2`: every vector is compared, so results are exact.

    Parameters
    ----------
    dimension : int
    state : IndexState
        What the index will have been built from; set the attribute anew after catching up.
    """

    def __init__(self, dimension: int, state: IndexState) -> None:
        if dimension < 1:
            raise ValueError(f"dimension {dimension}")
        faiss = _faiss()
        self.dimension = dimension
        self.state = state
        self._index: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))

    def add(self, ids: np.ndarray, vectors: np.ndarray) -> None:
        ids = np.ascontiguousarray(ids, dtype=np.int64)
        vectors = self._checked(vectors)
        if ids.shape != (len(vectors),):
            raise ValueError(f"{ids.shape} ids for {len(vectors)} vectors")
        if len(ids) and ids.min() < 0:
            raise ValueError("a negative id")
        if len(np.unique(ids)) < len(ids):
            raise ValueError("the same id twice in one call")
        # Ids mostly come in ascending order, and then none can be held already.
        if len(ids) and ids.min() <= self._known_ids().max(initial=-1):
            self.remove(ids)
        if len(ids):
            self._index.add_with_ids(vectors, ids)

    def reserve(self, total: int) -> None:
        flat = _faiss().downcast_index(self._index.index)
        size = flat.codes.size()
        if total * flat.code_size > size:
            flat.codes.resize(total * flat.code_size)
            flat.codes.resize(size)  # the room stays

    def remove(self, ids: Collection[int]) -> int:
        wanted = np.unique(np.array(list(ids), dtype=np.int64))
        known = wanted[np.isin(wanted, self._known_ids())]
        if len(known):
            self._index.remove_ids(_faiss().IDSelectorBatch(known))
        return len(known)

    def search(
        self, vectors: np.ndarray, k: int, allowed: np.ndarray | None = None
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        queries = self._checked(vectors)
        if k < 1:
            raise ValueError(f"k = {k}")
        selector, available = self._selector(allowed)
        k = min(k, available)
        if not len(queries) or not k:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        found = self._nearest(queries, min(k + _TIE_MARGIN, available), selector)
        return [self._ranked(queries[row], k, available, selector, *found[row]) for row in range(len(queries))]

    def _nearest(self, queries: np.ndarray, k: int, selector: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        parameters = None if selector is None else _faiss().SearchParameters(sel=selector)
        scores, ids = self._index.search(queries, k, params=parameters)
        return [(i[i >= 0], s[i >= 0]) for i, s in zip(ids, scores, strict=True)]

    def _ranked(
        self, query: np.ndarray, k: int, available: int, selector: Any, ids: np.ndarray, scores: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The first `k` by score, then id. FAISS cuts a row of equal scores anywhere, so ask on until it has ended."""
        while len(ids) < available and scores[-1] == scores[k - 1]:
            ((ids, scores),) = self._nearest(query[None], min(2 * len(ids), available), selector)
        order = np.lexsort((ids, -scores))[:k]
        return ids[order], scores[order]

    def _selector(self, allowed: np.ndarray | None) -> tuple[Any, int]:
        """What restricts a search, and how many ids it leaves."""
        if allowed is None:
            return None, len(self)
        wanted = np.unique(np.asarray(allowed, dtype=np.int64))
        held = wanted[np.isin(wanted, self.ids(), assume_unique=True)]
        if not len(held):
            return None, 0
        faiss = _faiss()
        if held[-1] >= _BITMAP_LIMIT:
            return faiss.IDSelectorBatch(held), len(held)
        bits = np.zeros(int(held[-1]) // 8 * 8 + 8, dtype=bool)
        bits[held] = True
        return faiss.IDSelectorBitmap(np.packbits(bits, bitorder="little")), len(held)

    def ids(self) -> np.ndarray:
        return np.sort(self._known_ids())

    def _known_ids(self) -> np.ndarray:
        return _faiss().vector_to_array(self._index.id_map)

    def vectors(self, ids: np.ndarray) -> np.ndarray:
        wanted = np.ascontiguousarray(ids, dtype=np.int64)
        if not len(wanted):
            return np.empty((0, self.dimension), np.float32)
        try:
            return self._index.reconstruct_batch(wanted)
        except RuntimeError:
            unknown = np.setdiff1d(wanted, self._known_ids())
            if not len(unknown):
                raise
            raise KeyError(int(unknown[0])) from None

    def __len__(self) -> int:
        return self._index.ntotal

    def save(self, path: Path) -> None:
        header = {
            "state": self.state.state,
            "fingerprint": self.state.fingerprint,
            "postprocessing": self.state.postprocessing,
            "dimension": self.dimension,
            "count": len(self),
        }
        faiss = _faiss()
        # Piece by piece: the bytes of the whole index would be as much memory again.
        files.write(path, header, lambda take: faiss.write_index(self._index, faiss.PyCallbackIOWriter(take, _PIECE)))

    @classmethod
    def open(cls, path: Path) -> FlatIndex:
        faiss = _faiss()
        with files.opened(path) as (header, file):
            try:
                state = IndexState(header["state"], header["fingerprint"], header["postprocessing"])
                index = cls(header["dimension"], state)
                stored: Any = faiss.read_index(faiss.PyCallbackIOReader(file.read, _PIECE))
                count = header["count"]
            except (KeyError, TypeError, ValueError, RuntimeError) as error:
                raise IndexFileError(f"{path.name} cannot be used: {error}") from error
        if not isinstance(stored, faiss.IndexIDMap2) or not isinstance(
            faiss.downcast_index(stored.index), faiss.IndexFlatIP
        ):
            raise IndexFileError(f"{path.name} holds another kind of index")
        index._index = stored
        if stored.d != index.dimension or not stored.ntotal == count == len(np.unique(index.ids())):
            raise IndexFileError(f"{path.name} does not hold what its header says")
        return index

    def _checked(self, vectors: np.ndarray) -> np.ndarray:
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise ValueError(f"vectors of shape {vectors.shape} for dimension {self.dimension}")
        if not np.isfinite(vectors).all():
            raise ValueError("a vector holds a number that is not finite")
        return vectors


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise FaissMissing(
            'FAISS is missing: run `pip install "slotrag[cpu]"`, or `pip install "slotrag[gpu]"` for an NVIDIA GPU'
        ) from error
    return faiss
