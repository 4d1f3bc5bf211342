"""What a head is trained on: labelled texts, scored pairs, queries with their passages; and parting some of it off.

It knows no file, no library and no model.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Any, TypeVar

from ... import UsageError


class TooFewExamples(UsageError):
    """There are not enough examples to train on some and hold others out."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts with a label each.

    Attributes
    ----------
    texts, labels : list of str
    name, licence : str
        Of the data set, for the head's record.
    sha256 : str
        Of the data set's file; where none is given, of the examples themselves.
    """

    texts: list[str]
    labels: list[str]
    name: str = "labelled texts"
    sha256: str = ""
    licence: str = ""

    def __post_init__(self) -> None:
        _require_equal(self.texts, self.labels)
        _fill_in_sha256(self, self.content_sha256)

    def __len__(self) -> int:
        return len(self.texts)

    def content_sha256(self) -> str:
        """sha256 of the examples in their order, 64 hex digits."""
        return _sha256("labelled", self.texts, self.labels)

    def split(self, held_out: float, seed: int) -> tuple[Labelled, Labelled]:
        """Training part and held-out part; no text is on both sides, and each label gives its share as far as it can.

        Parameters
        ----------
        held_out : float
            Share of the examples, above 0 and below 1.

        Raises
        ------
        TooFewExamples
            One of the parts would be empty.
        """
        _require_share(held_out)
        places = _grouped(self.texts)
        by_label: dict[str, list[str]] = defaultdict(list)
        for text in sorted(places, key=lambda text: _draw(seed, text)):
            by_label[self.labels[places[text][0]]].append(text)
        held: set[int] = set()
        # The rounding of one label is carried over to the next, so that many small labels give their share together.
        carried = 0.5
        for label in sorted(by_label, key=lambda label: _draw(seed, label)):
            texts = by_label[label]
            carried += held_out * len(texts)
            # A label that is never trained on could only be guessed.
            count = min(floor(carried), len(texts) - 1)
            carried -= count
            held.update(place for text in texts[:count] for place in places[text])
        train, rest = _sides(len(self), held)
        return self.chosen(train), self.chosen(rest)

    def chosen(self, rows: Sequence[int]) -> Labelled:
        """The examples at `rows`, with name and sha256 of the whole."""
        return replace(self, texts=_at(self.texts, rows), labels=_at(self.labels, rows))


@dataclass(frozen=True, slots=True)
class ScoredPairs:
    """Pairs of texts with a score each of how alike they are, by whatever scale; higher is more alike.

    Attributes
    ----------
    first, second : list of str
    scores : list of float
    name, sha256, licence : str
        As for `Labelled`.
    """

    first: list[str]
    second: list[str]
    scores: list[float]
    name: str = "scored pairs"
    sha256: str = ""
    licence: str = ""

    def __post_init__(self) -> None:
        _require_equal(self.first, self.second, self.scores)
        _fill_in_sha256(self, self.content_sha256)

    def __len__(self) -> int:
        return len(self.scores)

    def content_sha256(self) -> str:
        """sha256 of the examples in their order, 64 hex digits."""
        return _sha256("pairs", self.first, self.second, [float(score) for score in self.scores])

    def split(self, held_out: float, seed: int) -> tuple[ScoredPairs, ScoredPairs]:
        """Training part and held-out part, which share no text.

        Where pairs hang together by common texts so much that they cannot be parted, those in between are in neither
        part.

        Raises
        ------
        TooFewExamples
            One of the parts would be empty.
        """
        _require_share(held_out)
        pairs = [tuple(sorted(pair)) for pair in zip(self.first, self.second, strict=True)]
        held = _held_out(pairs, pairs, held_out, seed)
        texts = {text for row in held for text in pairs[row]}
        train = [row for row in range(len(self)) if not texts.intersection(pairs[row])]
        rest = sorted(held)
        _require_parts(train, rest)
        return self.chosen(train), self.chosen(rest)

    def chosen(self, rows: Sequence[int]) -> ScoredPairs:
        """The examples at `rows`, with name and sha256 of the whole."""
        return replace(self, first=_at(self.first, rows), second=_at(self.second, rows), scores=_at(self.scores, rows))


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries, each with a passage that answers it and perhaps one that does not.

    A query with several passages is there several times; equal texts are the same query.

    Attributes
    ----------
    queries, positives : list of str
    negatives : list of (str or None), optional
        A passage for each query that is near and yet wrong.
    name, sha256, licence : str
        As for `Labelled`.
    """

    queries: list[str]
    positives: list[str]
    negatives: list[str | None] | None = None
    name: str = "queries"
    sha256: str = ""
    licence: str = ""

    def __post_init__(self) -> None:
        _require_equal(self.queries, self.positives, self.positives if self.negatives is None else self.negatives)
        _fill_in_sha256(self, self.content_sha256)

    def __len__(self) -> int:
        return len(self.queries)

    def content_sha256(self) -> str:
        """sha256 of the examples in their order, 64 hex digits."""
        return _sha256("queries", self.queries, self.positives, self.negatives)

    def passages(self) -> list[str]:
        """Every passage once, positives first, in the order of the examples."""
        negatives = [text for text in self.negatives or () if text is not None]
        return list(dict.fromkeys([*self.positives, *negatives]))

    def relevant(self) -> dict[str, set[str]]:
        """The passages that answer each query."""
        found: dict[str, set[str]] = defaultdict(set)
        for query, positive in zip(self.queries, self.positives, strict=True):
            found[query].add(positive)
        return dict(found)

    def split(self, held_out: float, seed: int) -> tuple[Queries, Queries]:
        """Training part and held-out part, which share no query and no positive passage.

        A training query's wrong passage that is a held-out query's right one is left out. Where queries and passages
        hang together so much that they cannot be parted, the examples in between are in neither part.

        Raises
        ------
        TooFewExamples
            One of the parts would be empty.
        """
        _require_share(held_out)
        links = [
            (("query", query), ("passage", text)) for query, text in zip(self.queries, self.positives, strict=True)
        ]
        held = _held_out(links, self.queries, held_out, seed)
        rows = sorted(held)
        positives = {self.positives[row] for row in rows}
        train = [row for row in range(len(self)) if row not in held and self.positives[row] not in positives]
        _require_parts(train, rows)
        kept = self.chosen(train)
        if kept.negatives is not None:
            kept = replace(kept, negatives=[None if text in positives else text for text in kept.negatives])
        return kept, self.chosen(rows)

    def chosen(self, rows: Sequence[int]) -> Queries:
        """The examples at `rows`, with name and sha256 of the whole."""
        negatives = None if self.negatives is None else _at(self.negatives, rows)
        return replace(self, queries=_at(self.queries, rows), positives=_at(self.positives, rows), negatives=negatives)


