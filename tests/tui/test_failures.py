"""One sentence and the right exit code for whatever goes wrong; a traceback only where it was asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
from slotrag import SlotragError, UsageError
from slotrag.rag.events import Cancelled
from slotrag.tui import failures

HOMES = {
    "LibraryLocked": "slotrag.rag.locking",
    "FingerprintMismatch": "slotrag.rag.errors",
    "UnknownSession": "slotrag.storage.sessions",
    "PassageMissing": "slotrag.rag.errors",
    "UsageError": "slotrag",
    "Cancelled": "slotrag.rag.events",
    "KeyboardInterrupt": "builtins",
}


def test_every_class_with_a_code_exists() -> None:
    assert set(failures._CODES) == set(HOMES)
    for name, module in HOMES.items():
        assert issubclass(getattr(importlib.import_module(module), name), BaseException)


@pytest.mark.parametrize(
    ("name", "code"),
    [("LibraryLocked", 5), ("FingerprintMismatch", 6), ("UnknownSession", 3), ("PassageMissing", 3)],
)
def test_codes_of_the_contract(name: str, code: int) -> None:
    kind = getattr(importlib.import_module(HOMES[name]), name)
    error = kind.__new__(kind)
    assert failures.exit_code(error) == code


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UsageError("k must be at least 1."), 2, "slotrag: k must be at least 1."),
        (SlotragError("Run the doctor."), 1, "slotrag: Run the doctor."),
        (Cancelled(), 130, "slotrag: interrupted"),
        (KeyboardInterrupt(), 130, "slotrag: interrupted"),
        (ZeroDivisionError("by\nzero"), 1, "slotrag: unexpected ZeroDivisionError: by zero; use --debug"),
        (OSError(28, "No space left on device", "/x"), 1, "slotrag: No space left on device (/x); use --debug"),
    ],
)
def test_what_is_said(error: BaseException, code: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.report(error, debug=False) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(text)
    assert captured.err.count("\n") == 1


def test_debug_shows_where(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError("deep down")
    except ValueError as error:
        failures.report(error, debug=True)
    assert "Traceback" in capsys.readouterr().err


def test_escape_sequences_in_errors_are_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    failures.report(SlotragError("no file \x1b[2J"), debug=False)
    assert "\x1b" not in capsys.readouterr().err


def test_telling_errors_apart_imports_no_storage() -> None:
    code = (
        "import sys\nfrom slotrag.tui.cli import run\nassert run(['config', 'set', 'k', '0']) == 2\n"
        "assert not {'sqlalchemy', 'torch', 'numpy'} & set(sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
