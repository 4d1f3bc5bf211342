"""Runs a Python program that writes files and reports how far it is, by the size of what it has written.

It knows neither pip nor the hub. The program never outlives the wait: whatever ends the wait (an interrupt, a listener
that raises because its user cancelled) ends the program first, and it ends itself when this process is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .locations import bytes_below

Report = Callable[[str, int, "int | None", str, str], None]
"""Called with stage (``fetch``, ``convert``, ``load``), done, total, unit and a line for the user."""

_INTERVAL_SECONDS = 0.1

# Standard input is a pipe whose other end this process holds: it reads as ended once this process is gone.
_GUARD = """
import os, runpy, sys, threading

def end_with_parent():
    os.read(0, 1)
    os._exit(1)

threading.Thread(target=end_with_parent, daemon=True).start()
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def silent(stage: str, done: int, total: int | None, unit: str, message: str) -> None:
    """The report that tells nobody."""


def run_watched(
    module: str,
    arguments: Sequence[str],
    *,
    watched: Path,
    total: int,
    message: str,
    report: Report,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run ``python -m module arguments``, reporting the growth of the folder `watched` as stage ``fetch``.

    ``-P`` keeps Python from importing what happens to lie in the current folder.

    Parameters
    ----------
    total : int
        Bytes that are expected in `watched`; reports never exceed it.
    environment : mapping, optional
        Variables set for the program beside those of this process.

    Returns
    -------
    (int, str)
        Exit status, and what the program wrote on both its streams.
    """
    before = bytes_below(watched)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _GUARD, module, *arguments],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        try:
            while process.poll() is None:
                done = min(max(bytes_below(watched) - before, 0), total)
                report("fetch", done, total, "bytes", message)
                time.sleep(_INTERVAL_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        output.seek(0)
        return process.returncode, output.read().decode(errors="replace")
