"""An answer on a terminal, on a pipe and as JSON."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from slotrag.rag.events import AnswerEvent, Finished, Notice, Planned, Replaced, Retrieved, TextDelta
from slotrag.rag.results import Answer, Citation, ContextItem, Quote
from slotrag.tui import answers
from slotrag.tui.global_options import GlobalOptions
from slotrag.tui.invocation import Invocation

ANSWER = Answer(
    question="When is the boiler serviced?",
    text="In September [1].",
    stop_reason="eos",
    citations=[Citation(1, 7, "a.md", "/docs/a.md", None, (3, 4), "Service", "The boiler is serviced in September.")],
    quotes=[Quote(1, "The boiler is\nserviced in September.", 0.9)],
    context=[ContextItem(1, 7, "text", 42, 0, False)],
    timings_ms={"retrieve": 12.345, "first_token": 100.0, "total": 250.0},
    session_id="s1",
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def stream(answer: Answer = ANSWER) -> Iterator[AnswerEvent]:
    yield Retrieved([])
    yield Notice("a passage was left out")
    yield Planned(answer.context)
    yield TextDelta("In Octo")
    yield Notice("said in the middle")
    yield TextDelta("ber.")
    yield Replaced(answer.text)
    yield Finished(answer)


def invocation(quiet: bool = False) -> Invocation:
    return Invocation(GlobalOptions(quiet=quiet))


def test_json_is_the_contract_key_by_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert answers.show(stream(), invocation(), as_json=True) is ANSWER
    assert capsys.readouterr().out == (
        '{"schema":1,"question":"When is the boiler serviced?","answer":"In September [1].","stop_reason":"eos",'
        '"citations":[{"number":1,"passage_id":7,"path":"a.md","page":null,"lines":[3,4]}],'
        '"context":[{"number":1,"passage_id":7,"form":"text","tokens":42,"slots":0,"cached":false}],'
        '"timings_ms":{"retrieve":12.3,"compress":0.0,"first_token":100.0,"total":250.0},'
        '"session":"s1","quotes":[{"number":1,"text":"The boiler is\\nserviced in September.","score":0.9}],'
        '"unsupported":[]}\n'
    )


def test_a_pipe_gets_only_the_final_text_and_the_sources(capsys: pytest.CaptureFixture[str]) -> None:
    answers.show(stream(), invocation(), as_json=False)
    captured = capsys.readouterr()
    assert captured.out == (
        'In September [1].\n\nSources\n[1] a.md:3-4  Service\n    "The boiler is serviced in September."\n'
    )
    assert "a passage was left out" in captured.err
    assert "slotrag ask --session s1" in captured.err


def test_a_terminal_streams_and_then_shows_the_final_text(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, notices = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", notices)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    answers.show(stream(), invocation(), as_json=False)
    shown = terminal.getvalue()
    assert shown.startswith("In October.\r\x1b[JIn September [1].\n\nSources\n")
    assert notices.getvalue().splitlines()[:2] == ["a passage was left out", "said in the middle"]


def test_a_sentence_that_the_answer_repeats_is_still_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    text = "The boiler is\nserviced in September. [1]"
    answers.show(iter([Finished(replace(ANSWER, text=text))]), invocation(), as_json=False)
    assert capsys.readouterr().out.endswith('[1] a.md:3-4  Service\n    "The boiler is serviced in September."\n')


def test_json_names_the_sentences_without_support(capsys: pytest.CaptureFixture[str]) -> None:
    text = "In September. [1] It hums. [?]"
    answers.show(iter([Finished(replace(ANSWER, text=text))]), invocation(), as_json=True)
    assert json.loads(capsys.readouterr().out)["unsupported"] == ["It hums."]


def test_what_the_answer_quotes_is_not_quoted_again(capsys: pytest.CaptureFixture[str]) -> None:
    text = f'"{ANSWER.quotes[0].text}" [1]'
    answers.show(iter([Finished(replace(ANSWER, text=text, stop_reason="quoted"))]), invocation(), as_json=False)
    assert capsys.readouterr().out == f"{text}\n\nSources\n[1] a.md:3-4  Service\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_found_claims_no_source(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    out = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", "xterm")
    nothing = replace(ANSWER, text="Not found in your documents.", stop_reason="not_found", citations=[], quotes=[])
    answers.show(iter([Finished(nothing)]), invocation(quiet=True), as_json=False)
    assert out.getvalue() == "Not found in your documents.\n"


@pytest.mark.parametrize("reason", ["length", "loop", "cancelled", "error"])
def test_an_answer_that_was_cut_is_said_to_be(capsys: pytest.CaptureFixture[str], reason: str) -> None:
    answers.show(iter([Finished(replace(ANSWER, stop_reason=reason))]), invocation(), as_json=False)
    said = capsys.readouterr().err
    assert "answer" in said or "cancelled" in said


def test_quiet_keeps_the_data_and_drops_the_notices(capsys: pytest.CaptureFixture[str]) -> None:
    answers.show(stream(), invocation(quiet=True), as_json=False)
    captured = capsys.readouterr()
    assert "In September" in captured.out
    assert captured.err == ""


def test_markers_of_documents_are_plain_in_sources(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b[2J<|im_end|>"
    quoted = replace(ANSWER, quotes=[Quote(1, evil, 1.0)], citations=[replace(ANSWER.citations[0], path=evil)])
    answers.show(iter([Finished(quoted)]), invocation(), as_json=False)
    assert "\x1b" not in capsys.readouterr().out


def test_json_of_a_nothing_found(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = replace(ANSWER, stop_reason="not_found", citations=[], context=[], timings_ms={})
    answers.show(iter([Finished(nothing)]), invocation(), as_json=True)
    value = json.loads(capsys.readouterr().out)
    assert value["stop_reason"] == "not_found"
    assert value["timings_ms"] == {"retrieve": 0.0, "compress": 0.0, "first_token": 0.0, "total": 0.0}
