"""Questions for a library's passages: which are kept, and that a run that was broken off writes none again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from slotrag.encoders.variants import variant_key
from slotrag.rag.events import Cancelled
from slotrag.rag.library import Library
from slotrag.rag.training import questions
from slotrag.rag.training.documents import own_pairs
from slotrag.rag.training.questions import QUESTION, question_problem, why_none, write_questions


def write(library: Library, generator: Path, most: int = 6, seconds: float = 120.0, **options) -> questions.Written:
    parts, record = library._shared(), library._catalog.collection(None)
    passages = own_pairs(library._catalog, record).passages
    until = time.monotonic() + seconds
    return write_questions(
        parts, record, passages, library.models, str(generator), until=until, most=most, **options
    )  # fmt: skip


def test_what_was_written_is_not_written_again(
    own_library: Library, generator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int, str]] = []
    first = write(own_library, generator, report=lambda *event: told.append(event))
    assert first.written == 6 == len(first.pairs) + sum(first.dropped.values())
    assert (6, 6, "questions") in told and (6, 6, "questions checked") in told

    def unavailable(*arguments, **options) -> None:
        raise AssertionError("the model is not needed")

    monkeypatch.setattr("slotrag.encoders.backbones.frozen.FrozenLM.load", unavailable)
    again = write(own_library, generator)
    assert (again.written, again.pairs, again.dropped) == (first.written, first.pairs, first.dropped)


def test_without_time_nothing_is_written(own_library: Library, generator: Path) -> None:
    found = write(own_library, generator, seconds=-1.0, seed=5)
    assert (found.written, found.pairs) == (0, [])


def test_it_can_be_cancelled(own_library: Library, generator: Path) -> None:
    def cancelled() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        write(own_library, generator, seed=6, check=cancelled)


def test_a_question_is_kept_where_it_finds_its_passage(own_library: Library, generator: Path) -> None:
    """The model's lines are put into the library's store beforehand; excerpts, keys and searches are the real ones."""
    parts, record = own_library._shared(), own_library._catalog.collection(None)
    passages = own_pairs(own_library._catalog, record).passages
    weights, tokenizer = (
        getattr(own_library.models, f"{what}_sha256")(str(generator)) for what in ("weights", "tokenizer")
    )
    manner = questions._manner(weights, tokenizer, 7)
    excerpts = questions._excerpts(parts, passages, 3, 7)
    records = {number: own_library._catalog.passages([number])[0] for number in excerpts}
    lines = {
        number: f"what about {records[number].title}?"
        if place == 0
        else ("is it?" if place == 1 else "zebra qux zorp?")
        for place, number in enumerate(excerpts)
    }
    keys = {
        number: variant_key(
            text, generator=manner.generator, prompt=manner.prompt, temperature=manner.temperature, top_p=manner.top_p,
            seed=7, transformation=QUESTION.name, number=0,
        )
        for number, text in excerpts.items()
    }  # fmt: skip
    owners = {keys[number]: records[number].input_hash for number in excerpts}
    own_library._catalog.put_variants({keys[number]: [lines[number], ""] for number in excerpts}, owners)
    found = write(own_library, generator, most=3, seconds=-1.0, seed=7)
    first = next(iter(excerpts))
    kept = {pair.passage_id: pair for pair in found.pairs}
    assert first in kept and kept[first].kind == "question" and kept[first].positive == passages[first].input
    assert found.dropped["asks nothing"] == 1 and found.written == 3


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        ("When is the entry free?", ""),
        ("what does it say?", "asks nothing"),
        ("Entry is free on Mondays", "copied"),
        ("entry", "asks nothing"),
        ("free " * 40, "asks nothing"),
    ],
)
def test_what_stands_for_a_question(question: str, problem: str) -> None:
    assert question_problem(question, "The Fees\nEntry is free on Mondays, except in May.") == problem


def test_why_there_are_none(own_library: Library, generator: Path) -> None:
    parts, record = own_library._shared(), own_library._catalog.collection(None)
    assert why_none(parts, record, own_library.models, str(generator)) == ""
    assert "models pull smollm2-135m" in why_none(parts, record, own_library.models, "smollm2-135m")
