"""sha256 of model files, remembered by size and modification time. It knows no model by name.

The memory lies in the model cache, not beside the files: a user's own folder and the hub's cache are left as they are.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from .errors import ModelDamaged
from .locations import tokenizer_files

_CHUNK = 1 << 22


def sha256_of(path: Path, progress: Callable[[int], None] | None = None) -> str:
    """sha256 of a file's bytes, 64 hex digits; `progress` gets the bytes read so far."""
    digest = hashlib.sha256()
    done = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done)
    return digest.hexdigest()


class DigestMemory:
    """Remembers files' digests in a folder; where that cannot be written, they are computed each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def sha256(self, path: Path, progress: Callable[[int], None] | None = None) -> str:
        """sha256 of `path`, computed when its size or modification time changed since the last time."""
        path = path.resolve()
        state = path.stat()
        stamp = {"path": str(path), "size": state.st_size, "mtime_ns": state.st_mtime_ns}
        record = self._record_of(path)
        known = _read(record)
        if known is not None and {key: known.get(key) for key in stamp} == stamp and "sha256" in known:
            return str(known["sha256"])
        digest = sha256_of(path, progress)
        self._forget_vanished()
        _write(record, {**stamp, "sha256": digest})
        return digest

    def remember(self, path: Path, digest: str) -> None:
        """Note a digest that was computed while the file was written."""
        path = path.resolve()
        state = path.stat()
        stamp = {"path": str(path), "size": state.st_size, "mtime_ns": state.st_mtime_ns}
        _write(self._record_of(path), {**stamp, "sha256": digest})

    def _record_of(self, path: Path) -> Path:
        return self._folder / (hashlib.sha256(os.fsencode(path)).hexdigest()[:32] + ".json")

    def _forget_vanished(self) -> None:
        """Drop the records of files that are gone, so that the memory does not grow for ever."""
        for record in self._folder.glob("*.json"):
            known = _read(record)
            if known is None or not Path(str(known.get("path"))).exists():
                with contextlib.suppress(OSError):
                    record.unlink()


def combined(parts: Iterable[tuple[str, str]]) -> str:
    """One sha256 for several named digests."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(parts))
    return hashlib.sha256(lines.encode()).hexdigest()


def tokenizer_sha256(folder: Path, digest_of: Callable[[Path], str] = sha256_of) -> str:
    """One sha256 over the files that decide how the model in `folder` cuts text.

    The chat template inside the settings, and how their JSON is laid out, change no token and are left out.
    """
    parts = []
    for file in tokenizer_files(folder):
        settings = file.name == "tokenizer_config.json"
        parts.append((file.name, _settings_digest(file) if settings else digest_of(file)))
    return combined(parts)


def _settings_digest(file: Path) -> str:
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelDamaged(f"{file} is not JSON ({error}); fetch the model again.") from error
    if isinstance(settings, dict):
        settings.pop("chat_template", None)
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _read(record: Path) -> dict[str, object] | None:
    try:
        value = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _write(record: Path, value: dict[str, object]) -> None:
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=record.parent, prefix=".new-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(value, file)
        Path(name).replace(record)
    except OSError:  # a read-only model cache: the digest is computed again next time
        return
