"""What can go wrong with the data of a measurement and that the user can act on. It knows no format."""

from __future__ import annotations

from pathlib import Path

from ... import SlotragError


class DatasetError(SlotragError):
    """A data set cannot be read; the message names the file, the line where there is one, and what is wrong."""

    def __init__(self, path: Path, problem: str, line: int | None = None) -> None:
        self.path, self.line = path, line
        place = f"{path}, line {line}" if line is not None else str(path)
        super().__init__(f"{place}: {problem}.")
