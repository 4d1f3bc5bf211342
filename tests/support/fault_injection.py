"""Commands of slotrag in processes where the n-th system call that changes the library fails, or kills.

A library of a few lines of C is compiled and preloaded, so that SQLite's own calls are reached.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ENCODER = "hashing:dimension=16"


class Unavailable(Exception):
    """There is no C compiler, or nothing can be preloaded here."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code (negative: the signal), output, and the counted system calls."""

    code: int
    out: str
    err: str
    count: int


class Server:
    """A process that forks one for each command."""

    def __init__(self, folder: Path, plugin: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or sys.platform != "linux":
            raise Unavailable("needs a C compiler on Linux")
        preloaded = folder / "faults.so"
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(preloaded), str(HERE / "fault_injection.c"), "-ldl"]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise Unavailable(f"the C compiler failed: {made.stderr[-500:]}")
        path = os.pathsep.join(map(str, (HERE, plugin, *filter(None, [os.environ.get("PYTHONPATH")]))))
        environment = os.environ | {
            "PYTHONPATH": path, "LD_PRELOAD": str(preloaded), "SLOTRAG_CONFIG": str(folder / "none.toml"),
            "SLOTRAG_ENCODER": ENCODER, "OMP_NUM_THREADS": "1", "NO_COLOR": "1",
        }  # fmt: skip
        self._log = (folder / "server.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "fault_server.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._log, text=True, env=environment, cwd=folder,
        )  # fmt: skip
        if self._line() != "ready":
            self._log.seek(0)
            raise RuntimeError(f"the server did not start: {self._log.read()[-3000:]}")

    def run(
        self, library: Path, *arguments: str, fault: tuple[str, int] | None = None, uid: int = 0, limit: int = 0
    ) -> Ended:
        """Run a command on `library`; ``python`` and a text runs that text, with the folder as ``library``.

        Parameters
        ----------
        fault : (kind, number), optional
            ``ENOSPC``, ``EIO``, ``EACCES``, ``kill`` or ``torn`` (killed halfway through a write), and which call from
            1; 0 only counts.
        uid : int
            The user who runs it.
        limit : int
            Largest file in bytes (``RLIMIT_FSIZE``).
        """
        request = {"library": str(library), "arguments": arguments, "fault": fault, "uid": uid, "limit": limit}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._line()))

    def picture(self, library: Path) -> dict[str, Any]:
        """What the library shows, looked at in another process."""
        ended = self.run(library, "picture")
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    def verify(self, library: Path, *arguments: str) -> dict[str, Any]:
        """What the library shows (``left``), the exit ``code`` of a command, and what it shows ``after``."""
        ended = self.run(library, "verify", *arguments)
        assert ended.code == 0, ended.err
        return json.loads(ended.out.splitlines()[-1])

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._log.close()
