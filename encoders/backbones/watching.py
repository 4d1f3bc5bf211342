"""Runs a program that writes files and reports how far it is, by the size of what it has written.

It knows neither pip nor the hub. The program dies with the wait: whatever ends the wait (an interrupt, a listener
that raises because its user cancelled) ends the program first.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .locations import bytes_below

Report = Callable[[str, int, "int | None", str, str], None]
"""Called with stage (``fetch``, ``convert``, ``load``), done, total, unit and a line for the user."""

_INTERVAL_SECONDS = 0.1


def silent(stage: str, done: int, total: int | None, unit: str, message: str) -> None:
    """The report that tells nobody."""


def run_watched(
    command: Sequence[str],
    *,
    watched: Path,
    total: int,
    message: str,
    report: Report,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run `command` until it ends, reporting the growth of the folder `watched` as stage ``fetch``.

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
            list(command),
            stdin=subprocess.DEVNULL,
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
        output.seek(0)
        return process.returncode, output.read().decode(errors="replace")
