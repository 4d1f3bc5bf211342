"""The folder of one training run: its configuration, its curve, where it is, and what came out. It trains nothing.

``config.json`` says what is trained on what, ``metrics.jsonl`` has a line for each check, ``state.safetensors`` holds
all that a killed run goes on from (its numbers in the header, so that one file is replaced at once), ``state.json`` is
a copy of those numbers for people with the seconds spent, ``result.json`` is there once the run has come to an end.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import SlotragError, UsageError
from ..whole_files import write_whole

if TYPE_CHECKING:
    import numpy as np

_LOCK = ".lock"
_CONFIG, _METRICS, _RESULT = "config.json", "metrics.jsonl", "result.json"
_TENSORS, _STATE = "state.safetensors", "state.json"
_KEY = "slotrag"


class RunMismatch(UsageError):
    """The folder holds a run of other settings or other data."""


class RunBusy(SlotragError):
    """Another process trains in this folder."""


class RunDamaged(SlotragError):
    """A file of the folder cannot be read or written."""


class RunFolder:
    """A training run on the disk.

    Parameters
    ----------
    path : Path
        Made when it is first written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._is_held = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it no other process trains in the folder; the object that holds it may take it again.

        Raises
        ------
        RunBusy
            One does.
        """
        from filelock import FileLock, Timeout

        if self._is_held:
            yield
            return
        with self._writing():
            self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / _LOCK, thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise RunBusy(f"Another process trains in {self.path}; wait for it, or give another folder.") from None
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            lock.release()

    def clear(self) -> None:
        """Delete all that is in the folder. The caller holds it, and goes on doing so.

        Raises
        ------
        RunDamaged
            Something cannot be deleted.
        """
        try:
            for path in self.path.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name != _LOCK:
                    path.unlink()
        except OSError as error:
            raise RunDamaged(
                f"{error.filename or self.path} cannot be deleted ({error.strerror}); delete the folder {self.path}."
            ) from error

    def begin(self, configuration: Mapping[str, Any]) -> None:
        """Write down what is trained, or see that the run that is there is the same.

        Raises
        ------
        RunMismatch
            It is another; the message names the first difference.
        """
        wanted = json.loads(json.dumps(configuration))
        there = self._json(_CONFIG)
        if there is None:
            self._replace(_CONFIG, _readable(wanted))
        elif there != wanted:
            raise RunMismatch(
                f"the run in {self.path} is of another kind ({_difference(there, wanted)}): give another folder, or "
                "delete it to start anew"
            )

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, Any]] | None:
        """Tensors, numbers and clock that `save_state` was last given; None before the first time."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        path = self.path / _TENSORS
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RunDamaged(f"The run's state {path} cannot be read ({error.strerror}).") from error
        try:
            numbers = json.loads(_metadata(content)[_KEY])
            tensors = load(content)
        except (SafetensorError, ValueError, KeyError, TypeError, struct.error) as error:
            raise RunDamaged(
                f"The run's state {path} is damaged ({error}); delete {self.path} to start anew."
            ) from error
        copy = self._json(_STATE) or {}
        # The copy is of an earlier state where the process ended between the two files.
        return tensors, numbers, copy.get("clock", {})

    def save_state(
        self, tensors: Mapping[str, np.ndarray], numbers: Mapping[str, Any], clock: Mapping[str, Any]
    ) -> None:
        """Replace the state, whole or not at all.

        Parameters
        ----------
        tensors : mapping of str to arrays
        numbers : mapping
            JSON values that what comes next depends on.
        clock : mapping
            JSON values that it does not depend on: seconds.
        """
        from safetensors.numpy import save

        text = json.dumps(numbers, sort_keys=True)
        content = save(dict(tensors), metadata={_KEY: text})
        self._replace(_TENSORS, content)
        digest = hashlib.sha256(content).hexdigest()
        self._replace(_STATE, _readable({**numbers, "clock": clock, "sha256": digest}))

    def save_metrics(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Make ``metrics.jsonl`` hold `lines`: by adding to it what is new, or where it differs, anew."""
        path = self.path / _METRICS
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        there = path.read_bytes() if path.exists() else b""
        if content.startswith(there):
            with self._writing(), path.open("ab") as file:
                file.write(content[len(there) :])
        else:
            self._replace(_METRICS, content)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write what came out."""
        self._replace(_RESULT, _readable(result))

    @property
    def result(self) -> dict[str, Any] | None:
        """What `finish` wrote; None while the run is not at its end."""
        return self._json(_RESULT)

    def _json(self, name: str) -> dict[str, Any] | None:
        path = self.path / name
        try:
            return json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunDamaged(f"{path} cannot be read ({error}); delete {self.path} to start anew.") from error

    def _replace(self, name: str, content: bytes) -> None:
        with self._writing():
            write_whole(self.path / name, content)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunDamaged(
                f"The run's folder {self.path} cannot be written ({error.strerror}); make room there, or give another."
            ) from error


def _readable(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _metadata(content: bytes) -> dict[str, str]:
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length])["__metadata__"]


def _difference(there: Any, wanted: Any, name: str = "") -> str:
    """The first value that differs, by its name."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        for key in sorted({*there, *wanted}):
            if there.get(key) != wanted.get(key):
                return _difference(there.get(key), wanted.get(key), f"{name}.{key}" if name else str(key))
    if isinstance(there, list) and isinstance(wanted, list) and len(there) == len(wanted):
        for place, (one, other) in enumerate(zip(there, wanted, strict=True), start=1):
            if one != other:
                return _difference(one, other, f"{name} {place}")
    return f"{name} is {_short(there)} there and {_short(wanted)} now"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
