"""Vectors to nearest ids: the index interface and its FAISS form."""

from __future__ import annotations

from pathlib import Path

from .base import IndexFileError, IndexState, VectorIndex

__all__ = ["IndexFileError", "IndexState", "VectorIndex", "new_index", "open_index"]


def new_index(dimension: int, state: IndexState) -> VectorIndex:
    """An empty index of the default form."""
    from .flat import FlatIndex

    return FlatIndex(dimension, state)


def open_index(path: Path) -> VectorIndex:
    """Read an index file. Raises `IndexFileError` where the index must be built anew."""
    from .flat import FlatIndex

    return FlatIndex.open(path)
