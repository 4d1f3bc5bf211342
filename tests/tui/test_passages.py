"""Found passages for a reader and as JSON."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace

import pytest
from rich.cells import cell_len
from slotrag.rag.results import Hit, SearchResult
from slotrag.tui import passages

HIT = Hit(
    rank=1,
    score=0.03,
    score_kind="rrf",
    dense=0.61,
    lexical=None,
    passage_id=7,
    collection="home",
    path="a/notes.md",
    absolute_path="/docs/a/notes.md",
    copies=["b/notes.md"],
    page=None,
    lines=(3, 9),
    chars=(20, 90),
    heading="Heating > Service",
    text="The boiler is serviced in September.",
    explanation={"dense_rank": 1, "lexical_rank": None},
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_is_the_contract_key_by_key(capsys: pytest.CaptureFixture[str]) -> None:
    passages.say_result_json(SearchResult("boiler", [HIT], {}))
    assert capsys.readouterr().out == (
        '{"schema":1,"query":"boiler","results":[{"rank":1,"score":0.03,"score_kind":"rrf",'
        '"scores":{"dense":0.61,"lexical":null},"passage_id":7,"path":"a/notes.md",'
        '"absolute_path":"/docs/a/notes.md","copies":["b/notes.md"],"page":null,"lines":[3,9],"chars":[20,90],'
        '"heading":"Heating > Service","text":"The boiler is serviced in September."}]}\n'
    )


def test_explanation_is_in_the_json_where_it_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    passages.say_result_json(SearchResult("boiler", [HIT], {}), explain=True)
    assert json.loads(capsys.readouterr().out)["results"][0]["explanation"] == {"dense_rank": 1, "lexical_rank": None}


def test_a_pipe_gets_the_whole_passage_without_style(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(f"line {number}" for number in range(30))
    passages.say_hits([replace(HIT, text=text)], query="boiler", explain=True)
    out = capsys.readouterr().out
    assert "a/notes.md:3-9" in out and "Heating > Service" in out and "also in b/notes.md" in out
    assert all(f"line {number}" in out for number in range(30))
    assert "cosine 0.6100" in out and "not found by its words" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("width", [20, 60])
def test_a_terminal_gets_the_lines_around_the_words(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    filler = "회의는 다음 주로 미루어졌다. " * 12
    hit = replace(HIT, text=f"{filler}\nThe boiler is old.\n{filler}", copies=[], heading="")
    passages.say_hits([hit], query="How old is the boiler?")
    lines = terminal.getvalue().splitlines()
    assert any("boiler" in line for line in lines[1:])
    assert len(lines) <= 5
    assert max(cell_len(line) for line in lines[1:]) <= width


def test_query_words_are_bold_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    passages.say_hits([HIT], query="the boilers: service")
    assert "\x1b[1mserviced\x1b[0m" in terminal.getvalue()
    assert "\x1b[1mThe\x1b[0m" not in terminal.getvalue()


@pytest.mark.parametrize("query", ["(", "a+b*", "[x", "\\", "???", ""])
def test_any_query_is_a_plain_pattern(query: str, capsys: pytest.CaptureFixture[str]) -> None:
    passages.say_hits([HIT], query=query)
    assert "boiler" in capsys.readouterr().out


def test_escape_sequences_in_documents_and_names_are_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07"
    passages.say_hits([replace(HIT, text=evil, heading=evil, path=evil, copies=[evil])], query="x", explain=True)
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\x07" not in out


def test_collections_are_named_where_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    passages.say_hits([HIT, replace(HIT, rank=2, collection="work")], query="x")
    out = capsys.readouterr().out
    assert "home" in out and "work" in out


def test_a_line_break_in_a_file_name_breaks_no_line() -> None:
    assert passages.place("two\nlines.txt", (1, 2), None) == "two lines.txt:1-2"
