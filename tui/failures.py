"""From what went wrong to one sentence and an exit code. It prints; it decides nothing else."""

from __future__ import annotations

import os
import sys
import traceback

from .. import SlotragError
from .output import tell

OK, ERROR, USAGE, NOT_FOUND, PARTIAL, LOCKED, MISMATCH, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130


_MOST_CHARACTERS = 200  # an error of a library may carry a whole document

_CODES = {
    "LibraryLocked": LOCKED,
    "FingerprintMismatch": MISMATCH,
    "UnknownSession": NOT_FOUND,
    "PassageMissing": NOT_FOUND,
    "UsageError": USAGE,
    "Cancelled": INTERRUPTED,
    "KeyboardInterrupt": INTERRUPTED,
}
"""Exit codes by class name: telling them apart must import neither the storage nor a model."""


def exit_code(error: BaseException) -> int:
    """The exit code that stands for `error`: that of the nearest class with one.

    Examples
    --------
    >>> import slotrag
    >>> exit_code(slotrag.UsageError("k must be at least 1.")), exit_code(KeyboardInterrupt()), exit_code(OSError())
    (2, 130, 1)
    """
    return next((_CODES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _CODES), ERROR)


def report(error: BaseException, *, debug: bool) -> int:
    """Say on stderr what went wrong and return the exit code; a traceback only with `debug`."""
    if isinstance(error, BrokenPipeError):
        close_stdout()
        return OK
    if debug:
        traceback.print_exception(error)
    code = exit_code(error)
    if code == INTERRUPTED:
        tell("slotrag: interrupted")
    elif isinstance(error, SlotragError):
        tell(f"slotrag: {str(error).strip() or type(error).__name__}")
    elif isinstance(error, OSError) and error.strerror:
        place = f" ({os.fsdecode(error.filename)})" if error.filename else ""
        tell(f"slotrag: {error.strerror}{place}; use --debug for the whole error")
    else:
        kind, text = type(error).__name__, " ".join(str(error).split())
        text = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} ..."
        tell(f"slotrag: unexpected {kind}: {text or 'no message'}; use --debug for the whole error")
    return code


def close_stdout() -> None:
    """Send what is still to be written nowhere: the reader of the pipe has gone."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):  # a stdout without a file behind it
        sys.stdout = open(os.devnull, "w", encoding="utf-8", errors="replace")  # noqa: PTH123, SIM115
