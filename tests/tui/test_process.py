"""The installed program in a process of its own: pipes, terminals, signals, speed."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

PROGRAM = str(Path(sysconfig.get_path("scripts")) / "slotrag")


@pytest.fixture
def environment(plugin_path: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(plugin_path), "SLOTRAG_ENCODER": "hashing", "SLOTRAG_OFFLINE": "1"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, plugin_path: Path) -> Path:
    """A library of thirty English files, one Korean one, and one whose name is no text where that can be."""
    folder = tmp_path_factory.mktemp("documents")
    for number in range(30):
        words = " ".join(f"word{number * 50 + position}" for position in range(50))
        (folder / f"{number}.txt").write_text(f"The boiler number {number}. {words}.\n" * 3, encoding="utf-8")
    (folder / "회의록.txt").write_text("회의는 화요일에 열린다 🎉\n", encoding="utf-8")
    with contextlib.suppress(OSError), open(os.fsencode(folder) + b"/caf\xe9.txt", "w") as file:  # noqa: PTH123
        file.write("The coffee machine.\n")
    library = tmp_path_factory.mktemp("library")
    variables = {**os.environ, "PYTHONPATH": str(plugin_path), "SLOTRAG_LIBRARY": str(library)}
    command = [PROGRAM, "index", str(folder), "--encoder", "hashing"]
    subprocess.run(command, env=variables, check=True, capture_output=True)
    return library


@pytest.fixture
def indexed(library: Path, environment: dict[str, str]) -> dict[str, str]:
    """The environment in which the program finds that library."""
    return {**environment, "SLOTRAG_LIBRARY": str(library)}


def test_the_program_is_installed() -> None:
    result = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("slotrag ")


def test_help_takes_less_than_a_third_of_a_second() -> None:
    """The best of several: other programs of the machine must not decide."""
    times = []
    for _ in range(7):
        started = time.perf_counter()
        subprocess.run([PROGRAM, "--help"], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.3


def test_a_reader_that_leaves_is_no_error(indexed: dict[str, str]) -> None:
    process = subprocess.Popen(
        [PROGRAM, "search", "boiler", "-k", "30", "--json"],
        env=indexed,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0


def test_head_is_quiet(indexed: dict[str, str]) -> None:
    command = f"set -o pipefail; '{PROGRAM}' search boiler -k 30 | head -1"
    result = subprocess.run(["bash", "-c", command], env=indexed, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("1. ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_is_one_sentence(indexed: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [PROGRAM, "search", "boiler", "--json"],
            env=indexed,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 1
    assert result.stderr.startswith("slotrag: ") and result.stderr.count("\n") == 1


def test_a_closed_stdout_is_no_error(indexed: dict[str, str]) -> None:
    command = f"'{PROGRAM}' search boiler >&-"
    result = subprocess.run(["bash", "-c", command], env=indexed, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("encoding", ["ascii", "cp949", "utf-8"])
def test_any_encoding_of_the_terminal(indexed: dict[str, str], encoding: str) -> None:
    variables = {**indexed, "PYTHONIOENCODING": encoding}
    result = subprocess.run([PROGRAM, "search", "회의"], env=variables, capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, b"")
    assert (b"\\U0001f389" in result.stdout) is (encoding != "utf-8")


def test_a_file_name_that_is_no_text_keeps_its_bytes(indexed: dict[str, str]) -> None:
    result = subprocess.run([PROGRAM, "search", "coffee", "-k", "1"], env=indexed, capture_output=True, check=False)
    if result.returncode == 3:
        pytest.skip("this file system takes no such name")
    assert b"caf\xe9.txt" in result.stdout


def test_a_file_name_that_is_no_text_is_no_error_on_a_closed_stdout(indexed: dict[str, str]) -> None:
    command = f"'{PROGRAM}' search coffee -k 1 >&-"
    result = subprocess.run(["bash", "-c", command], env=indexed, capture_output=True, text=True, check=False)
    assert result.stderr in ("", "nothing found\n")


def on_terminal(arguments: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run the program with stdout and stderr on a terminal."""
    lead, follow = pty.openpty()
    process = subprocess.Popen([PROGRAM, *arguments], env=environment, stdin=follow, stdout=follow, stderr=follow)
    os.close(follow)
    chunks = []
    while True:
        try:
            chunk = os.read(lead, 65536)
        except OSError:  # the terminal's other side is closed
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(lead)
    return process.wait(), b"".join(chunks).decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("variables", "colour"),
    [
        ({"TERM": "xterm", "COLUMNS": "80"}, True),
        ({"TERM": "xterm", "COLUMNS": "20", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb", "COLUMNS": "20"}, False),
    ],
)
def test_terminals(indexed: dict[str, str], variables: dict[str, str], colour: bool) -> None:
    plain = {name: text for name, text in indexed.items() if name != "NO_COLOR"}
    code, shown = on_terminal(["search", "boiler number", "-k", "3"], {**plain, **variables, "LINES": "6"})
    assert code == 0
    assert ("\x1b[1m" in shown) is colour
    assert "boiler" in shown.lower()


def test_control_c_during_the_first_imports_is_silent(environment: dict[str, str]) -> None:
    """A module that the program imports first interrupts it, as Ctrl-C at that moment does."""
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a process in the background ignores it
        "class Finder:\n    def find_spec(self, name, *rest):\n"
        "        if name == 'slotrag.tui.failures':\n            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\nfrom slotrag.tui.cli import main\nmain(['--help'])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, b"", b"")


def test_control_c_ends_with_130(indexed: dict[str, str]) -> None:
    code = (
        "import signal, time\nfrom slotrag.rag.library import Library\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a process in the background ignores it
        "def slow(self):\n    print('started', flush=True)\n    time.sleep(60)\n"
        "Library.status = slow\nfrom slotrag.tui.cli import main\nmain(['status'])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=indexed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    assert process.stderr.read() == "slotrag: interrupted\n"
