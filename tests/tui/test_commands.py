"""What holds for every command: wrong use, errors, options that may stand anywhere, settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Command, value
from slotrag.rag.library import Library


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", ""],
        ["search", "  \u200b "],
        ["search", "?!"],
        ["search", "x", "-k", "0"],
        ["search", "x", "-k", "-3"],
        ["search", "x", "-k", "many"],
        ["search", "x", "--mode", "fuzzy"],
        ["search", "x", "--diversity", "2"],
        ["search", "x", "--min-score", "nan"],
        ["search", "x", "--min-score", "5"],
        ["search", "x", "--collection", "unknown"],
        ["search", "x", "--topk", "3"],
        ["search"],
        ["ask"],
        ["ask", " "],
        ["ask", "x", "--context", "pictures"],
        ["ask", "x", "--max-tokens", "0"],
        ["index", "--watch", "--dry-run"],
        ["index", ""],
        ["index", ".", "--include", ""],
        ["index", "/dev/null"],
        ["remove", ""],
        ["frobnicate"],
        ["config", "set", "k", "0"],
        ["config", "set", "topk", "1"],
        ["sessions", "export", "x", "--format"],
        ["models", "pull", "no-such-model"],
        ["encoders", "fingerprint", "no-such-encoder"],
        ["encoders", "fingerprint", "mean@(("],
        ["models", "import", ""],
        ["models", "import", "~no-such-user/model"],
        ["eval", "retrieval"],
        ["eval", "retrieval", "--dataset", ""],
        ["sessions", "export", "x", "--output", ""],
        ["--library"],
    ],
    ids=" ".join,
)
def test_wrong_use_is_two_and_one_sentence(command: Command, indexed: Path, arguments: list[str]) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("slotrag: ") and err.count("\n") == 1
    assert "Traceback" not in err


def test_a_library_that_is_not_there_is_one_sentence(command: Command) -> None:
    for arguments in (["search", "x"], ["status"], ["sessions"], ["collections"], ["remove", "x"], ["rebuild"]):
        code, out, err = command(*arguments)
        assert (code, out) == (1, ""), arguments
        assert err.count("\n") == 1 and "index" in err


def test_global_options_may_stand_anywhere(command: Command, folder: Path, tmp_path: Path) -> None:
    library = tmp_path / "elsewhere"
    assert command("index", folder, "--library", library)[0] == 0
    assert command("--library", library, "search", "boiler")[0] == 0
    assert command("search", "--library", library, "boiler")[0] == 0
    assert command("search", "boiler")[0] == 1
    assert [path.name for path in folder.iterdir()] != []
    assert not list(folder.rglob("*.db"))


def test_quiet_leaves_stderr_empty(command: Command, folder: Path) -> None:
    assert command("index", folder, "--quiet")[2] == ""
    assert command("search", "boiler", "--quiet")[2] == ""


def test_config_shows_where_a_value_comes_from(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("config", "set", "k", "7")[0] == 0
    monkeypatch.setenv("SLOTRAG_MODE", "dense")
    lines = command("config", "show", "--origin")[1].splitlines()
    assert "k\t7\tconfig.toml" in lines and "mode\tdense\tenvironment" in lines and "threads\t0\tdefault" in lines
    assert "k = 7" in command("config")[1].splitlines()
    found = value(command("config", "show", "--json"))
    assert (found["settings"]["k"], found["origins"]["k"]) == (7, "config.toml")
    monkeypatch.setenv("SLOTRAG_MOOD", "dense")
    assert "SLOTRAG_MOOD" in command("config", "show")[2]


def test_a_setting_is_what_commands_use(command: Command, indexed: Path) -> None:
    command("config", "set", "k", "1")
    assert len(value(command("search", "boiler music", "--json"))["results"]) == 1
    assert len(value(command("search", "boiler music", "-k", "2", "--json"))["results"]) == 2


def test_unexpected_errors_are_one_line_and_debug_shows_them(
    command: Command, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise RuntimeError("something deep")

    monkeypatch.setattr(Library, "status", broken)
    code, out, err = command("status")
    assert (code, out) == (1, "")
    assert err == "slotrag: unexpected RuntimeError: something deep; use --debug for the whole error\n"
    assert "Traceback" in command("status", "--debug")[2]
