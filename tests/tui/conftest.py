"""The program run in this process over a small folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Command, Outcome
from slotrag.tui.cli import run


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], hashing_encoder: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the program in this process with an instant encoder: exit code, stdout, stderr."""
    monkeypatch.setenv("SLOTRAG_ENCODER", hashing_encoder)
    monkeypatch.setenv("SLOTRAG_OFFLINE", "1")

    def call(*arguments: str | Path) -> Outcome:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "documents"
    (documents / "deep").mkdir(parents=True)
    (documents / "boiler.md").write_text("# Boiler\n\nThe boiler is serviced in September.\n", encoding="utf-8")
    (documents / "deep" / "rules.txt").write_text("Music must end at eleven.\n", encoding="utf-8")
    (documents / "회의록.txt").write_text("회의는 화요일에 열린다.\n", encoding="utf-8")
    return documents


@pytest.fixture
def indexed(command: Command, folder: Path) -> Path:
    assert command("index", folder)[0] == 0
    return folder
