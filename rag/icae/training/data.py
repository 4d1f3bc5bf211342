"""From sources to a store of tokens: what is held out, what is left out, and which questions there are.

A text is held out by its own hash, so that it is the same text whatever else is trained on. Texts that share a run of
13 words with what may only be measured on are left out. It knows no model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .... import UsageError
from ....encoders.backbones.chat_template import PlainTokenizer
from ....encoders.tokens import rust_tokenizer
from ...sentences import sentences
from .made_questions import made_questions
from .sources import Asked, Source, SourceText, WordRuns
from .token_store import GIVEN, MADE, Question, TokenStore, TokenWriter

_SCHEMA = 1
_LEAST_TOKENS = 16
"""A shorter text teaches nothing of compressing."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """How sources become a store.

    Attributes
    ----------
    held_out : float
        Share of the texts that is measured and not trained on; 1 for texts that are only measured on.
    passage : int
        Most tokens of a passage that is asked about.
    questions : int
        Questions made of each passage, at most.
    seed : int
    """

    held_out: float = 0.02
    passage: int = 256
    questions: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.held_out <= 1:
            raise UsageError(f"held_out is above 0 and at most 1, not {self.held_out}.")


@dataclass(slots=True)
class Prepared:
    """A store, and what is to be told about it."""

    store: TokenStore
    notices: list[str] = field(default_factory=list)


class TextTokens:
    """Token ids of a text as a compressor gets them, and the sentences' places among them."""

    def __init__(self, tokenizer: Any) -> None:
        self._plain = PlainTokenizer(tokenizer)
        self._backend = rust_tokenizer(tokenizer)

    def ids(self, text: str) -> list[int]:
        """Ids of `text`."""
        return self._plain.plain(text)

    def with_starts(self, text: str) -> tuple[list[int], list[int]]:
        """Ids of `text`, and the places at which its sentences begin."""
        ids = self._plain.plain(text)
        encoding = self._backend.encode(text, add_special_tokens=False)
        if not ids or encoding.ids != ids:  # a role marker in it
            return ids, [0] if ids else []
        # Each reading of the property makes the list anew.
        starts, place, offsets = [0], 0, encoding.offsets
        for first, _ in sentences(text):
            while place < len(ids) and offsets[place][1] <= first:
                place += 1
            if starts[-1] < place < len(ids):
                starts.append(place)
        return ids, starts


def prepare(
    sources: Sequence[Source],
    tokenizer: Any,
    folder: Path,
    *,
    made_of: Mapping[str, Any],
    preparation: Preparation = Preparation(),
    exclude: Sequence[Path] = (),
    report: Callable[[int, str], None] = lambda texts, source: None,
) -> Prepared:
    """The store of `sources` in `folder`, made unless it is there already.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
        Of the decoder; a fast one.
    made_of : mapping
        What `made_of` gave for the same sources; another store in the folder is overwritten.
    exclude : sequence of Path
        Files and folders of texts that may not be trained on, nor anything that shares words with them.
    report : callable
        Told of the texts so far and of the source they are from; it may raise to end the work, which then begins anew.

    Raises
    ------
    slotrag.UsageError
        A source is not there or cannot be read, or nothing is left to train on.
    StoreDamaged
        The folder cannot be written.
    """
    meta = TokenStore.meta_of(folder)
    if meta is not None and meta["made_of"] == made_of:
        return Prepared(TokenStore(folder), list(meta["notices"]))
    runs = WordRuns()
    for path in exclude:
        for each in Source(path).texts():
            runs.add(each.text)
    work = _Work(TextTokens(tokenizer), preparation, runs, TokenWriter(folder), report)
    for number, source in enumerate(sources):
        work.take(number, source)
    return work.finished(dict(made_of))


