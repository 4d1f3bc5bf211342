"""From a question and its passages to a streamed answer with sources. It knows no library and no terminal.

The decoder is not trusted: every sentence is matched to the passages it read, a reply without support gives way to the
sentences that fit the question best. Beside an answer stand the sentences that support it, then those that fit best.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from .. import SlotragError, UsageError
from .citations import CitedText, Source, cite, closest_sentence
from .context import SPAN_SENTENCES, Plan, Turn, check_form, numbers_of, plan
from .events import AnswerEvent, CancelToken, Finished, Notice, Planned, Replaced, TextDelta
from .evidence import Sentence, is_heading, is_row, rank_sentences, readable, tells
from .followup import standalone
from .language import can_write, language_of
from .results import Answer, Citation, Quote
from .sentences import without_markers
from .spans import asks_briefly, choose_span, clause
from .words import content_tokens

if TYPE_CHECKING:
    from ..encoders.base import Encoder
    from .decoder import Decoder
    from .results import Hit

NOT_FOUND = "Not found in your documents."

SPAN_TOKENS = 16
"""Room for a short answer in the window."""

QUOTES = 3
"""Supporting sentences shown beside an answer at most."""

QUOTE_SHARE = 0.7
"""Least score of a further sentence, as a share of the best one's."""

SMALL_SUPPORT = 0.5
"""Least share of a small decoder's sentences that must be supported; below it the documents are quoted instead."""


class GenerationFailed(SlotragError):
    """The decoder broke down while it answered; the cause is chained."""


def answer(
    question: str,
    hits: Sequence[Hit],
    *,
    decoder: Decoder | Callable[[], Decoder],
    encoder: Encoder,
    history: Sequence[Turn] = (),
    context: str = "auto",
    max_tokens: int = 256,
    context_tokens: int = 512,
    cancel: CancelToken | None = None,
    retrieve_ms: float = 0.0,
) -> Iterator[AnswerEvent]:
    """Answer `question` from `hits`.

    Yields `Notice` events, `Planned`, `TextDelta` events, at most one `Replaced` and, last, `Finished`. Closing the
    iterator ends the work; nothing runs on in the background.

    Parameters
    ----------
    hits : sequence of Hit
        The relevant passages, best first; without any the answer is that nothing was found, and no model is loaded.
    decoder : Decoder or callable
        A callable is called when, and only when, the decoder is needed.
    encoder : Encoder
        Ranks the supporting sentences and checks the answer.
    history : sequence of Turn
        Earlier turns of the conversation, oldest first.
    context : str
        ``auto`` or ``text``; ``slots`` needs a compressor.
    max_tokens, context_tokens : int
        Most tokens of the reply, and of the passages in the prompt.
    cancel : CancelToken, optional
        Once set, the answer ends within two tokens with what is there.
    retrieve_ms : float
        Time the passages took, for the timings of the answer.

    Raises
    ------
    slotrag.UsageError
        An empty question, an unknown form of context, limits below 1.
    GenerationFailed
        The decoder broke down.
    """
    if not question.strip():
        raise UsageError("The question is empty; type a question.")
    if max_tokens < 1 or context_tokens < 1:
        raise UsageError("The numbers of tokens must be at least 1.")
    check_form(context)
    answering = _Answering(question, hits, encoder, history, cancel or CancelToken(), retrieve_ms)
    return answering.run(decoder, max_tokens, context_tokens)


