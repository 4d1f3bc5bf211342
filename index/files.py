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
from pathlib import Path
from typing import Any

import numpy as np

from .base import IndexFileError

MAGIC = b"SLOTRAGX"
VERSION = 1
_PREFIX = struct.Struct("<8sII32s")


def write(path: Path, header: dict[str, Any], payload: np.ndarray) -> None:
    """Replace `path` by a file of `header` and `payload` (uint8): whole or not at all, also when power fails."""
    encoded = json.dumps(header, sort_keys=True).encode()
    descriptor, name = tempfile.mkstemp(prefix=path.name + ".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_PREFIX.pack(MAGIC, VERSION, len(encoded), _digest(encoded, payload)))
            file.write(encoded)
            file.write(payload.data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def read(path: Path) -> tuple[dict[str, Any], np.ndarray]:
    """Header and payload (uint8) of an index file.

    Raises
    ------
    IndexFileError
        The file is missing, unreadable, truncated, damaged, or of another format or version.
    """
    try:
        data = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise IndexFileError(f"{path.name} cannot be read: {error.strerror or error}") from error
    if len(data) < _PREFIX.size:
        raise IndexFileError(f"{path.name} is truncated")
    magic, version, length, digest = _PREFIX.unpack(data[: _PREFIX.size].tobytes())
    if magic != MAGIC:
        raise IndexFileError(f"{path.name} is not an index file")
    if version != VERSION:
        raise IndexFileError(f"{path.name} has format version {version}, not {VERSION}")
    encoded = data[_PREFIX.size : _PREFIX.size + length].tobytes()
    payload = data[_PREFIX.size + length :]
    if _digest(encoded, payload) != digest:
        raise IndexFileError(f"{path.name} is truncated or damaged")
    try:
        return json.loads(encoded), payload
    except ValueError as error:
        raise IndexFileError(f"{path.name} has a header that is not JSON") from error


def _digest(encoded: bytes, payload: np.ndarray) -> bytes:
    whole = hashlib.sha256(encoded)
    whole.update(payload.data)
    return whole.digest()


def _sync_folder(folder: Path) -> None:
    """Make a replaced name survive a power cut; where folders cannot be synced there is nothing to do."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
