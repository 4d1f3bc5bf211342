"""Progress is shown where it helps and nowhere else."""

from __future__ import annotations

import io
import sys
import threading

import pytest
from slotrag.rag.events import Progress
from slotrag.tui import progress
from slotrag.tui.progress import ProgressView


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def use(patch: pytest.MonkeyPatch, stream: io.StringIO, term: str = "xterm") -> io.StringIO:
    patch.setattr(sys, "stderr", stream)
    patch.setenv("TERM", term)
    patch.setenv("COLUMNS", "60")
    return stream


def test_off_the_terminal_a_message_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = use(monkeypatch, io.StringIO())
    with ProgressView() as view:
        for done in range(100):
            view(Progress("fetch", done, 100, "bytes", "fetching a model (licence MIT)"))
            view(Progress("read", done, 100, "files", f"file {done}"))
        view(Progress("wait", 0, None, "", "waiting for another run"))
    assert stream.getvalue() == "fetching a model (licence MIT)\nwaiting for another run\n"


def test_off_the_terminal_long_work_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = use(monkeypatch, io.StringIO(), "dumb")
    clock = iter(range(0, 10_000, 15))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)) + 1)
    with ProgressView() as view:
        for done in range(5):
            view(Progress("encode", done, 5, "passages"))
    assert stream.getvalue() == "encoding: 2 of 5 passages\nencoding: 4 of 5 passages\n"


def test_quiet_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = use(monkeypatch, Terminal())
    with ProgressView(quiet=True) as view:
        view(Progress("fetch", 1, 2, "bytes", "fetching a model (licence MIT)"))
    assert stream.getvalue() == ""


def test_terminal_has_a_bar_and_keeps_what_was_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = use(monkeypatch, Terminal())
    with ProgressView() as view:
        for done in range(3):
            view.from_models("fetch", done * 1_000_000, 2_000_000, "bytes", "fetching minilm-l6 (Apache-2.0): 2.0 MB")
        view(Progress("encode", 3, 9, "passages", "not kept"))
        view.close()
        view(Progress("load", 0, None, "", ""))
    shown = stream.getvalue()
    assert shown.count("fetching minilm-l6 (Apache-2.0): 2.0 MB") == 1
    assert "3/9 passages" in shown
    assert "not kept" not in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor is back


@pytest.mark.parametrize("width", ["20", "59"])
def test_narrow_terminals(monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    stream = use(monkeypatch, Terminal())
    monkeypatch.setenv("COLUMNS", width)
    with ProgressView() as view:
        view(Progress("encode", 123_456, 234_567, "passages", ""))
    assert "encoding" in stream.getvalue()


def test_markup_and_escape_sequences_in_messages_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = use(monkeypatch, Terminal())
    with ProgressView() as view:
        view(Progress("wait", 0, None, "", "waiting for [bold]a[/bold]"))
        view(Progress("fetch", 0, None, "", "fetching \x1b]0;owned\x07"))
    assert "waiting for [bold]a[/bold]" in stream.getvalue()
    assert "\x07" not in stream.getvalue()


def test_reports_may_come_from_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Terminal())
    errors: list[BaseException] = []

    def work(stage: str) -> None:
        try:
            for done in range(200):
                view(Progress(stage, done, 200, "passages"))
        except BaseException as error:
            errors.append(error)

    with ProgressView() as view:
        threads = [threading.Thread(target=work, args=(stage,)) for stage in ("read", "encode", "index")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
