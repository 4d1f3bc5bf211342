"""The writer's lock of a library: one process changes documents and index at a time. It knows no storage.

The lock belongs to the operating system, so that of a killed process is free at once. Only writers take it: searching,
asking and sessions never wait for it.
"""

from __future__ import annotations

import errno
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from .. import SlotragError
from .events import CancelToken, Progress, ProgressListener

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK_FILE = "writer.lock"
_POLL_SECONDS = 0.1
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


class LibraryLocked(SlotragError):
    """Another process is changing the library and waiting for it was declined."""


class LibraryNotWritable(SlotragError):
    """The library lies on a read-only disk or belongs to somebody else."""


class WriterLock:
    """The right to change the library in `folder`, as a context manager.

    Parameters
    ----------
    folder : Path
        The library's folder, which exists.
    wait : bool
        Whether to wait for another writer (reported as ``wait`` progress) or to decline.
    listener, cancel
        Told once that we wait; ends the waiting.

    Raises
    ------
    LibraryLocked
        On entering, when `wait` is false and another process (or thread) holds the lock.
    LibraryNotWritable
        On entering, when the lock file cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        *,
        wait: bool = True,
        listener: ProgressListener | None = None,
        cancel: CancelToken | None = None,
    ) -> None:
        self._path = folder / LOCK_FILE
        self._wait = wait
        self._listener = listener
        self._cancel = cancel
        self._lock: BaseFileLock | None = None

    def __enter__(self) -> WriterLock:
        from filelock import FileLock

        lock = FileLock(self._path, thread_local=False)
        waited = 0.0
        while not self._try(lock):
            if not self._wait:
                raise LibraryLocked(
                    f"Another slotrag process is changing the library in {self._path.parent}; "
                    "wait until it has ended, or leave out --no-wait."
                )
            if self._cancel is not None:
                self._cancel.raise_if_cancelled()
            if self._listener is not None and (waited == 0.0 or int(waited) != int(waited - _POLL_SECONDS)):
                message = "Waiting for another slotrag process that is changing this library."
                self._listener(Progress("wait", int(waited), None, "seconds", message))
            time.sleep(_POLL_SECONDS)
            waited += _POLL_SECONDS
        self._lock = lock
        return self

    def _try(self, lock: BaseFileLock) -> bool:
        from filelock import Timeout

        try:
            lock.acquire(timeout=0)
        except Timeout:
            return False
        except OSError as error:
            if error.errno in _READ_ONLY:
                raise LibraryNotWritable(
                    f"The library in {self._path.parent} cannot be written; "
                    "searching works, to change it give yourself write access or choose another --library."
                ) from error
            raise
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
