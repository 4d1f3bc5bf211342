"""Finds the reader of a file: by its content first, then by its suffix. It knows no format itself."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

from ..documents import Document, NoText, ReadError, UnsupportedFile
from .base import Reader

GROUP = "slotrag.readers"
HEAD_BYTES = 8192
SUFFIX_BONUS = 0.5

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_readers: dict[str, Reader] | None = None


def readers() -> dict[str, Reader]:
    """The readers by entry-point name, plug-ins too. One that fails to load is left out and logged."""
    global _readers
    with _lock:
        if _readers is None:
            _readers = _load()
        return _readers


def _load() -> dict[str, Reader]:
    found: dict[str, Reader] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            found[entry.name] = entry.load()()
        except Exception:  # a plug-in may fail in any way; the other readers still work
            _logger.warning("reader %r could not be loaded", entry.name, exc_info=True)
    return found


def readers_version() -> str:
    """Hash of the names and versions of all readers."""
    parts = [f"{name}:{type(reader).__qualname__}:{reader.version}" for name, reader in readers().items()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def choose(path: Path, head: bytes) -> tuple[str, Reader]:
    """The reader for a file that begins with `head`.

    Raises
    ------
    ReadError
        The suffix names a kind that the content is not.
    UnsupportedFile
        No reader reads it.
    """
    suffix = path.suffix.lower()
    best, best_score = "", 0.0
    named = ""
    for name, reader in readers().items():
        score = reader.sniff(head, path)
        if suffix in reader.suffixes:
            named = named or reader.name
            score += SUFFIX_BONUS if score > 0 else 0.0
        if score > best_score:
            best, best_score = name, score
    if best:
        return best, readers()[best]
    if named:
        raise ReadError(f"named {suffix}, but its content is not {named}{_content(head)}")
    raise UnsupportedFile(f"no text can be read from this kind of file{_content(head)}")


def read_parts(path: Path) -> Iterator[Document]:
    """Read a file into a document, or one that is too large to hold into several, one after the other.

    Raises
    ------
    ReadError
        Broken, protected by a password, undecodable, too large, or it cannot be opened; ``reason`` says which.
    NoText
        Empty, white space only, or a scan.
    UnsupportedFile
        Binary, or of a kind that no reader reads.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except OSError as error:
        raise ReadError(f"cannot be opened: {error.strerror or error}") from error
    if not head:
        raise NoText("empty file")
    name, reader = choose(path, head)
    found = False
    for document in _parts_of(reader, path):
        if document.text.strip():
            found = True
            document.reader = f"{name}/{reader.version}"
            yield document
    if not found:
        raise NoText("no text in it")


def read(path: Path) -> Document:
    """Read a file into one document. Raises as `read_parts`, and `ReadError` for one that comes in parts."""
    parts = read_parts(path)
    document = next(parts)
    if next(parts, None) is not None:
        raise ReadError("too large to be read at once")
    return document


def _parts_of(reader: Reader, path: Path) -> Iterator[Document]:
    try:
        yield from reader.parts(path)
    except (ReadError, NoText, UnsupportedFile, MemoryError):
        raise
    except Exception as error:  # format libraries raise whatever broken input provokes
        _logger.debug("reading %s failed", path, exc_info=True)
        raise ReadError(f"broken {reader.name} file: {_short(error)}") from error


def _short(error: Exception) -> str:
    message = " ".join(str(error).split()) or type(error).__name__
    return message if len(message) <= 200 else message[:200] + "…"


def _content(head: bytes) -> str:
    kinds = ((b"PK", "a zip archive"), (b"%PDF-", "a PDF"), (b"\xd0\xcf\x11\xe0", "an old Office file"))
    return next((f" (it is {kind})" for magic, kind in kinds if head.startswith(magic)), "")
