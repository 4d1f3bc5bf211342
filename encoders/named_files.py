"""JSON files that are named by the hash of their content, so that a spec that names one always means the same.

Calibrations, heads and compressors are kept so; where there are weights, they lie beside the JSON, which holds their
hash. It knows the content of none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import SlotragError
from .canonical_json import canonical_json
from .whole_files import write_whole

if TYPE_CHECKING:
    import numpy as np

DIGITS = 16
_NAME = re.compile(f"[0-9a-f]{{{DIGITS}}}")


def sha256_of(content: bytes) -> str:
    """sha256 of `content`, 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def name_of(content: bytes) -> str:
    """First 16 hex digits of the sha256 of `content`."""
    return sha256_of(content)[:DIGITS]


def is_name(text: str) -> bool:
    """Whether `text` has the form of such a name."""
    return _NAME.fullmatch(text) is not None


def canonical(value: Mapping[str, Any]) -> bytes:
    """`value` as JSON on one line, the same bytes for equal values.

    Raises
    ------
    TypeError, ValueError
        It holds what JSON cannot: an object, not a number, a key that is no text.
    """
    return canonical_json(value) + b"\n"


@dataclass(frozen=True)
class NamedFiles:
    """The files of one kind.

    Attributes
    ----------
    kind : str
        What one is called in messages.
    schema : int
        The form of the content that is read.
    fields : mapping of str to type
        What the content must have.
    damaged : type of SlotragError
        Raised for a file that cannot be read or is not what its name says.
    again : str
        What a user does about that.
    instead : str
        What a user can write in a spec to do without one; empty where it is named in no spec.
    """

    kind: str
    schema: int
    fields: Mapping[str, type]
    damaged: type[SlotragError]
    again: str
    instead: str = ""

    def write(self, folder: Path, content: bytes, weights: bytes | None = None) -> Path:
        """Put a file into `folder`, whole or not at all, its weights before it; the file's path.

        Raises
        ------
        slotrag.SlotragError
            The folder cannot be written.
        """
        path = folder / f"{name_of(content)}.json"
        try:
            if weights is not None:
                write_whole(_beside(path), weights)
            write_whole(path, content)
        except OSError as error:
            raise SlotragError(
                f"The {self.kind} cannot be written to {folder} ({error.strerror}); make room there, or set "
                "SLOTRAG_MODELS to another folder."
            ) from error
        return path

    def weights(self, path: Path, sha256: str) -> dict[str, np.ndarray]:
        """The weights beside the file at `path`, as they are stored. Raises `damaged`."""
        place = _beside(path)
        content = self.read(place)
        if content is None:
            raise self.damaged(
                f"The {self.kind} {path} lacks its weights; copy {place.name} beside it, or {self.again}."
            )
        if sha256_of(content) != sha256:
            raise self.changed(place)
        from safetensors.numpy import load

        return load(content)

    def find(self, name: str, folders: Iterable[Path]) -> tuple[Path, dict[str, Any]] | None:
        """Path and content of the file of that name in the first folder that has it. Raises `damaged`."""
        for folder in folders:
            path = folder / f"{name}.json"
            content = self.read(path)
            if content is not None:
                if name_of(content) != name:
                    raise self.changed(path)
                return path, self.parsed(content, str(path))
        return None

    def all(self, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
        """Name and content of every file in `folder`. Raises `damaged`."""
        for path in sorted(folder.glob("*.json")):
            yield path.stem, self.parsed(path.read_bytes(), str(path))

    def read(self, path: Path) -> bytes | None:
        """A file's bytes, None where there is none. Raises `damaged`."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.damaged(f"The {self.kind} {path} cannot be read ({error.strerror}).") from error

    def parsed(self, content: bytes, source: str = "") -> dict[str, Any]:
        """What the bytes of a file hold, `source` saying where they come from. Raises `damaged`."""
        what = f"The {self.kind} {source}".rstrip()
        try:
            value = json.loads(content)
        except ValueError as error:
            raise self.damaged(f"{what} is not JSON ({error}); {self.again}.") from error
        version = value.get("schema") if isinstance(value, dict) else None
        if version != self.schema:
            raise self.damaged(f"{what} is of form {version}, not {self.schema}; update slotrag or {self.again}.")
        for name, form in self.fields.items():
            if not isinstance(value.get(name), form):
                raise self.damaged(f"{what} has no proper {name!r}; {self.again}.")
        return value

    def changed(self, path: Path) -> SlotragError:
        """The error for a file that is not what its name says."""
        return self.damaged(
            f"The {self.kind} {path} was changed: its content is not what its name says; delete it and {self.again}"
            + (f", or write {self.instead}." if self.instead else ".")
        )


def _beside(path: Path) -> Path:
    """Where the weights of the file at `path` lie."""
    return path.with_suffix(".safetensors")
