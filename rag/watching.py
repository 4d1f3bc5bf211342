"""Follows folders: tells when something changed in them and runs again. It reads no file and knows no library.

What changed is for the run to find out: an event only says that it is time to look. So a lost or doubled event, an
editor that saves by renaming, or a folder moved as a whole costs a look at most, and never a wrong index.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from .. import SlotragError
from .events import CancelToken
from .ignoring import REPOSITORY_FOLDERS
from .sources import inside

if TYPE_CHECKING:
    from collections.abc import Generator

QUIET_MILLISECONDS = 200
"""Changes this close to each other are one."""

LONGEST_MILLISECONDS = 1000
"""Changes that never pause are passed on after this time."""

RESCAN_SECONDS = 600.0
"""After this time without an event the run looks by itself: a network disk tells of nothing."""

REST_SHARE = 2.0
"""After a run at least this many times its length passes before the next one, so that a folder that is written without
a pause does not keep a core busy."""

LONGEST_REST_SECONDS = 30.0

Result = TypeVar("Result")


class WatchFailed(SlotragError):
    """The system cannot tell about changes in a folder."""


class Changes:
    """Waits for changes below `roots`; a context manager.

    A root may be a file, or be missing for a while: an unplugged disk that comes back is a change.

    Parameters
    ----------
    roots : sequence of str
        Absolute paths of folders and files.
    without : sequence of str
        Folders whose changes do not count (the library's own).
    """

    def __init__(self, roots: Sequence[str], without: Sequence[str] = ()) -> None:
        self._roots, self._without = list(roots), list(without)
        self._identities: dict[str, tuple[int, int] | None] = {}
        self._streams: list[Generator[set, None, None]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Changes:
        self._start()
        return self

    def __exit__(self, *details: object) -> None:
        self._stack.close()

    def wait(self, cancel: CancelToken, seconds: float) -> bool:
        """Whether something changed, at the latest after `seconds`; also ends when `cancel` is set."""
        until = time.monotonic() + seconds
        while not cancel.cancelled and time.monotonic() < until:
            if self._replaced():
                self._start()
                return True
            if self._changed():
                return True
        return False

    def _changed(self) -> bool:
        """Look at each stream once, which takes a moment."""
        if not self._streams:
            time.sleep(QUIET_MILLISECONDS / 1000)
            return False
        # All streams are drained, or what is left of one change would be taken for the next.
        seen = [path for stream in self._streams for _, path in self._next(stream)]
        return any(self._counts(path) for path in seen)

    @staticmethod
    def _next(stream: Generator[set, None, None]) -> set:
        try:
            return next(stream)
        except OSError as error:
            raise _failed(error) from error

    def _start(self) -> None:
        """Begin to watch what is there now."""
        from watchfiles import watch

        self._stack.close()
        self._streams = []
        self._identities = {root: _identity(root) for root in self._roots}
        folders = [root for root in self._roots if os.path.isdir(root)]  # noqa: PTH112 - paths keep their own bytes
        files = [os.path.dirname(root) for root in self._roots if os.path.isfile(root)]  # noqa: PTH113,PTH120
        for paths, recursive in ((folders, True), (files, False)):
            if paths:
                stream = watch(
                    *dict.fromkeys(paths),
                    watch_filter=None,
                    debounce=LONGEST_MILLISECONDS,
                    step=QUIET_MILLISECONDS,
                    rust_timeout=QUIET_MILLISECONDS,
                    yield_on_timeout=True,
                    raise_interrupt=False,
                    recursive=recursive,
                    ignore_permission_denied=True,
                )
                self._streams.append(self._stack.enter_context(closing(stream)))
                self._next(stream)  # the first look sets the watch up

    def _replaced(self) -> bool:
        """Whether a folder went, came, or is another one than when the watch was set up."""
        return any(_identity(root) != known for root, known in self._identities.items())

    def _counts(self, path: str) -> bool:
        """Whether a change at `path` can change what is indexed; rules that need a file are for the run."""
        if any(path == folder or inside(path, folder) for folder in self._without):
            return False
        for root in self._roots:
            if path == root:
                return True
            if inside(path, root) and not REPOSITORY_FOLDERS.intersection(Path(path).relative_to(root).parts):
                return True
        return False


def follow(
    run: Callable[[], Result],
    roots: Sequence[str],
    *,
    without: Sequence[str] = (),
    cancel: CancelToken,
    rescan_seconds: float = RESCAN_SECONDS,
) -> Iterator[Result]:
    """Yield the result of `run`, now and after every change below `roots`, until `cancel` is set.

    The watch begins before the first run, so that nothing falls between them.

    Raises
    ------
    WatchFailed
        The system's limit of watched folders is reached, or it cannot watch at all.
    """
    with Changes(roots, without) as changes:
        while not cancel.cancelled:
            started = time.monotonic()
            yield run()
            took = time.monotonic() - started
            changed = changes.wait(cancel, rescan_seconds)
            rest = min(REST_SHARE * took, LONGEST_REST_SECONDS) - (time.monotonic() - started - took)
            if changed and rest > 0:
                wait_for(cancel, rest)


def wait_for(cancel: CancelToken, seconds: float) -> None:
    """Wait for `seconds`, or until `cancel` is set."""
    until = time.monotonic() + seconds
    while not cancel.cancelled and time.monotonic() < until:
        time.sleep(0.05)


def _identity(path: str) -> tuple[int, int] | None:
    """What the watch of `path` hangs on: the folder itself; of a file, which editors replace, only that it is there."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return (0, 0) if stat.S_ISREG(status.st_mode) else (status.st_dev, status.st_ino)


def _failed(error: OSError) -> WatchFailed:
    return WatchFailed(
        f"Changes cannot be watched ({error}). On Linux raise the limit with `sysctl fs.inotify.max_user_watches`, or "
        "set WATCHFILES_FORCE_POLLING=1 to look at the files regularly instead."
    )