class _Work:
    """One call of `prepare`."""

    def __init__(
        self,
        tokens: TextTokens,
        preparation: Preparation,
        runs: WordRuns,
        writer: TokenWriter,
        report: Callable[[int, str], None],
    ) -> None:
        self._tokens, self._preparation, self._runs, self._writer = tokens, preparation, runs, writer
        self._report = report
        self._known: dict[bytes, int] = {}
        self._skipped: list[str] = []
        self._counts: list[dict[str, int]] = []

    def take(self, number: int, source: Source) -> None:
        counts = {"texts": 0, "tokens": 0, "held_out": 0, "excluded": 0, "questions": 0}
        self._counts.append(counts)
        for each in source.texts(self._skipped):
            self._report(len(self._writer), source.name)
            digest = hashlib.sha256(each.text.encode("utf-8", "surrogateescape")).digest()
            if digest in self._known:  # rows of one passage with a question each
                ids, starts = self._tokens.with_starts(each.text)
                self._ask(self._known[digest], each, ids, starts, made=False)
                continue
            if self._runs.shared(each.text):
                counts["excluded"] += 1
                continue
            ids, starts = self._tokens.with_starts(each.text)
            if len(ids) < _LEAST_TOKENS:
                continue
            held_out = int.from_bytes(digest[:7], "big") < self._preparation.held_out * 2**56
            text = self._known[digest] = self._writer.add(ids, starts, held_out=held_out, source=number)
            counts["texts"] += 1
            counts["tokens"] += len(ids)
            counts["held_out"] += held_out
            self._ask(text, each, ids, starts, made=True)

    def _ask(self, text: int, each: SourceText, ids: list[int], starts: list[int], *, made: bool) -> None:
        counts = self._counts[-1]
        passages = list(self._passages(each.text, ids, starts))
        for asked in each.asked:
            place = _place(passages, asked)
            if place is not None:
                start, stop, _ = place
                self._writer.ask(Question(text, start, stop, asked.question, asked.answers, GIVEN))
                counts["questions"] += 1
        if not made:
            return
        for start, stop, passage in passages:
            for asked in made_questions(passage, self._preparation.questions, self._preparation.seed):
                self._writer.ask(Question(text, start, stop, asked.question, asked.answers, MADE))
                counts["questions"] += 1

    def _passages(self, text: str, ids: list[int], starts: list[int]) -> Iterator[tuple[int, int, str]]:
        """Parts of a text of whole sentences, as (first token, token after it, the part's text)."""
        spans = sentences(text)
        if len(starts) != len(spans):  # sentences within one token, or a role marker: the text as a whole or not at all
            if len(ids) <= self._preparation.passage:
                yield 0, len(ids), text
            return
        first = 0
        bounds = [*starts, len(ids)]
        while first < len(spans):
            last = first
            while last + 1 < len(spans) and bounds[last + 2] - bounds[first] <= self._preparation.passage:
                last += 1
            if bounds[last + 1] - bounds[first] <= self._preparation.passage:
                yield bounds[first], bounds[last + 1], text[spans[first][0] : spans[last][1]]
            first = last + 1

    def finished(self, made_of: dict[str, Any]) -> Prepared:
        trained = sum(counts["texts"] - counts["held_out"] for counts in self._counts)
        held_out = sum(counts["held_out"] for counts in self._counts)
        if not held_out or not (trained or self._preparation.held_out == 1):
            raise UsageError(
                f"There are {trained} texts to train on and {held_out} to measure on, of {_LEAST_TOKENS} tokens at "
                "least; give more data, or another --held-out."
            )
        notices = []
        if self._skipped:
            notices.append(f"{len(self._skipped)} files have no text to train on, such as {self._skipped[0]}")
        excluded = sum(counts["excluded"] for counts in self._counts)
        if excluded:
            notices.append(f"{excluded} texts are left out, since they share words with what is only measured on")
        store = self._writer.close({"made_of": made_of, "counts": self._counts, "notices": notices})
        return Prepared(store, notices)


def _place(passages: list[tuple[int, int, str]], asked: Asked) -> tuple[int, int, str] | None:
    """The passage that holds the answer; the only one where none does."""
    found = next((passage for passage in passages if asked.answers[0].lower() in passage[2].lower()), None)
    return found or (passages[0] if len(passages) == 1 else None)


def made_before(folder: Path, models: Mapping[str, str]) -> dict[str, Any]:
    """What the store in `folder` was made of, for training on it without its sources.

    Raises
    ------
    slotrag.UsageError
        There is none, or it is of another model.
    """
    meta = TokenStore.meta_of(folder)
    if meta is None:
        raise UsageError(f"There are no prepared data in {folder}; name what they are to be made of with --data.")
    if meta["made_of"]["models"] != dict(models):
        raise UsageError(f"The data in {folder} were prepared for another model; prepare them anew with --data.")
    return dict(meta["made_of"])


def made_of(
    sources: Sequence[Source], exclude: Sequence[Path], models: Mapping[str, str], preparation: Preparation
) -> dict[str, Any]:
    """All that a store's content depends on, as JSON values.

    Parameters
    ----------
    models : mapping of str to str
        sha256 of the decoder's weights and tokenizer.

    Raises
    ------
    slotrag.UsageError
        A source is not there.
    """
    excluded = [Source(path) for path in exclude]
    return {
        "schema": _SCHEMA,
        "models": dict(models),
        "data": [{"name": each.name, "sha256": each.sha256(), "licence": each.licence} for each in sources],
        "excluded": [{"name": each.name, "sha256": each.sha256()} for each in excluded],
        "held_out": preparation.held_out,
        "passage": preparation.passage,
        "questions": preparation.questions,
        "seed": preparation.seed,
    }
