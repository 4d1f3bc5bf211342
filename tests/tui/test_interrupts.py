"""The first Ctrl-C stops the work cleanly, the second ends the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
from slotrag.rag.events import Cancelled
from slotrag.tui.interrupts import cancellable


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_cancels_and_lets_the_work_end(capsys: pytest.CaptureFixture[str]) -> None:
    with cancellable() as token:
        assert not token.cancelled
        press()
        assert token.cancelled
    assert "stopping" in capsys.readouterr().err


def test_what_the_stopped_work_raises_counts_as_cancelled() -> None:
    with pytest.raises(Cancelled), cancellable():
        press()
        raise OSError("the download was broken off")


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ZeroDivisionError), cancellable():
        raise ZeroDivisionError


def test_the_handler_before_is_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with cancellable():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_beside_the_main_thread_signals_stay_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with cancellable():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_the_second_ends_the_program() -> None:
    code = (
        "import os, signal, time\nfrom slotrag.tui.interrupts import cancellable\n"
        "with cancellable():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(30)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=20, check=False)
    assert result.returncode == 130
