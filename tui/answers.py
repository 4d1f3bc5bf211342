"""An answer while it comes and when it is there: streamed text, sources with their quotes, JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .output import bold, clean, dim, on_terminal, say, say_json
from .passages import place
from .streamed_text import StreamedText

if TYPE_CHECKING:
    from ..rag.events import AnswerEvent
    from ..rag.results import Answer
    from .invocation import Invocation


def show(events: Iterable[AnswerEvent], invocation: Invocation, *, as_json: bool) -> Answer:
    """Show an answer as it comes; on a pipe and as JSON only what it is in the end."""
    from ..rag import events as kinds

    text = StreamedText() if on_terminal() and not as_json else None
    answer: Answer | None = None
    notices: list[str] = []
    for event in events:
        if isinstance(event, kinds.Notice):
            if text is not None and text.begun:
                notices.append(event.text)  # a line in the middle of the text could not be taken back with it
            else:
                invocation.notice(event.text)
        elif isinstance(event, kinds.Retrieved):
            invocation.waiting("loading the decoder")
        elif isinstance(event, kinds.Planned):
            invocation.waiting("reading the passages")
        elif isinstance(event, kinds.TextDelta) and text is not None:
            invocation.progress.close()
            text.write(event.text)
        elif isinstance(event, kinds.Replaced) and text is not None:
            invocation.progress.close()
            text.replace(event.text)
        elif isinstance(event, kinds.Finished):
            answer = event.answer
    invocation.progress.close()
    if answer is None:
        raise RuntimeError("the answer ended without its last event")
    if as_json:
        say_answer_json(answer)
    else:
        if text is not None:
            text.finish(answer.text)
        else:
            say(clean(answer.text))
        say_sources(answer)
    for notice in [*notices, *_closing(answer, as_json=as_json)]:
        invocation.notice(notice)
    return answer


def say_answer_json(answer: Answer) -> None:
    """Write `answer` in the form of schema 1."""
    from ..rag.citations import unsupported

    citations = [
        {
            "number": citation.number,
            "passage_id": citation.passage_id,
            "path": citation.path,
            "page": citation.page,
            "lines": list(citation.lines),
        }
        for citation in answer.citations
    ]
    quotes = [{"number": q.number, "text": q.text, "score": round(q.score, 4)} for q in answer.quotes]
    context = [
        {
            "number": item.number,
            "passage_id": item.passage_id,
            "form": item.form,
            "tokens": item.tokens,
            "slots": item.slots,
            "cached": item.cached,
        }
        for item in answer.context
    ]
    steps = ("retrieve", "compress", "first_token", "total")
    timings = {step: round(answer.timings_ms.get(step, 0.0), 1) for step in steps}
    say_json(
        {
            "schema": 1,
            "question": answer.question,
            "answer": answer.text,
            "stop_reason": answer.stop_reason,
            "citations": citations,
            "context": context,
            "timings_ms": timings,
            "session": answer.session_id,
            "quotes": quotes,
            "unsupported": unsupported(answer.text),
        }
    )


def say_sources(answer: Answer) -> None:
    """Write the sources of `answer`, each with the sentences quoted from it, unless those are the answer."""
    if not answer.citations:
        return
    say()
    say(bold("Sources"))
    for citation in answer.citations:
        heading = f"  {clean(citation.heading)}" if citation.heading else ""
        say(f"[{citation.number}] {place(citation.path, citation.lines, citation.page)}{dim(heading)}")
        for quote in answer.quotes:
            if quote.number == citation.number and answer.stop_reason != "quoted":
                say(f'    "{" ".join(clean(quote.text).split())}"')


def _closing(answer: Answer, *, as_json: bool) -> list[str]:
    """What is said below the sources."""
    if as_json:
        return []
    reasons = {
        "length": "the answer was cut at its most tokens (--max-tokens)",
        "loop": "the answer repeated itself and was cut",
        "cancelled": "cancelled; the part above is what there is",
        "error": "the answer ended with an error",
    }
    lines = [reasons[answer.stop_reason]] if answer.stop_reason in reasons else []
    if answer.session_id:
        lines.append(f"to ask on: slotrag ask --session {answer.session_id} QUESTION")
    return lines
