"""Questions that a language model writes for a collection's passages, kept where a search finds their passage again.

Filtering generated questions by retrieval: Dai et al., "Promptagator", ICLR 2023, section 3.2. It trains nothing.

What is written is kept in the library like every other variant of a passage: a run that was broken off goes on where it
was, and a removed document takes its questions with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...encoders.backbones import catalogue
from ...encoders.transformations import Transformation, prompt_version
from ...encoders.variants import MemoryVariants, Step, VariantStore, Watch, variant_key, watching
from ..diversity import words_of
from ..encoder_shelf import CatalogVariants
from ..language_share import main_language
from ..passages import input_hash
from ..query import Request
from ..retrieval import Retriever
from ..sentences import one_line, sentences, without_markers
from ..words import content_tokens
from .pairs import OwnPair, OwnPassage, holds

if TYPE_CHECKING:
    from ...encoders.backbones.frozen import FrozenLM
    from ...encoders.backbones.store import ModelStore
    from ...encoders.variant_prompts import Manner, Task
    from ...storage.records import CollectionRecord
    from ..index_run import Parts

FOUND_AMONG = 10
"""Passages of a hybrid search among which a question's own must be."""

QUESTION = Transformation(
    "question",
    "Write a question that somebody would search for and that the text answers.",
    "Question",
    (
        (
            "The ferry to the island leaves at 7:40 from pier 3. In winter it does not run on Sundays.",
            "does the ferry to the island run on sundays in winter?",
        ),
        (
            "Basalt forms when lava cools quickly at the surface, so its crystals stay too small to be seen.",
            "Why can the crystals in basalt not be seen?",
        ),
        (
            "To reset the meter, hold the left key for five seconds until the display shows zero. Stored readings are "
            "kept.",
            "how to reset the meter without losing stored readings",
        ),
        (
            "In 1912 the two societies merged under the name Harbour Choir. Its first conductor was Ada Berg.",
            "Who was the first conductor of the Harbour Choir?",
        ),
        (
            "Drag on the blunt body rose with the Mach number up to 1.2 and was nearly constant above it.",
            "How does the drag of a blunt body depend on the Mach number?",
        ),
    ),
)
"""What the model is asked for; the demonstrations are slotrag's own."""

_TEMPERATURE = 0.5
_EXCERPT = 600
"""Most characters of a passage that the model reads: reading takes most of the time."""

_QUESTION_TOKENS = 40
_WORDS = range(3, 31)
_TELLING = 2
"""Least different index tokens of a question that not every question has."""