Examples = Labelled | ScoredPairs | Queries

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def _at(values: Sequence[Value], rows: Iterable[int]) -> list[Value]:
    return [values[row] for row in rows]


def _require_equal(*columns: Sequence[Any]) -> None:
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"the columns are of different lengths: {', '.join(str(len(column)) for column in columns)}")


def _require_share(held_out: float) -> None:
    if not 0 < held_out < 1:
        raise UsageError(f"The share held out is above 0 and below 1, not {held_out}.")


def _fill_in_sha256(examples: Any, content: Callable[[], str]) -> None:
    if not examples.sha256:
        object.__setattr__(examples, "sha256", content())


def _sha256(kind: str, *columns: Sequence[Any] | None) -> str:
    digest = hashlib.sha256(kind.encode())
    for column in columns:
        digest.update(b"\n")
        for value in column if column is not None else ():
            digest.update(json.dumps(value).encode() + b"\n")
    return digest.hexdigest()


def _draw(seed: int, key: object) -> bytes:
    """A place in an order that looks random, the same on every machine and wherever the key stands in its list."""
    return hashlib.sha256(json.dumps([seed, key]).encode()).digest()


def _grouped(keys: Sequence[Key]) -> dict[Key, list[int]]:
    places: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return places


def _held_out(links: Sequence[Iterable[Hashable]], names: Sequence[Hashable], share: float, seed: int) -> set[int]:
    """Rows that hang together, whole; where that gives less than half of the share, rows of one name, whole.

    In the second case others share a link with them, and are to be left out.
    """
    wanted = max(round(share * len(names)), 1)
    held = _taken(_connected(links, names), wanted, seed)
    return held if len(held) * 2 >= wanted else _taken(_grouped(names), wanted, seed)


def _connected(links: Sequence[Iterable[Hashable]], names: Sequence[Key]) -> dict[Key, list[int]]:
    """Rows that hang together by a common link, under the name of the first row of each group."""
    parent = list(range(len(links)))

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    first: dict[Hashable, int] = {}
    for row, own in enumerate(links):
        for link in own:
            one, other = root(first.setdefault(link, row)), root(row)
            parent[max(one, other)] = min(one, other)
    found: dict[Key, list[int]] = {}
    for row in range(len(links)):
        found.setdefault(names[root(row)], []).append(row)
    return found


def _taken(groups: dict[Any, list[int]], wanted: int, seed: int) -> set[int]:
    """Rows of whole groups drawn by `seed`, `wanted` at most; a group that does not fit any more is passed over."""
    held: set[int] = set()
    for key in sorted(groups, key=lambda key: _draw(seed, key)):
        if len(held) + len(groups[key]) <= wanted:
            held.update(groups[key])
    return held


def _sides(count: int, held: set[int]) -> tuple[list[int], list[int]]:
    train, rest = [row for row in range(count) if row not in held], sorted(held)
    _require_parts(train, rest)
    return train, rest


def _require_parts(train: Sequence[int], held_out: Sequence[int]) -> None:
    if not train or not held_out:
        raise TooFewExamples(
            f"There are too few different examples to hold some out ({len(train)} to train on, {len(held_out)} to hold "
            "out): give more of them, or a larger share to hold out."
        )
