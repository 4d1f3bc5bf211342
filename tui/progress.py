"""Progress on stderr: bars on a terminal, a line for each step elsewhere. It knows no work, only its reports."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .output import clean, columns, on_terminal, tell

if TYPE_CHECKING:
    from ..rag.events import Progress

_NAMES = {
    "scan": "looking for files",
    "read": "reading",
    "encode": "encoding",
    "index": "writing the index",
    "fetch": "fetching",
    "convert": "converting",
    "load": "loading",
    "wait": "waiting",
    "evaluate": "evaluating",
    "calibrate": "calibrating",
    "estimate": "estimating",
    "questions": "writing questions",
    "negatives": "looking for wrong passages",
    "states": "running the backbone",
    "baseline": "measuring mean pooling",
    "train": "training",
    "prepare": "preparing texts",
    "replies": "writing replies",
}
_LASTING = frozenset({"fetch", "convert", "wait", "estimate", "train"})
_LINE_SECONDS = 20.0


class ProgressView:
    """Shows `Progress` reports until it is closed; safe to call from any thread.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._said: dict[str, tuple[str, float]] = {}

    def __enter__(self) -> ProgressView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, progress: Progress) -> None:
        """Show one report."""
        if self._quiet:
            return
        with self._lock:
            self._announce(progress)
            if on_terminal(sys.stderr):
                self._draw(progress)

    def from_models(self, stage: str, done: int, total: int | None, unit: str, message: str) -> None:
        """Show a report of a model store."""
        from ..rag.events import Progress

        self(Progress(stage, done, total, unit, message))

    def close(self) -> None:
        """Take the bars away; a later report brings new ones."""
        with self._lock:
            if self._bars is not None:
                self._bars.stop()
            self._bars = None
            self._tasks.clear()

    def _announce(self, progress: Progress) -> None:
        """Say what lasts (licences, sizes, waiting) once; off the terminal also how far long work is, now and then."""
        said, when = self._said.get(progress.stage, ("", 0.0))
        now = time.monotonic()
        if progress.stage in _LASTING and progress.message and progress.message != said:
            self._line(progress.message)
            self._said[progress.stage] = (progress.message, now)
        elif not when:
            self._said[progress.stage] = (said, now)
        elif not on_terminal(sys.stderr) and now - when > _LINE_SECONDS:
            total = f" of {progress.total:,}" if progress.total else ""
            unit = f" {progress.unit}" if progress.unit else ""
            self._line(f"{_NAMES.get(progress.stage, progress.stage)}: {progress.done:,}{total}{unit}")
            self._said[progress.stage] = (said, now)

    def _line(self, text: str) -> None:
        if self._bars is not None:
            self._bars.console.print(clean(text), markup=False, highlight=False)
        else:
            tell(text)

    def _draw(self, progress: Progress) -> None:
        if self._bars is None:
            self._bars = _bars()
            self._bars.start()
        name = _NAMES.get(progress.stage, progress.stage)
        task = self._tasks.get(progress.stage)
        if task is None:
            for old in self._tasks.values():  # one step at a time is enough to look at
                self._bars.remove_task(old)
            self._tasks = {progress.stage: self._bars.add_task(name, total=progress.total, amount="")}
            task = self._tasks[progress.stage]
        self._bars.update(task, completed=progress.done, total=progress.total, amount=_amount(progress))


def _amount(progress: Progress) -> str:
    from .output import size

    if progress.unit == "bytes":
        return f"{size(progress.done)} of {size(progress.total)}" if progress.total else size(progress.done)
    total = f"/{progress.total:,}" if progress.total else ""
    return f"{progress.done:,}{total} {progress.unit}".strip() if progress.done or progress.total else ""


def _bars() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    parts = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
    if columns() >= 60:
        parts.append(BarColumn(bar_width=None))
    parts.append(TextColumn("{task.fields[amount]}", markup=False))
    if columns() >= 60:
        parts.append(TimeRemainingColumn())
    return Progress(*parts, console=Console(file=sys.stderr), transient=True, refresh_per_second=8)
