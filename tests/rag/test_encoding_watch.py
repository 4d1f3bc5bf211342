"""The estimate before a long run, and progress within a batch."""

import pytest
from slotrag.encoders.variants import Step, current_watch
from slotrag.rag import encoding_watch
from slotrag.rag.encoding_watch import EncodingWatch, duration, estimate


class Clock:
    def __init__(self, patch):
        self.now = 0.0
        patch.setattr(encoding_watch.time, "monotonic", lambda: self.now)


def watch():
    told, seen = [], []
    made = EncodingWatch(
        notice=told.append, progress=lambda share, line: seen.append((share, line)), check=lambda: None
    )
    return made, told, seen


def test_a_long_run_is_told_once_after_the_first_batch(monkeypatch):
    clock, (watching, told, seen) = Clock(monkeypatch), watch()
    texts = ["x" * 100] * 10
    watching.expect(texts, files=20)
    with watching.batch(texts[:5]):
        clock.now = 2.0
        current_watch().report(Step(2, 20, 0.1, 4, note="Measured."))
        clock.now = 30.0
        current_watch().report(Step(20, 20, 1.0, 4))
    # A tenth of 5 texts took 2 s; there are 200.
    assert told == ["200 passages x 4 variants: about 13 min. Measured."]
    assert seen == [(0.1, "2 of 20 variants written"), (1.0, "20 of 20 variants written")]


def test_a_short_run_is_not_told(monkeypatch):
    clock, (watching, told, _) = Clock(monkeypatch), watch()
    watching.expect(["abc"], files=1)
    with watching.batch(["abc"]):
        clock.now = 5.0
        current_watch().report(Step(4, 4, 1.0, 4))
    assert not told


@pytest.mark.parametrize(
    ("seconds", "text"), [(59, "59 s"), (60, "1 min"), (3599, "60 min"), (7200, "2 h"), (90_000, "25 h")]
)
def test_duration(seconds, text):
    assert duration(seconds) == text
    assert estimate(1000, 4, seconds) == f"1,000 passages x 4 variants: about {text}."
