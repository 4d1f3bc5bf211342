"""The vector index interface: ids and unit vectors in, nearest ids out. It knows no text, no SQL and no encoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class IndexState:
    """What an index file was built from; compared with the catalog on open.

    Attributes
    ----------
    state : int
        The collection's state number whose passages the index holds.
    fingerprint : str
        Fingerprint of the encoder whose vectors it holds.
    postprocessing : int
        Number of the post-processing setting that was applied (0 = none).
    """

    state: int
    fingerprint: str
    postprocessing: int = 0


class VectorIndex(ABC):
    """Inner-product search over unit vectors by int64 id (slotrag's ids are passage ids)."""

    dimension: int
    state: IndexState

    @abstractmethod
    def add(self, ids: np.ndarray, vectors: np.ndarray) -> None:
        """Add float32 `vectors` of shape (n, dimension) under `ids`, int64 of shape (n,); an id present is replaced."""

    def reserve(self, total: int) -> None:  # noqa: B027
        """Told that `total` vectors will be held, so that growing step by step need not cost memory for a while."""

    @abstractmethod
    def remove(self, ids: Collection[int]) -> int:
        """Remove `ids` (unknown ones are ignored); the number removed."""

    @abstractmethod
    def search(
        self, vectors: np.ndarray, k: int, allowed: np.ndarray | None = None
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """The nearest ids of each query.

        Parameters
        ----------
        vectors : float32, shape (n, dimension)
        k : int
            Most results a query; there are fewer where the index (or `allowed`) holds fewer. No padding entries.
        allowed : int64 array, optional
            Only these ids count.

        Returns
        -------
        list of (ids int64 (m,), scores float32 (m,)), best first; equal scores in ascending id order.
        """

    @abstractmethod
    def ids(self) -> np.ndarray:
        """All ids held, int64, ascending."""

    @abstractmethod
    def vectors(self, ids: np.ndarray) -> np.ndarray:
        """The vectors held under `ids`, float32 of shape (n, dimension). Raises KeyError for an id that is not held."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write the index and its `state` to `path`: temporary file beside it, fsync, ``os.replace``."""

    @classmethod
    @abstractmethod
    def open(cls, path: Path) -> VectorIndex:
        """Read an index file. Raises `IndexFileError` when it is missing, truncated or not one of ours."""


class IndexFileError(Exception):
    """An index file cannot be used; the caller rebuilds it from the stored vectors."""
