"""Follows an encoder that takes long over a text: the estimate before a large run, progress within a batch, cancelling.

It knows no encoder. An encoder that has variants of texts written tells how far it is (`slotrag.encoders.variants`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from ..encoders.variants import Step, Watch, watching

WORTH_TELLING = 60.0
"""Seconds that a run must be going to take for an estimate to be told."""


class EncodingWatch:
    """Watches the encoder during one indexing run.

    Parameters
    ----------
    notice : callable
        Gets the estimate, one line, at most once.
    progress : callable
        Gets how far the batch at work is: the share, 0 to 1, and a line for the user.
    check : callable
        Raises where the run is cancelled.
    """

    def __init__(
        self, *, notice: Callable[[str], None], progress: Callable[[float, str], None], check: Callable[[], None]
    ) -> None:
        self._notice, self._progress, self._check = notice, progress, check
        self._told = False
        self._texts, self._characters = 0.0, 0.0
        self._batch, self._started = 0.0, 0.0

    def expect(self, texts: Iterable[str], files: float) -> None:
        """What is to be encoded now, and how many times as much the whole run has to encode, as far as is known."""
        if self._told:
            return
        lengths = [len(text) for text in texts]
        self._texts, self._characters = len(lengths) * files, sum(lengths) * files

    def batch(self, texts: Sequence[str]) -> AbstractContextManager[None]:
        """Watch the encoding of `texts` within the context."""
        self._batch, self._started = sum(map(len, texts)), time.monotonic()
        return watching(Watch(self._stepped, self._check))

    def _stepped(self, step: Step) -> None:
        if not self._told and step.share:
            self._told = True
            took = (time.monotonic() - self._started) / step.share
            whole = took * max(self._characters, self._batch) / max(self._batch, 1)
            if whole >= WORTH_TELLING:
                self._notice(estimate(round(self._texts), step.each, whole, step.note))
        self._progress(step.share, f"{step.done:,} of {step.total:,} variants written")


def estimate(texts: int, each: int, seconds: float, note: str = "") -> str:
    """The line that is told before a long run.

    Examples
    --------
    >>> estimate(1000, 4, 2400)
    '1,000 passages x 4 variants: about 40 min.'
    """
    line = f"{texts:,} passages x {each} variants: about {duration(seconds)}."
    return f"{line} {note}" if note else line


def duration(seconds: float) -> str:
    """A duration as people say it.

    Examples
    --------
    >>> duration(50), duration(2400), duration(7300), duration(400_000)
    ('50 s', '40 min', '2 h', '5 days')
    """
    for size, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or (seconds >= size and name != "days"):
            return f"{round(seconds / size)} {name}"
    return f"{round(seconds)} s"
