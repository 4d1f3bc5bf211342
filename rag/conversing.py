"""One question through a library: history, retrieval, answer, session. It knows how none of these is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .. import SlotragError
from .answering import answer
from .events import AnswerEvent, CancelToken, Finished, Notice, Planned, Replaced, Retrieved, TextDelta
from .followup import standalone
from .query import Request
from .results import Answer, Hit
from .retrieval import Retriever
from .sessions import Conversation

if TYPE_CHECKING:
    from ..encoders.base import Encoder
    from ..storage import Catalog
    from ..storage.records import CollectionRecord
    from .decoder import Decoder
    from .settings import Settings


@dataclass(slots=True)
class Asking:
    """What asking needs.

    Attributes
    ----------
    decoder : callable
        Loads the decoder; called only where one is needed.
    """

    catalog: Catalog
    retriever: Retriever
    collections: Sequence[CollectionRecord]
    encoder: Callable[[CollectionRecord], Encoder]
    decoder: Callable[[], Decoder]
    settings: Settings

    def run(
        self,
        request: Request,
        *,
        session: str | None,
        context: str,
        max_tokens: int,
        cancel: CancelToken | None,
    ) -> Iterator[AnswerEvent]:
        """The events of one answer, `Finished` last; it is stored just before that.

        An answer that breaks down, or whose events are not read to the end, is stored as far as it came.
        """
        conversation = Conversation.open(self.catalog, session)
        return self._events(request, conversation, context, max_tokens, cancel)

    def _events(
        self,
        request: Request,
        conversation: Conversation,
        context: str,
        max_tokens: int,
        cancel: CancelToken | None,
    ) -> Iterator[AnswerEvent]:
        question = request.query
        partial = _Partial(question)
        stored = False
        try:
            started = time.perf_counter()
            query = standalone(question, conversation.turns)
            found = self.retriever.retrieve(replace(request, query=query), self.collections)
            relevant = [hit for hit in found.hits if hit.relevant]
            retrieve_ms = (time.perf_counter() - started) * 1000
            for notice in found.notices:
                yield Notice(notice)
            yield Retrieved(relevant)
            for event in answer(
                question,
                relevant,
                decoder=self.decoder,
                encoder=self._encoder(relevant),
                history=conversation.turns,
                context=context,
                max_tokens=max_tokens,
                context_tokens=self.settings.context_text_tokens,
                cancel=cancel,
                retrieve_ms=retrieve_ms,
            ):
                partial.see(event)
                if isinstance(event, Finished):
                    stored = True
                    yield self._finished(event, conversation, question, query, found.notices)
                else:
                    yield event
        except GeneratorExit:
            if not stored:
                self._store(conversation, question, partial.answer("cancelled"), {})
            raise
        except Exception as error:
            if not stored:
                self._store(conversation, question, partial.answer("error"), {"error": str(error)})
            raise

    def _encoder(self, hits: Sequence[Hit]) -> Encoder:
        """The encoder of the collection that the best hit is from."""
        name = hits[0].collection if hits else self.collections[0].name
        return self.encoder(next(record for record in self.collections if record.name == name))

    def _finished(
        self, event: Finished, conversation: Conversation, question: str, query: str, notices: Sequence[str]
    ) -> Finished:
        given = replace(event.answer, notices=[*notices, *event.answer.notices])
        session_id, problem = self._store(conversation, question, given, {"query": query})
        if problem:
            given.notices.append(f"The answer could not be stored: {problem}")
        return Finished(replace(given, session_id=session_id))

    @staticmethod
    def _store(
        conversation: Conversation, question: str, given: Answer, details: dict[str, Any]
    ) -> tuple[str | None, str]:
        """Store an answer; its session, and what kept it from being stored: an answer is not lost to a full disk."""
        try:
            return conversation.store(question, given, details), ""
        except SlotragError as error:
            return conversation.id, str(error)


class _Partial:
    """What has been seen of an answer so far."""

    def __init__(self, question: str) -> None:
        self._question, self._text, self._notices = question, "", []
        self._context: list[Any] = []

    def see(self, event: AnswerEvent) -> None:
        if isinstance(event, TextDelta):
            self._text += event.text
        elif isinstance(event, Replaced):
            self._text = event.text
        elif isinstance(event, Planned):
            self._context = event.context
        elif isinstance(event, Notice):
            self._notices.append(event.text)

    def answer(self, stop_reason: str) -> Answer:
        """The answer as far as it came."""
        return Answer(self._question, self._text, stop_reason, [], [], self._context, {}, self._notices)
