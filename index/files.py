"""Index files: a header in JSON, then the payload. It knows no FAISS.

Layout: 8 bytes of magic, 4 bytes of format version, 4 bytes of header length (both little-endian), 32 bytes of sha256
over all that follows, the header, the payload. So a truncated or damaged file is never searched.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from .base import IndexFileError

MAGIC = b"SLOTRAGX"
VERSION = 1
_PREFIX = struct.Struct("<8sII32s")


def write(path: Path, header: dict[str, Any], payload: Callable[[Callable[[bytes], object]], object]) -> None:
    """Replace `path` by a file of `header` and payload: whole or not at all, also when power fails.

    Parameters
    ----------
    payload : callable
        Given a function that takes the next bytes, it hands over the whole payload piece by piece.
    """
    encoded = json.dumps(header, sort_keys=True).encode()
    descriptor, name = tempfile.mkstemp(prefix=path.name + ".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            digest = hashlib.sha256(encoded)
            file.write(bytes(_PREFIX.size) + encoded)

            def take(piece: bytes) -> None:
                digest.update(piece)
                file.write(piece)

            payload(take)
            file.seek(0)
            file.write(_PREFIX.pack(MAGIC, VERSION, len(encoded), digest.digest()))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


@contextmanager
def opened(path: Path) -> Iterator[tuple[dict[str, Any], BufferedReader]]:
    """Header of an index file that was found whole, and the file at the beginning of its payload.

    Raises
    ------
    IndexFileError
        The file is missing, unreadable, truncated, damaged, or of another format or version.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise IndexFileError(f"{path.name} cannot be read: {error.strerror or error}") from error
    with file:
        try:
            header = _checked_header(path, file)
        except OSError as error:
            raise IndexFileError(f"{path.name} cannot be read: {error.strerror or error}") from error
        yield header, file


def _checked_header(path: Path, file: BufferedReader) -> dict[str, Any]:
    """The header; the file then stands where the payload begins."""
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        raise IndexFileError(f"{path.name} is truncated")
    magic, version, length, digest = _PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise IndexFileError(f"{path.name} is not an index file")
    if version != VERSION:
        raise IndexFileError(f"{path.name} has format version {version}, not {VERSION}")
    # The file is read twice rather than held in memory: it may be as large as the index.
    if hashlib.file_digest(file, "sha256").digest() != digest:
        raise IndexFileError(f"{path.name} is truncated or damaged")
    file.seek(_PREFIX.size)
    try:
        return json.loads(file.read(length))
    except ValueError as error:
        raise IndexFileError(f"{path.name} has a header that is not JSON") from error


def _sync_folder(folder: Path) -> None:
    """Make a replaced name survive a power cut; where folders cannot be synced there is nothing to do."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
