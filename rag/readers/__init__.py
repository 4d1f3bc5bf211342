"""Readers: one file a kind, chosen by content, then by suffix; registered under entry points ``slotrag.readers``."""

from __future__ import annotations

from typing import Any

from ..documents import NoText, ReadError, UnsupportedFile
from .base import Reader
from .registry import read, read_parts

READERS_VERSION: str
"""Changes when the documents that readers make change (an update, a plug-in): files are then read anew."""

__all__ = ["READERS_VERSION", "NoText", "ReadError", "Reader", "UnsupportedFile", "read", "read_parts"]


def __getattr__(name: str) -> Any:
    if name == "READERS_VERSION":  # on first use: it asks every installed reader
        from .registry import readers_version

        return readers_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
