"""What work reports while it runs: progress of long steps, and the stream of an answer. It knows no terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .results import Answer, ContextItem, Hit


@dataclass(frozen=True, slots=True)
class Progress:
    """One report of a step that may take over a second.

    Attributes
    ----------
    stage : str
        ``scan``, ``read``, ``encode``, ``index``, ``fetch``, ``convert``, ``load``, ``wait``, ``evaluate`` or
        ``estimate`` (its message says how long the run will take).
    done, total : int
        In `unit`; `total` is None where it is not known yet.
    message : str
        A line for the user, may be empty.
    """

    stage: str
    done: int = 0
    total: int | None = None
    unit: str = ""
    message: str = ""


ProgressListener = Callable[[Progress], None]


class Cancelled(Exception):
    """The work was cancelled by its caller; what was committed before stays."""


@dataclass(slots=True)
class CancelToken:
    """Set by one thread, looked at by the working one between its steps."""

    _event: Event = field(default_factory=Event)

    def cancel(self) -> None:
        self._event.set()

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def raise_if_cancelled(self) -> None:
        if self._event.is_set():
            raise Cancelled


@dataclass(frozen=True, slots=True)
class Notice:
    """Something said once beside the answer (a left-out passage, a missing chat template)."""

    text: str


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The passages found for the question."""

    hits: list[Hit]


@dataclass(frozen=True, slots=True)
class Planned:
    """What the decoder will read."""

    context: list[ContextItem]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer's text; the pieces joined are ``Answer.text`` unless a `Replaced` comes."""

    text: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """The text streamed so far gives way to `text` (a reply that its passages do not support, citation marks)."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The end: the whole answer with its citations. Always the last event."""

    answer: Answer


AnswerEvent = Notice | Retrieved | Planned | TextDelta | Replaced | Finished
