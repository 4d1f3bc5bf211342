"""Pairs of a query and the passage that answers it, made from a collection, and their split by document.

It knows neither how a pair is made (`documents`, `questions`) nor what is trained on it.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..diversity import words_of

if TYPE_CHECKING:
    from ...encoders.training.examples import Queries

KINDS = ("heading", "sentence", "neighbour", "question")
"""``heading``: title and headings to the text below them. ``sentence``: a sentence to its passage without it.
``neighbour``: the last sentence of a passage to the next passage. ``question``: written by a language model."""

JUDGED = ("heading", "sentence", "question")
"""Kinds that encoders are compared on: for a neighbour nobody would search."""


@dataclass(frozen=True, slots=True)
class OwnPair:
    """A query and the passage that answers it.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    positive : str
        What the encoder gets for the passage, without what would give the query away.
    passage_id : int
        The passage that `positive` stands for.
    group : str
        Hash of the passage's document; equal documents have an equal one.
    text_hash : bytes
        sha256 of the passage's text.
    """

    kind: str
    query: str
    positive: str
    passage_id: int
    group: str
    text_hash: bytes


@dataclass(frozen=True, slots=True)
class OwnPassage:
    """A passage of the collection: what the encoder gets for it, its document and its hash as in `OwnPair`."""

    input: str
    group: str
    text_hash: bytes


@dataclass(frozen=True)
class OwnPairs:
    """Pairs of one collection.

    Attributes
    ----------
    passages : dict of int to OwnPassage
        All passages that were looked at, by their ids; those of equal documents once.
    """

    pairs: list[OwnPair]
    passages: Mapping[int, OwnPassage] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def shares(self) -> dict[str, int]:
        """Number of pairs of each kind that there is."""
        found = Counter(pair.kind for pair in self.pairs)
        return {kind: found[kind] for kind in KINDS if found[kind]}

    @property
    def groups(self) -> list[str]:
        """The documents with pairs, in an order that depends on nothing but their texts."""
        return sorted({pair.group for pair in self.pairs})

    @property
    def sha256(self) -> str:
        """Over all queries and positives, in their order."""
        lines = [json.dumps([pair.kind, pair.query, pair.positive]) for pair in self.pairs]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def with_pairs(self, pairs: Sequence[OwnPair]) -> OwnPairs:
        """The same passages with other pairs."""
        return replace(self, pairs=list(pairs))

    def split(self, held_out: float, seed: int) -> tuple[OwnPairs, OwnPairs]:
        """Pairs to train on and pairs held out, no document on both sides.

        A pair whose passage or query also occurs in a document to train on, word for word, is left out of those held
        out.

        Parameters
        ----------
        held_out : float
            Share of the pairs, reached by whole documents; at least one document stays on each side where there are
            two.
        """
        by_group: dict[str, list[OwnPair]] = defaultdict(list)
        for pair in self.pairs:
            by_group[pair.group].append(pair)
        order = self.groups
        random.Random(seed).shuffle(order)
        wanted, chosen, count = held_out * len(self.pairs), set[str](), 0
        for group in order[:-1]:
            # A document that alone holds most of the pairs is to be trained on.
            if count < wanted and count + len(by_group[group]) <= max(2 * wanted, 1):
                chosen.add(group)
                count += len(by_group[group])
        training = [pair for pair in self.pairs if pair.group not in chosen]
        known = {passage.text_hash for passage in self.passages.values() if passage.group not in chosen}
        held = _unseen([pair for pair in self.pairs if pair.group in chosen], training, known)
        return self.with_pairs(training), self.with_pairs(held)

    def judged(self) -> OwnPairs:
        """Those that encoders are compared on."""
        return self.with_pairs([pair for pair in self.pairs if pair.kind in JUDGED])

    def shuffled(self, seed: int) -> OwnPairs:
        """The same pairs in an order that takes a bit of every kind and document at any beginning."""
        pairs = list(self.pairs)
        random.Random(seed).shuffle(pairs)
        return self.with_pairs(pairs)

    def examples(self, name: str, negatives: Sequence[str | None] | None = None) -> Queries:
        """The pairs as examples to train on."""
        from ...encoders.training.examples import Queries

        return Queries(
            queries=[pair.query for pair in self.pairs],
            positives=[pair.positive for pair in self.pairs],
            negatives=None if negatives is None else list(negatives),
            name=name,
            sha256=self.sha256,
            licence="the user's own documents",
        )


def _unseen(held: Sequence[OwnPair], training: Sequence[OwnPair], texts: set[bytes]) -> list[OwnPair]:
    queries = {normal_form(pair.query) for pair in training}
    return [pair for pair in held if pair.text_hash not in texts and normal_form(pair.query) not in queries]


def normal_form(query: str) -> str:
    """What two queries have in common that differ in case and white space only."""
    return " ".join(query.casefold().split())


def holds(text: str, query: str) -> bool:
    """Whether `text` holds all of `query`, whatever the case, spacing and punctuation.

    Examples
    --------
    >>> holds("It was\\nserviced, in May.", "Serviced in May?"), holds("in Mayfair", "in May")
    (True, False)
    """
    return f" {' '.join(words_of(query))} " in f" {' '.join(words_of(text))} "
