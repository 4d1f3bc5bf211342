"""Hits and events for tests of answering."""

from __future__ import annotations

from slotrag.rag.events import Finished, Notice, Planned, Replaced, TextDelta
from slotrag.rag.results import Answer, Hit


def hit(number: int, text: str, *, heading: str = "") -> Hit:
    """A relevant hit of rank `number` with passage id 100 + `number`."""
    return Hit(
        rank=number,
        score=1.0 / number,
        score_kind="rrf",
        dense=0.5,
        lexical=None,
        passage_id=100 + number,
        collection="default",
        path=f"{number}.txt",
        absolute_path=f"/docs/{number}.txt",
        copies=[],
        page=None,
        lines=(1, 2),
        chars=(0, len(text)),
        heading=heading,
        text=text,
    )


def check_stream(events: list) -> Answer:
    """The answer of a stream of events, after checking their order and that the text adds up."""
    order = {Notice: 0, Planned: 1, TextDelta: 2, Replaced: 3, Finished: 4}
    ranks = [order[type(event)] for event in events]
    assert ranks == sorted(ranks)
    assert ranks.count(4) == 1 and ranks.count(1) <= 1 and ranks.count(3) <= 1
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    text = next((event.text for event in events if isinstance(event, Replaced)), text)
    answer = events[-1].answer
    assert text == answer.text
    assert [event.text for event in events if isinstance(event, Notice)] == answer.notices
    numbers = [citation.number for citation in answer.citations]
    assert len(numbers) == len(set(numbers))
    assert {quote.number for quote in answer.quotes} <= set(numbers)
    return answer