@dataclass
class Written:
    """What came of writing questions.

    Attributes
    ----------
    pairs : list of OwnPair
        The questions kept.
    written, dropped : int
        Questions that there are, and those of them that are not kept: no question, repeated, or not found again.
    """

    pairs: list[OwnPair] = field(default_factory=list)
    written: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    def drop(self, reason: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1


class OutOfTime(Exception):
    """The time for writing is over; what was written is kept."""


def write_questions(
    parts: Parts,
    collection: CollectionRecord,
    passages: Mapping[int, OwnPassage],
    models: ModelStore,
    decoder: str,
    *,
    until: float,
    most: int,
    seed: int = 0,
    report: Callable[[int, int, str], None] = lambda done, total, message: None,
    check: Callable[[], None] = lambda: None,
) -> Written:
    """A question for each of `most` passages, as far as there is time.

    Parameters
    ----------
    passages : mapping
        Those of `OwnPairs.passages`.
    decoder : str
        The causal language model that writes: a name, hub id or folder.
    until : float
        When to stop, by `time.monotonic`.
    report : callable
        Told (questions done, all of them, what is done).
    check : callable
        Raises where the run is cancelled.

    Raises
    ------
    slotrag.SlotragError
        The decoder is missing or cannot write, or the collection's encoder is not what it was.
    """
    from ...encoders.backbones.frozen import FrozenLM
    from ...encoders.variant_prompts import Task
    from ...encoders.variant_writer import VariantWriter

    excerpts = _excerpts(parts, passages, most, seed)
    tasks = {
        number: Task(input_hash(passages[number].input), text, QUESTION, 0, _QUESTION_TOKENS)
        for number, text in excerpts.items()
    }
    manner = _manner(models.weights_sha256(decoder), models.tokenizer_sha256(decoder), seed)
    store: VariantStore = MemoryVariants() if parts.catalog.read_only else CatalogVariants(parts.catalog)

    def load() -> FrozenLM:
        return FrozenLM.load(models.resolve(decoder), causal=True, device=parts.settings.device)

    def in_time() -> None:
        check()
        if time.monotonic() > until:
            raise OutOfTime

    def stepped(step: Step) -> None:
        report(step.done, step.total, "questions")

    with watching(Watch(stepped, in_time)), suppress(OutOfTime):
        VariantWriter(load, manner).write(list(tasks.values()), store, each=1)
    found = _kept(tasks, manner, store)
    return _filtered(parts, collection, passages, found, report, check)


def why_none(parts: Parts, collection: CollectionRecord, models: ModelStore, decoder: str) -> str:
    """Why no questions can be written, as half a sentence; empty where they can. It fetches nothing."""
    if not models.present(decoder):
        return f"the decoder {decoder} is not on this machine (`slotrag models pull {decoder}`)"
    entry, language = catalogue.find(decoder), main_language(parts.catalog, collection)
    if entry is not None and language and not entry.knows(language):
        return f"the decoder {decoder} does not write the documents' language ({language})"
    return ""


def _manner(weights: str, tokenizer: str, seed: int) -> Manner:
    from ...encoders.variant_prompts import Manner

    return Manner(
        generator=f"{weights} {tokenizer}",
        prompt=prompt_version((QUESTION,), "plain"),
        temperature=_TEMPERATURE,
        seed=seed,
    )


def _excerpts(parts: Parts, passages: Mapping[int, OwnPassage], most: int, seed: int) -> dict[int, str]:
    """What the model reads of each passage that it writes for, drawn evenly from all of them."""
    order = sorted(passages, key=lambda number: _draw(seed, passages[number]))
    found: dict[int, str] = {}
    seen: set[bytes] = set()
    for number in order:
        if len(found) == most:
            break
        record = next(iter(parts.catalog.passages([number])), None)
        if record is None or record.text_hash in seen:
            continue
        text = excerpt(record.text)
        if len(content_tokens(text)) > _TELLING:
            seen.add(record.text_hash)
            found[number] = text
    return found


def _draw(seed: int, passage: OwnPassage) -> bytes:
    return input_hash(f"{seed} {passage.text_hash.hex()}")


def excerpt(text: str) -> str:
    """The first sentences of a passage, on one line, as far as a writer of questions reads; at least a part of one.

    Examples
    --------
    >>> excerpt("# Fees\\n\\nEntry is free.  Guests pay.")
    'Fees Entry is free. Guests pay.'
    """
    bare = without_markers(text)
    line = ""
    for start, end in sentences(bare):
        sentence = " ".join(one_line(bare[start:end]).split())
        if line and len(line) + len(sentence) > _EXCERPT:
            break
        line = f"{line} {sentence}".strip()
    return line[:_EXCERPT]


def _kept(tasks: Mapping[int, Task], manner: Manner, store: VariantStore) -> dict[int, tuple[str, str]]:
    """What is written by now, as (question, problem) by passage."""
    keys = {
        number: variant_key(
            task.text, generator=manner.generator, prompt=manner.prompt, temperature=manner.temperature,
            top_p=manner.top_p, seed=manner.seed, transformation=task.transformation.name, number=task.number,
        )
        for number, task in tasks.items()
    }  # fmt: skip
    there = store.get(list(keys.values()))
    return {number: (there[key][0], there[key][1]) for number, key in keys.items() if key in there}


def _filtered(
    parts: Parts,
    collection: CollectionRecord,
    passages: Mapping[int, OwnPassage],
    written: Mapping[int, tuple[str, str]],
    report: Callable[[int, int, str], None],
    check: Callable[[], None],
) -> Written:
    """The questions that ask something and find their passage."""
    retriever = Retriever(parts.catalog, parts.keeper, parts.encoder)
    outcome, seen = Written(written=len(written)), set[str]()
    # In an order that does not depend on the passages' numbers.
    ordered = sorted(written.items(), key=lambda item: passages[item[0]].text_hash)
    for done, (number, (question, problem)) in enumerate(ordered):
        check()
        passage = passages[number]
        reason = problem or question_problem(question, passage.input) or ("repeated" if question in seen else "")
        if not reason and not _finds(retriever, collection, question, number, passage):
            reason = "not found again"
        report(done + 1, len(written), "questions checked")
        if reason:
            outcome.drop(reason)
            continue
        seen.add(question)
        outcome.pairs.append(OwnPair("question", question, passage.input, number, passage.group, passage.text_hash))
    return outcome


def question_problem(question: str, passage: str) -> str:
    """Why a written line cannot stand for what somebody would search for; empty where it can.

    Examples
    --------
    >>> question_problem("What is the text about?", "Entry is free on Mondays.")
    'asks nothing'
    >>> question_problem("Entry is free", "Entry is free on Mondays.")
    'copied'
    >>> question_problem("When is the entry free?", "Entry is free on Mondays.")
    ''
    """
    words = words_of(question)
    if len(words) not in _WORDS or len(set(content_tokens(question))) < _TELLING:
        return "asks nothing"
    if holds(passage, question):
        return "copied"
    return ""


def _finds(retriever: Retriever, collection: CollectionRecord, question: str, number: int, passage: OwnPassage) -> bool:
    request = Request(query=question, k=FOUND_AMONG, mode="hybrid", judge=False)
    hits = retriever.retrieve(request, [collection]).hits
    return any(hit.passage_id == number or input_hash(hit.text) == passage.text_hash for hit in hits)
