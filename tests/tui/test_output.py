"""Nothing of a document reaches the terminal as a command, and any text can be written anywhere."""

from __future__ import annotations

import io
import json
import re
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.tui import output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(st.text())
def test_clean_text_holds_no_control(text: str) -> None:
    cleaned = output.clean(text)
    assert all(unicodedata.category(character) != "Cc" or character in "\t\n" for character in cleaned)
    assert output.clean(cleaned) == cleaned


@given(st.text(alphabet=st.characters(blacklist_categories=("Cc", "Cf", "Zl", "Zp", "Cs"))))
def test_clean_leaves_plain_text_alone(text: str) -> None:
    assert output.clean(text) == text


@pytest.mark.parametrize("character", ["\x1b", "\x9b", "\x07", "\x08", "\r", "\u202e", "\u2066"])
def test_terminal_commands_are_dropped(character: str) -> None:
    assert output.clean(f"a{character}b") == "ab"


def test_json_is_one_compact_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.say_json({"schema": 1, "path": "한국어.txt", "lines": [1, 2]})
    assert capsys.readouterr().out == '{"schema":1,"path":"한국어.txt","lines":[1,2]}\n'


def test_json_of_a_name_that_is_no_text_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    name = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
    output.say_json({"path": name})
    line = capsys.readouterr().out
    line.encode("ascii")
    assert json.loads(line)["path"] == name


@pytest.mark.parametrize("character", ["\x1b", "\x7f", "\x9b", "\u2028", "\u202e", "\u2066"])
def test_json_escapes_what_a_terminal_would_obey(capsys: pytest.CaptureFixture[str], character: str) -> None:
    output.say_json({"path": f"가{character}b"})
    line = capsys.readouterr().out
    assert line == f'{{"path":"가\\u{ord(character):04x}b"}}\n'
    assert json.loads(line) == {"path": f"가{character}b"}


def test_json_refuses_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="JSON"):
        output.say_json({"score": float("nan")})


@pytest.mark.parametrize(
    ("variables", "moves", "colours"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_style_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], moves: bool, colours: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert output.on_terminal(Terminal()) is moves
    assert output.styled(Terminal()) is colours
    assert output.styled(io.StringIO()) is False


def test_table_on_a_pipe_has_tabs_and_no_head(capsys: pytest.CaptureFixture[str]) -> None:
    output.say_table(("name", "note"), [("a", "one\ttwo\nthree"), ("b", 3)])
    assert capsys.readouterr().out == "a\tone two three\nb\t3\n"


def table_on_terminal(monkeypatch: pytest.MonkeyPatch, width: int, *table: Any) -> list[str]:
    """The lines of a table on a terminal of that width, without their styles."""
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", terminal)
    output.say_table(*table)
    return re.sub(r"\x1b\[[01]m", "", terminal.getvalue()).splitlines()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_table_stays_inside_the_terminal_and_names_are_whole(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    from rich.cells import cell_len

    rows = [("a" * 30, "회의록 " * 20, "here, 91.6 MB"), ("[bold]b[/bold]", "\x1b[31mred", "")]
    lines = table_on_terminal(monkeypatch, width, ("name", "note", "state"), rows)
    assert max(map(cell_len, lines)) <= width
    assert "\x1b" not in "".join(lines)
    held = "".join(cell for row in [("name", "note", "state"), *rows] for cell in row).replace("\x1b", "")
    assert sorted("".join(lines).replace(" ", "")) == sorted(held.replace(" ", ""))
    assert {"a" * 30, "[bold]b[/bold]"} <= {line.split("  ")[0].strip() for line in lines}


@pytest.mark.parametrize(("width", "name"), [(20, "a" * 30), (59, "a" * 10), (80, "a" * 75)])
def test_rows_are_lines_where_a_table_has_no_room(monkeypatch: pytest.MonkeyPatch, width: int, name: str) -> None:
    rows = [(name, "회의록 둘", ""), ("b", "red", "x")]
    lines = table_on_terminal(monkeypatch, width, ("name", "note", ""), rows)
    assert lines == [f"name: {name}", "note: 회의록 둘", "", "name: b", "note: red", "x"]


def test_streams_take_names_that_are_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="utf-8"))
    output.set_up_streams()
    output.say(b"caf\xe9".decode("utf-8", "surrogateescape"))
    sys.stdout.flush()
    assert raw.getvalue() == b"caf\xe9\n"


def test_streams_of_another_encoding_take_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    output.set_up_streams()
    output.say("회의록")
    sys.stdout.flush()
    assert raw.getvalue().startswith(b"\\u")


def test_closed_streams_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    output.set_up_streams()
    output.say("nobody reads this")
    output.say(b"caf\xe9".decode("utf-8", "surrogateescape"))
    sys.stdout.flush()
