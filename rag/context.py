"""What the decoder reads for a question: which passages, in which form, within its window. It knows no generation.

Everything is counted by rendering the prompt with the decoder's own tokenizer, so the plan is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from .. import SlotragError, UsageError
from .prompting import FULL_FORM, SHORT_FORM, SMALL_FORM, PromptForm, messages
from .results import ContextItem

if TYPE_CHECKING:
    from .decoder import Decoder
    from .evidence import Sentence
    from .results import Hit

EVIDENCE_SENTENCES, SPAN_SENTENCES = 2, 3
"""Sentences that a small decoder reads for a free reply, and for choosing a span of them."""

LEAST_ROOM = 96
"""Tokens that question and passages have before the reply takes its own."""

FORMS = ("auto", "text", "slots")


class SlotsUnavailable(SlotragError):
    """Memory slots were asked for and there is no compressor to make them."""


class Turn(NamedTuple):
    """An earlier question and its answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The prompt and what went into it.

    Attributes
    ----------
    ids : list of int
        The rendered prompt.
    shown : list of int
        Places in the hits of the passages that the decoder reads, best first.
    notices : list of str
        What was left out.
    """

    ids: list[int]
    reply_prefix: str
    max_tokens: int
    items: list[ContextItem]
    shown: list[int]
    notices: list[str] = field(default_factory=list)


def numbers_of(hits: Sequence[Hit]) -> list[int]:
    """The citation number of each hit: its place from 1; a hit with the text of an earlier one has that one's number.

    The numbers of the others do not move when two coincide.
    """
    first: dict[str, int] = {}
    return [first.setdefault(hit.text, place) for place, hit in enumerate(hits, start=1)]


def check_form(context: str) -> None:
    """Raise unless passages can be given in the form `context`.

    Raises
    ------
    slotrag.UsageError
        No such form.
    SlotsUnavailable
        ``slots``, for which a trained compressor is needed.
    """
    if context not in FORMS:
        raise UsageError(f"The context must be one of {', '.join(FORMS)}, not {context!r}.")
    if context == "slots":
        raise SlotsUnavailable("Memory slots need a trained compressor, which is not there yet; use --context text.")


def plan(
    question: str,
    hits: Sequence[Hit],
    ranked: Sequence[Sentence],
    decoder: Decoder,
    *,
    history: Sequence[Turn] = (),
    max_tokens: int = 256,
    context_tokens: int = 512,
    short: bool = False,
) -> Plan:
    """Choose what `decoder` reads, so that prompt and reply fit its window.

    A small decoder reads the best sentences (with `short`, to choose a span of them), a larger one whole passages, best
    first. Room is given to the reply, then to the question, to the passages and to earlier turns, newest first.
    """
    form = SHORT_FORM if short else SMALL_FORM if decoder.small else FULL_FORM
    planner = _Planner(decoder, form, min(max_tokens, decoder.window // 2))
    planner.fit_question(question)
    if planner.reply < max_tokens:
        planner.notices.append(f"The reply is limited to {planner.reply} tokens by the decoder's window.")
    if decoder.small or short:
        planner.take_sentences(hits, ranked[: SPAN_SENTENCES if short else EVIDENCE_SENTENCES], context_tokens)
    else:
        planner.take_passages(hits, context_tokens)
    planner.take_history(history)
    return planner.finish()


def cut(text: str, limit: int, count: Callable[[str], int], mark: str = " …") -> str:
    """The longest beginning of `text`, in whole words where it can be, that with `mark` counts at most `limit` tokens.

    Examples
    --------
    >>> cut("one two three four", 3, lambda text: len(text.split()))
    'one two …'
    """
    if count(text) <= limit:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[:middle].rstrip() + mark) <= limit:
            low = middle
        else:
            high = middle - 1
    head = text[:low]
    if low < len(text) and not any(map(str.isspace, text[low - 1 : low + 1])) and " " in head.strip():
        head = head[: head.rstrip().rfind(" ")]
    return head.rstrip() + mark if head.strip() else ""


class _Planner:
    """Fills one prompt step by step."""

    def __init__(self, decoder: Decoder, form: PromptForm, reply: int) -> None:
        self.decoder, self.form, self.reply = decoder, form, max(1, reply)
        self.notices: list[str] = []
        self.question = ""
        self.passages: list[tuple[int, str, str]] = []
        self.history: list[Turn] = []
        self.shown: list[int] = []
        self.items: list[ContextItem] = []

    @property
    def room(self) -> int:
        """Tokens left beside the prompt so far and the reply."""
        return self.decoder.window - self.reply - len(self.render())

    def render(self, history: Sequence[Turn] | None = None) -> list[int]:
        turns = [(turn.question, turn.answer) for turn in (self.history if history is None else history)]
        return self.decoder.render(
            messages(self.form, self.question, self.passages, turns), reply_prefix=self.form.reply_prefix
        )

    def fit_question(self, question: str) -> None:
        """Take the question, cut where it would leave less than half of the room to the passages."""
        if self.form.demonstrations and len(self.render()) > self.decoder.window // 2:
            self.form = replace(self.form, demonstrations=())
        if self.room < LEAST_ROOM:
            self.reply = max(1, self.reply - (LEAST_ROOM - self.room))
        limit = max(16, self.room // 2)
        self.question = cut(question, limit, self.decoder.count)
        if self.question != question:
            self.notices.append(
                f"The question is longer than the decoder's window allows: only its first {limit} tokens were read."
            )
        if self.room < 0:
            raise SlotragError(
                f"The window of {self.decoder.name} is too small for a question; choose another decoder."
            )

    def take_passages(self, hits: Sequence[Hit], most: int) -> None:
        """Whole passages, best first, within `most` tokens; the best one is cut rather than left out."""
        numbers = numbers_of(hits)
        left_out = 0
        for place, hit in enumerate(hits):
            if numbers[place] != place + 1:
                continue
            used = sum(item.tokens for item in self.items)
            self._add(place, numbers[place], hit, hit.text, min(most - used, self.room), whole=bool(self.items))
            left_out += place not in self.shown
        if left_out:
            self.notices.append(f"{left_out} of {len(hits)} passages did not fit and were not read for the answer.")

    def take_sentences(self, hits: Sequence[Hit], ranked: Sequence[Sentence], most: int) -> None:
        """The ranked sentences, grouped by passage, in the order of the text."""
        numbers = numbers_of(hits)
        left_out = 0
        for place in dict.fromkeys(sentence.passage for sentence in ranked):
            mine = sorted((s for s in ranked if s.passage == place), key=lambda s: s.start)
            text = " ".join(sentence.text for sentence in mine)
            used = sum(item.tokens for item in self.items)
            self._add(place, numbers[place], hits[place], text, min(most - used, self.room), whole=bool(self.items))
            left_out += len(mine) * (place not in self.shown)
        if left_out:
            self.notices.append(f"{left_out} supporting sentences did not fit and were not read for the answer.")

    def _add(self, place: int, number: int, hit: Hit, text: str, limit: int, *, whole: bool) -> None:
        overhead = 12 + self.decoder.count(hit.heading)
        fitted = cut(text, limit - overhead, self.decoder.count) if limit > overhead else ""
        if not fitted or (whole and fitted != text):
            return
        if fitted != text:
            self.notices.append(f"Passage [{number}] was cut to fit the decoder's window.")
        self.passages.append((number, hit.heading if self.form.numbered else "", fitted))
        self.shown.append(place)
        tokens = self.decoder.count(fitted)
        self.items.append(ContextItem(number, hit.passage_id, "text", tokens, 0, False))

    def take_history(self, history: Sequence[Turn]) -> None:
        """Earlier turns, the newest first, as long as they fit in a quarter of the window."""
        most = min(self.room, self.decoder.window // 4)
        base = len(self.render())
        kept: list[Turn] = []
        for turn in reversed(history):
            longer = [turn, *kept]
            if len(self.render(longer)) - base > most:
                break
            kept = longer
        self.history = kept
        if len(kept) < len(history):
            self.notices.append(
                f"{len(history) - len(kept)} earlier turns of this conversation did not fit and were left out."
            )

    def finish(self) -> Plan:
        ids = self.render()
        assert len(ids) + self.reply <= self.decoder.window
        return Plan(ids, self.form.reply_prefix, self.reply, self.items, self.shown, self.notices)
