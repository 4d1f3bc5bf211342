"""One kind of examples as something to learn: its batches' loss, and how good vectors are on its held-out part.

It knows losses and measures; it knows no head, no optimiser and no folder.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ... import UsageError
from . import measures
from .examples import Examples, Labelled, Queries, ScoredPairs
from .sources import TextVectors

if TYPE_CHECKING:
    import torch

    from .settings import TrainingSettings

Check = Callable[[], None]


class Task(ABC):
    """Examples to learn from and others to be measured on.

    Attributes
    ----------
    measure : str
        Name of the measure that decides.
    size : int
        Examples to learn from.
    classifier : torch.nn.Module or None
        What is learned beside the head and is not part of it.
    """

    measure: str
    size: int
    classifier: torch.nn.Module | None = None

    @abstractmethod
    def texts(self, query_prefix: str, passage_prefix: str) -> Iterable[tuple[str, list[str]]]:
        """All texts of both parts by the prefix that they get."""

    @abstractmethod
    def loss(self, rows: Sequence[int], vectors: TextVectors) -> torch.Tensor:
        """Loss of the examples at `rows`."""

    @abstractmethod
    def measured(self, vectors: TextVectors, check: Check) -> dict[str, float]:
        """Measures on the held-out part, 0 to 1 (Spearman's from -1), `measure` among them."""


def task_for(train: Examples, held_out: Examples, *, dimension: int, settings: TrainingSettings) -> Task:
    """The task of learning from `train` and being measured on `held_out`, for vectors of `dimension`.

    Raises
    ------
    slotrag.UsageError
        Nothing can be learned: one label only, or all scores equal.
    """
    if isinstance(train, Labelled) and isinstance(held_out, Labelled):
        return Classification(train, held_out, dimension, settings)
    if isinstance(train, ScoredPairs) and isinstance(held_out, ScoredPairs):
        return Similarity(train, held_out, settings)
    if isinstance(train, Queries) and isinstance(held_out, Queries):
        return Retrieval(train, held_out, settings)
    raise TypeError(f"{type(held_out).__name__} cannot be held out from {type(train).__name__}")


class Classification(Task):
    """A linear classifier learned together with the head; accuracy decides."""

    measure = "accuracy"

    def __init__(self, train: Labelled, held_out: Labelled, dimension: int, settings: TrainingSettings) -> None:
        import torch

        self._train, self._held_out, self._scale = train, held_out, settings.scale
        self._labels = sorted(set(train.labels))
        if len(self._labels) < 2:
            raise UsageError(f"All texts of {train.name} have the label {self._labels[0]!r}; two labels are needed.")
        numbers = {label: number for number, label in enumerate(self._labels)}
        self._targets = torch.tensor([numbers[label] for label in train.labels])
        self.size = len(train)
        # Without random weights: drawing them would change the random state of the whole process.
        classifier = torch.nn.utils.skip_init(torch.nn.Linear, dimension, len(self._labels))
        for parameter in classifier.parameters():
            torch.nn.init.zeros_(parameter)
        self.classifier = classifier

    def texts(self, query_prefix: str, passage_prefix: str) -> Iterable[tuple[str, list[str]]]:
        yield passage_prefix, [*self._train.texts, *self._held_out.texts]

    def loss(self, rows: Sequence[int], vectors: TextVectors) -> torch.Tensor:
        from . import losses

        assert self.classifier is not None
        units = vectors([self._train.texts[row] for row in rows], vectors.source.passage_prefix)
        targets = self._targets[list(rows)].to(vectors.device)
        return losses.classification(units, targets, self.classifier, scale=self._scale)

    def measured(self, vectors: TextVectors, check: Check) -> dict[str, float]:
        import torch

        assert self.classifier is not None
        units = vectors.looked_at(self._held_out.texts, vectors.source.passage_prefix, check)
        with torch.no_grad():
            best = self.classifier(torch.from_numpy(units).to(vectors.device)).argmax(dim=1).tolist()
        return {"accuracy": measures.accuracy([self._labels[number] for number in best], self._held_out.labels)}


class Similarity(Task):
    """Cosines that follow the pairs' scores; Spearman's rank correlation decides."""

    measure = "spearman"

    def __init__(self, train: ScoredPairs, held_out: ScoredPairs, settings: TrainingSettings) -> None:
        import torch

        self._train, self._held_out, self._settings = train, held_out, settings
        least, most = min(train.scores), max(train.scores)
        if not least < most:
            raise UsageError(f"All pairs of {train.name} have the score {least}; two different scores are needed.")
        # From the least score to the most: 0 to 5 becomes 0 to 1.
        self._scores = torch.tensor([(score - least) / (most - least) for score in train.scores])
        self.size = len(train)

    def texts(self, query_prefix: str, passage_prefix: str) -> Iterable[tuple[str, list[str]]]:
        for part in (self._train, self._held_out):
            yield passage_prefix, [*part.first, *part.second]

    def loss(self, rows: Sequence[int], vectors: TextVectors) -> torch.Tensor:
        from . import losses

        first, second = (_at(texts, rows) for texts in (self._train.first, self._train.second))
        units = vectors([*first, *second], vectors.source.passage_prefix)
        scores = self._scores[list(rows)].to(vectors.device)
        first, second = units[: len(rows)], units[len(rows) :]
        if self._settings.pair_loss == "cosine":
            return losses.pairs(first, second, scores)
        return losses.ranking(first, second, scores, scale=self._settings.scale)

    def measured(self, vectors: TextVectors, check: Check) -> dict[str, float]:
        import numpy as np

        held = self._held_out
        units = vectors.looked_at([*held.first, *held.second], vectors.source.passage_prefix, check)
        cosines = (units[: len(held)] * units[len(held) :]).sum(axis=1)
        return {"spearman": measures.spearman(cosines, np.asarray(held.scores))}


class Retrieval(Task):
    """Queries near their passages and far from those of others; nDCG@10 decides.

    Held-out queries are asked among the held-out passages and those trained on, `TrainingSettings.candidates` at most.
    """

    measure = "ndcg@10"

    def __init__(self, train: Queries, held_out: Queries, settings: TrainingSettings) -> None:
        self._train, self._settings = train, settings
        self._relevant = train.relevant()
        self.size = len(train)
        asked = held_out.relevant()
        self._asked = list(asked)
        own = held_out.passages()
        known = set(own)
        others = [text for text in train.passages() if text not in known]
        room = max(settings.candidates - len(own), 0)
        drawn = sorted(others, key=lambda text: _draw(settings.seed, text))[:room]
        self._candidates = [*own, *drawn]
        places = {text: place for place, text in enumerate(self._candidates)}
        self._answers = [{places[text] for text in asked[query]} for query in self._asked]

    def texts(self, query_prefix: str, passage_prefix: str) -> Iterable[tuple[str, list[str]]]:
        yield query_prefix, [*self._train.queries, *self._asked]
        yield passage_prefix, [*self._train.passages(), *self._candidates]

    def loss(self, rows: Sequence[int], vectors: TextVectors) -> torch.Tensor:
        import torch

        from . import losses

        train, scale = self._train, self._settings.scale
        queries, positives = _at(train.queries, rows), _at(train.positives, rows)
        negatives = [] if train.negatives is None else _at(train.negatives, rows)
        # Each text once: twice there it would count twice as a wrong passage.
        passages = _places([*positives, *(text for text in negatives if text is not None)])
        asked = _places(queries)
        query_units = vectors(list(asked), vectors.source.query_prefix)
        passage_units = vectors(list(passages), vectors.source.passage_prefix)
        of_query = torch.tensor([asked[query] for query in queries], device=vectors.device)
        targets = torch.tensor([passages[text] for text in positives], device=vectors.device)
        right = self._right(asked, passages).to(vectors.device)
        there = losses.retrieval(query_units[of_query], passage_units, targets, right[of_query], scale=scale)
        if not self._settings.symmetric:
            return there
        back = losses.retrieval(passage_units[targets], query_units, of_query, right.T[targets], scale=scale)
        return (there + back) / 2

    def _right(self, queries: dict[str, int], passages: dict[str, int]) -> torch.Tensor:
        """Which passages are none of a query's wrong ones, bool: they answer it too, or are the query itself."""
        import torch

        right = torch.zeros((len(queries), len(passages)), dtype=torch.bool)
        for query, row in queries.items():
            for text in (*self._relevant[query], query):
                if text in passages:
                    right[row, passages[text]] = True
        return right

    def measured(self, vectors: TextVectors, check: Check) -> dict[str, float]:
        found = measures.ranking(
            vectors.looked_at(self._asked, vectors.source.query_prefix, check),
            vectors.looked_at(self._candidates, vectors.source.passage_prefix, check),
            self._answers,
        )
        return {"ndcg@10": float(found["ndcg"].mean()), "mrr@10": float(found["mrr"].mean())}


def _at(values: Sequence[Any], rows: Sequence[int]) -> list[Any]:
    return [values[row] for row in rows]


def _places(texts: Iterable[str]) -> dict[str, int]:
    return {text: place for place, text in enumerate(dict.fromkeys(texts))}


def _draw(seed: int, text: str) -> bytes:
    return hashlib.sha256(f"{seed} {text}".encode("utf-8", "surrogatepass")).digest()
