"""How much better one encoder is than another on held-out examples, with its 95 % interval. It trains nothing.

Texts are compared as a search compares them: queries with passages, by the cosine of their vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...encoders.estimates import Estimate, bootstrap
from ...encoders.training import measures
from ...encoders.training.examples import Examples, Labelled, Queries, ScoredPairs

if TYPE_CHECKING:
    from .pairs import OwnPair

Encode = Callable[[Sequence[str]], np.ndarray]
Report = Callable[[int, int], None]

_NINETY_FIVE = 1.96


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measure on held-out items, before and after.

    Attributes
    ----------
    name : str
        Of the data, or the kind of pairs.
    measure : str
        ``ndcg@10``, ``spearman`` or ``accuracy``.
    items : int
        Held-out examples.
    before, after, gain : Estimate
        Of the encoder that is compared with, of the new one, and the difference, item by item where that is known.
    """

    name: str
    measure: str
    items: int
    before: Estimate
    after: Estimate
    gain: Estimate


@dataclass(frozen=True, slots=True)
class Vectors:
    """An encoder's two sides."""

    queries: Encode
    passages: Encode


@dataclass(frozen=True)
class Arena:
    """Held-out pairs of a collection and the passages among which each query looks for its own.

    Attributes
    ----------
    pairs : list of OwnPair
    pool : dict of int to str
        What the encoder gets for each passage, by its id; every pair's passage is in it.
    """

    pairs: Sequence[OwnPair]
    pool: Mapping[int, str]

    def ndcg(self, encoder: Vectors, stored: np.ndarray | None = None) -> np.ndarray:
        """nDCG@10 of each pair, float64: 1 / log2(1 + rank), 0 beyond the tenth.

        A passage is looked for as the pair has it, without what gives the query away; it stands in the pool once.

        Parameters
        ----------
        stored : float32, shape (passages, dimension), optional
            The pool's vectors where they are there already, in its order.
        """
        pool = encoder.passages(list(self.pool.values())) if stored is None else stored
        queries = encoder.queries([pair.query for pair in self.pairs])
        own = (queries * encoder.passages([pair.positive for pair in self.pairs])).sum(axis=1)
        places = {number: place for place, number in enumerate(self.pool)}
        scores = queries @ pool.T
        scores[np.arange(len(self.pairs)), [places[pair.passage_id] for pair in self.pairs]] = -np.inf
        # Equal scores count against it: what cannot tell its passage from another has not found it.
        ranks = 1 + (scores >= own[:, None]).sum(axis=1)
        return np.where(ranks <= measures.DEPTH, 1.0 / np.log2(1.0 + ranks), 0.0)

    def comparisons(self, before: np.ndarray, after: np.ndarray, report: Report) -> list[Comparison]:
        """Of all pairs, then of each kind; the interval is over documents, whose pairs are much alike."""
        kinds = list(dict.fromkeys(pair.kind for pair in self.pairs))
        found = [self._comparison("all", list(range(len(self.pairs))), before, after, report)]
        for kind in kinds if len(kinds) > 1 else []:
            rows = [row for row, pair in enumerate(self.pairs) if pair.kind == kind]
            found.append(self._comparison(kind, rows, before, after, report))
        return found

    def _comparison(
        self, name: str, rows: list[int], before: np.ndarray, after: np.ndarray, report: Report
    ) -> Comparison:
        groups: dict[str, list[int]] = {}
        for row in rows:
            groups.setdefault(self.pairs[row].group, []).append(row)
        members = [np.array(group) for group in groups.values()]

        def over_documents(values: np.ndarray) -> Estimate:
            sums = np.array([values[rows].sum() for rows in members])
            counts = np.array([len(rows) for rows in members])
            return bootstrap(lambda drawn: float(sums[drawn].sum() / counts[drawn].sum()), len(members), report=report)

        return Comparison(
            name, "ndcg@10", len(rows), over_documents(before), over_documents(after), over_documents(after - before)
        )


def compared(
    train: Examples,
    held_out: Examples,
    before: Vectors,
    after: Vectors,
    *,
    accuracies: tuple[float, float],
    candidates: int,
    report: Report = lambda done, total: None,
) -> Comparison:
    """Two encoders on the held-out part of a labelled set.

    Parameters
    ----------
    accuracies : (float, float)
        For labels: what classifiers over the vectors of the one and the other reached. Their interval is that of two
        independent shares, which is wider than one over the same texts would be.
    candidates : int
        Passages that queries are asked among, at most (the held-out ones in any case).
    """
    if isinstance(held_out, Labelled):
        return _of_labels(held_out, *accuracies)
    if isinstance(held_out, ScoredPairs):
        gold = np.asarray(held_out.scores)
        values = [_cosines(held_out, vectors) for vectors in (before, after)]

        def spearman(place: int, rows: np.ndarray) -> float:
            return measures.spearman(values[place][rows], gold[rows])

        return _estimated(held_out, "spearman", spearman, report)
    assert isinstance(train, Queries)
    found = [_ranked(train, held_out, vectors, candidates) for vectors in (before, after)]
    asked = replace(held_out, queries=list(held_out.relevant()), positives=list(held_out.relevant()), negatives=None)
    return _estimated(asked, "ndcg@10", lambda place, rows: float(found[place][rows].mean()), report)


def _estimated(
    held_out: Examples, measure: str, score: Callable[[int, np.ndarray], float], report: Report
) -> Comparison:
    """The three estimates of `score` of (0 before, 1 after) over rows."""
    items = len(held_out)
    return Comparison(
        held_out.name,
        measure,
        items,
        bootstrap(lambda rows: score(0, rows), items, report=report),
        bootstrap(lambda rows: score(1, rows), items, report=report),
        bootstrap(lambda rows: score(1, rows) - score(0, rows), items, report=report),
    )


def _of_labels(held_out: Labelled, before: float, after: float) -> Comparison:
    items = len(held_out)
    spread = [share * (1 - share) / items for share in (before, after)]

    def around(value: float, variance: float) -> Estimate:
        half = _NINETY_FIVE * math.sqrt(variance)
        return Estimate(value, value - half, value + half)

    return Comparison(
        held_out.name, "accuracy", items,
        around(before, spread[0]), around(after, spread[1]), around(after - before, sum(spread)),
    )  # fmt: skip


def _cosines(pairs: ScoredPairs, vectors: Vectors) -> np.ndarray:
    both = vectors.passages([*pairs.first, *pairs.second])
    return (both[: len(pairs)] * both[len(pairs) :]).sum(axis=1)


def _ranked(train: Queries, held_out: Queries, vectors: Vectors, candidates: int) -> np.ndarray:
    """nDCG@10 of each held-out query among the held-out passages and those trained on."""
    relevant = held_out.relevant()
    own = held_out.passages()
    known = set(own)
    others = [text for text in train.passages() if text not in known]
    pool = [*own, *others[: max(candidates - len(own), 0)]]
    places = {text: place for place, text in enumerate(pool)}
    answers = [{places[text] for text in texts} for texts in relevant.values()]
    return np.asarray(measures.ranking(vectors.queries(list(relevant)), vectors.passages(pool), answers)["ndcg"])