class _Answering:
    """One question on its way to an answer."""

    def __init__(
        self,
        question: str,
        hits: Sequence[Hit],
        encoder: Encoder,
        history: Sequence[Turn],
        cancel: CancelToken,
        retrieve_ms: float,
    ) -> None:
        self.question, self.hits, self.encoder = question, list(hits), encoder
        self.history, self.cancel = list(history), cancel
        self.full_question = standalone(question, self.history)
        self.numbers = numbers_of(self.hits)
        self.notices: list[str] = []
        self.started = time.perf_counter()
        self.timings = {"retrieve": retrieve_ms, "compress": 0.0, "first_token": 0.0, "total": 0.0}
        self.retrieve_ms = retrieve_ms

    def run(
        self, decoder: Decoder | Callable[[], Decoder], max_tokens: int, context_tokens: int
    ) -> Iterator[AnswerEvent]:
        if not self.hits:
            yield TextDelta(NOT_FOUND)
            yield self.finished(NOT_FOUND, "not_found")
            return
        ranked = rank_sentences(self.full_question, self.hits, self.encoder)
        if self.cancel.cancelled:
            yield self.finished("", "cancelled", supporting(ranked))
            return
        # A loaded decoder is no function of no arguments; a plain callable is.
        loaded: Decoder = decoder() if not hasattr(decoder, "generate") else decoder  # type: ignore[assignment,operator]
        yield from self.remarks(loaded)
        if not can_write(loaded.languages, language_of(self.question)):
            yield Planned([])
            yield from self.quote(ranked)
            return
        if loaded.small and language_of(self.question) == "en" and asks_briefly(self.full_question):
            brief = self.brief_reply(loaded, ranked, context_tokens)
            if brief is not None:
                yield from brief
                return
        planned = plan(
            self.full_question if loaded.small else self.question,
            self.hits,
            ranked,
            loaded,
            history=() if loaded.small else self.history,
            max_tokens=max_tokens,
            context_tokens=context_tokens,
        )
        yield from self.notify(planned.notices)
        yield Planned(planned.items)
        yield from self.reply(loaded, planned, ranked)

    def brief_reply(
        self, decoder: Decoder, ranked: Sequence[Sentence], context_tokens: int
    ) -> Iterator[AnswerEvent] | None:
        """The clause around the words that the decoder finds the likeliest answer; None where it finds none."""
        planned = plan(
            self.full_question,
            self.hits,
            ranked,
            decoder,
            max_tokens=SPAN_TOKENS,
            context_tokens=context_tokens,
            short=True,
        )
        read = [sentence for sentence in ranked[:SPAN_SENTENCES] if sentence.passage in planned.shown]
        with self.failures(decoder):
            span = choose_span(self.full_question, [s.text for s in read], decoder, planned.ids, self.cancel)
        if span is None:
            return None
        sentence = read[span.sentence]
        row = is_row(sentence.text)  # its cells belong together
        statement = readable(sentence.text) if row else _beginning(clause(sentence.text, span.start, span.end))
        stop = "" if row or statement.endswith((".", "!", "?", "…")) else "."
        text = f"{statement}{stop} [{self.numbers[sentence.passage]}]"
        best_first = [sentence, *(other for other in ranked if other is not sentence)]
        return self.brief_events(planned, text if tells(f"{statement}.") else "", best_first)

    def brief_events(self, planned: Plan, text: str, best_first: Sequence[Sentence]) -> Iterator[AnswerEvent]:
        """The answer `text`, or the sentences themselves where the clause tells nothing."""
        yield from self.notify(planned.notices)
        yield Planned(planned.items)
        if not text:
            yield from self.quote(best_first, planned=planned)
            return
        self.timings["first_token"] = self.elapsed_ms()
        yield TextDelta(text)
        cited = [self.numbers[best_first[0].passage]]
        yield self.finished(text, "eos", supporting(best_first), items=planned, cited=cited)

    def reply(self, decoder: Decoder, planned: Plan, ranked: Sequence[Sentence]) -> Iterator[AnswerEvent]:
        """Stream the decoder's reply, then put right what it says."""
        shown = ""
        generation = decoder.generate(planned.ids, max_tokens=planned.max_tokens, cancel=self.cancel)
        with closing(generation), self.failures(decoder):
            for token in generation:
                text = token.text if shown else _beginning(token.text)
                if not text:
                    continue
                if not shown:
                    self.timings["first_token"] = self.elapsed_ms()
                shown += text
                yield TextDelta(text)
        text = without_markers(_beginning(generation.text)).rstrip()
        if generation.stop_reason == "cancelled":
            if text != shown:
                yield Replaced(text)
            yield self.finished(text, "cancelled", supporting(ranked), items=planned)
            return
        cited = self.cite(text, planned, ranked)
        if not self.holds(cited, decoder):
            yield from self.quote(ranked, planned=planned, streamed=bool(shown))
            return
        if cited.text != shown:
            yield Replaced(cited.text)
        quotes = self.support(cited, ranked)
        yield self.finished(cited.text, generation.stop_reason, quotes, items=planned, cited=cited.numbers)

    def holds(self, cited: CitedText, decoder: Decoder) -> bool:
        """Whether a reply may stand: it tells something, and enough of it is supported."""
        told = " ".join(claim for claim, _ in cited.claims)
        if not told or any(is_heading(told, hit.heading) for hit in self.hits):
            return False
        if not decoder.small:
            return bool(content_tokens(told))
        return tells(told) and cited.supported >= SMALL_SUPPORT * cited.total

    def support(self, cited: CitedText, ranked: Sequence[Sentence]) -> list[Sentence]:
        """For each cited source the sentence that supports the answer, then the best of the others."""
        found: dict[int, Sentence] = {}
        for claim, number in cited.claims:
            there = [sentence for sentence in ranked if self.numbers[sentence.passage] == number]
            if number not in found and there:
                found[number] = there[closest_sentence(claim, [sentence.text for sentence in there])]
        first = [sentence for sentence in found.values() if tells(sentence.text)]
        others = [sentence for sentence in supporting(ranked) if all(sentence is not one for one in first)]
        return [*first, *others[: max(0, QUOTES - len(first))]]

    def quote(
        self, ranked: Sequence[Sentence], planned: Plan | None = None, streamed: bool = False
    ) -> Iterator[AnswerEvent]:
        """The best sentences themselves, in place of a reply."""
        best = supporting(ranked) or list(ranked[:1])
        text = "\n".join(f"“{sentence.text}” [{self.numbers[sentence.passage]}]" for sentence in best)
        if not self.timings["first_token"]:
            self.timings["first_token"] = self.elapsed_ms()
        yield Replaced(text) if streamed else TextDelta(text)
        yield self.finished(text, "quoted", best, items=planned)

    def cite(self, text: str, planned: Plan, ranked: Sequence[Sentence]) -> CitedText:
        sources = []
        for place in planned.shown:
            vectors = [sentence.vector for sentence in ranked if sentence.passage == place]
            stacked = np.stack(vectors) if vectors else np.empty((0, self.encoder.dimension), np.float32)
            sources.append(Source(self.numbers[place], self.hits[place].text, stacked))
        return cite(text, sources, self.encoder, question=self.full_question)

    @contextmanager
    def failures(self, decoder: Decoder) -> Iterator[None]:
        """Name the decoder when it breaks down."""
        try:
            yield
        except SlotragError:
            raise
        except Exception as error:
            message = f"The decoder {decoder.name} failed: {error}; try another with --decoder."
            raise GenerationFailed(message) from error

    def remarks(self, decoder: Decoder) -> Iterator[Notice]:
        """What is to be said once about this decoder."""
        if decoder.template.plain and decoder.first_time("template"):
            yield from self.notify(
                [f"{decoder.name} has no chat template: it is a base model, a plain prompt is used."]
            )
        code = language_of(self.question)
        if not can_write(decoder.languages, code) and decoder.first_time(f"language {code}"):
            yield from self.notify([_language_notice(decoder.name, code)])

    def notify(self, texts: Sequence[str]) -> Iterator[Notice]:
        for text in texts:
            self.notices.append(text)
            yield Notice(text)

    def finished(
        self,
        text: str,
        stop_reason: str,
        quotes: Sequence[Sentence] = (),
        *,
        items: Plan | None = None,
        cited: Sequence[int] = (),
    ) -> Finished:
        self.timings["total"] = self.elapsed_ms()
        quoted = [Quote(self.numbers[s.passage], s.text, s.score) for s in quotes]
        listed = list(dict.fromkeys([*cited, *(quote.number for quote in quoted)]))
        return Finished(
            Answer(
                question=self.question,
                text=text,
                stop_reason=stop_reason,
                citations=[_citation(number, self.hits[number - 1]) for number in listed],
                quotes=quoted,
                context=list(items.items) if items is not None else [],
                timings_ms=dict(self.timings),
                notices=list(self.notices),
            )
        )

    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self.started) * 1000 + self.retrieve_ms


