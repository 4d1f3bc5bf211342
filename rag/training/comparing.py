"""How much better one encoder is than another on judged examples, with its 95 % interval. It trains nothing.

Texts are compared as a search compares them: queries with passages, by the cosine of their vectors. Labels are told by
the classifiers that were trained with each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...encoders.estimates import Estimate, bootstrap
from ...encoders.training import measures
from ...encoders.training.examples import Examples, Labelled, Queries, ScoredPairs

if TYPE_CHECKING:
    from .pairs import OwnPair

Encode = Callable[[Sequence[str]], np.ndarray]
Report = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measure on judged items, before and after.

    Attributes
    ----------
    name : str
        Of the data, or the kind of pairs.
    measure : str
        ``ndcg@10``, ``spearman`` or ``accuracy``.
    items : int
        Judged examples.
    before, after, gain : Estimate
        Of the encoder that is compared with, of the new one, and the difference, item by item.
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
    """Judged pairs of a collection and the passages among which each query looks for its own.

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


@dataclass(frozen=True)
class Classifier:
    """A linear classifier over unit vectors, as a training leaves it.

    Attributes
    ----------
    labels : list of str
    weight : float32, shape (labels, dimension)
    bias : float32, shape (labels,)
    """

    labels: Sequence[str]
    weight: np.ndarray
    bias: np.ndarray

    def __call__(self, vectors: np.ndarray) -> list[str]:
        """The label of each row."""
        places: list[int] = (vectors @ self.weight.T + self.bias).argmax(axis=1).tolist()
        return [self.labels[place] for place in places]


def compared(
    train: Examples,
    judged: Examples,
    before: Vectors,
    after: Vectors,
    *,
    classifiers: tuple[Classifier, Classifier] | None = None,
    candidates: int,
    report: Report = lambda done, total: None,
) -> Comparison:
    """Two encoders on the judged part of a labelled set.

    Parameters
    ----------
    train : Examples
        The part that was trained on, whose passages queries are asked among too.
    classifiers : (Classifier, Classifier), optional
        For labels: what was trained over the one and the other.
    candidates : int
        Passages that queries are asked among, at most (the judged ones in any case).
    """
    if isinstance(judged, Labelled):
        assert classifiers is not None
        right = [
            np.array(classifier(side.passages(judged.texts))) == np.array(judged.labels)
            for classifier, side in zip(classifiers, (before, after), strict=True)
        ]
        return _of_items(judged, "accuracy", right, report)
    if isinstance(judged, ScoredPairs):
        gold = np.asarray(judged.scores)
        values = [_cosines(judged, vectors) for vectors in (before, after)]

        def spearman(place: int, rows: np.ndarray) -> float:
            return measures.spearman(values[place][rows], gold[rows])

        return _estimated(judged.name, len(judged), "spearman", spearman, report)
    assert isinstance(train, Queries)
    return _of_items(judged, "ndcg@10", [_ranked(train, judged, side, candidates) for side in (before, after)], report)


def _of_items(judged: Examples, measure: str, found: Sequence[np.ndarray], report: Report) -> Comparison:
    """Of a measure that each item has: the means, and of the difference item by item."""
    return _estimated(
        judged.name, len(found[0]), measure, lambda place, rows: float(found[place][rows].mean()), report
    )  # fmt: skip


def _estimated(
    name: str, items: int, measure: str, score: Callable[[int, np.ndarray], float], report: Report
) -> Comparison:
    """The three estimates of `score` of (0 before, 1 after) over rows."""
    return Comparison(
        name,
        measure,
        items,
        bootstrap(lambda rows: score(0, rows), items, report=report),
        bootstrap(lambda rows: score(1, rows), items, report=report),
        bootstrap(lambda rows: score(1, rows) - score(0, rows), items, report=report),
    )


def _cosines(pairs: ScoredPairs, vectors: Vectors) -> np.ndarray:
    both = vectors.passages([*pairs.first, *pairs.second])
    return (both[: len(pairs)] * both[len(pairs) :]).sum(axis=1)


def _ranked(train: Queries, judged: Queries, vectors: Vectors, candidates: int) -> np.ndarray:
    """nDCG@10 of each judged query among the judged passages and those trained on."""
    relevant = judged.relevant()
    own = judged.passages()
    known = set(own)
    others = [text for text in train.passages() if text not in known]
    pool = [*own, *others[: max(candidates - len(own), 0)]]
    places = {text: place for place, text in enumerate(pool)}
    answers = [{places[text] for text in texts} for texts in relevant.values()]
    return np.asarray(measures.ranking(vectors.queries(list(relevant)), vectors.passages(pool), answers)["ndcg"])
