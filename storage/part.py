"""What the parts of the catalog share: the databases they work on. It knows no table."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from .database import Database
from .selection import Selections


class Part(Protocol):
    """The side of the catalog that its parts see."""

    folder: Path
    _selections: Selections

    @property
    def read_only(self) -> bool: ...

    @property
    def _library(self) -> Database: ...

    @property
    def _sessions(self) -> Database: ...

    @property
    def _slots(self) -> Database: ...

    def _prune_slots(self) -> int: ...