def supporting(ranked: Sequence[Sentence]) -> list[Sentence]:
    """The first of `ranked` that `tells` something, and the next ones that come near the best."""
    told = [sentence for sentence in ranked if tells(sentence.text)]
    best = max((sentence.score for sentence in told), default=0.0)
    return [*told[:1], *(sentence for sentence in told[1:QUOTES] if sentence.score >= QUOTE_SHARE * best)]


def _beginning(text: str) -> str:
    """`text` as the beginning of a reply: the prompt began its sentence, so it gets its capital here."""
    text = text.lstrip(" \n,:")
    return text[:1].upper() + text[1:]


def _citation(number: int, hit: Hit) -> Citation:
    return Citation(
        number=number,
        passage_id=hit.passage_id,
        path=hit.path,
        absolute_path=hit.absolute_path,
        page=hit.page,
        lines=hit.lines,
        heading=hit.heading,
        excerpt=hit.text,
    )


def _language_notice(name: str, code: str) -> str:
    from ..encoders.backbones import catalogue

    able = [e for e in catalogue.entries() if e.role != "backbone" and e.languages and code in e.languages]
    best = min(able, key=lambda entry: entry.parameters, default=None)
    advice = f"; for written answers use --decoder {best.name}" if best is not None else ""
    return f"{name} does not write this language ({code}), so the best sentences are quoted{advice}."
