"""Ctrl-C: the first asks the work to stop where nothing is lost, the second ends the program. It knows no work."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ..rag.events import Cancelled, CancelToken
from .failures import INTERRUPTED
from .output import tell

_SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def cancellable() -> Iterator[CancelToken]:
    """A token that Ctrl-C cancels while the block runs.

    What the block raises after a cancellation is its way of stopping, so that `Cancelled` takes its place.
    """
    token = CancelToken()
    if threading.current_thread() is not threading.main_thread():
        yield token
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        if token.cancelled:
            if sys.stderr.isatty():
                os.write(2, _SHOW_CURSOR.encode())
            os._exit(INTERRUPTED)  # the library is safe at any moment, and a model's step cannot be broken off
        token.cancel()
        tell("\nstopping; what is done stays (Ctrl-C again to stop at once)")

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield token
    except Exception as error:
        if token.cancelled:
            raise Cancelled from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
