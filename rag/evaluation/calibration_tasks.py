"""Labelled data by which an encoder is calibrated: sentence pairs (Spearman) and a test collection (nDCG@10).

They say how good vectors are; they make none and know no encoder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...encoders.calibration import RETRIEVAL_MEASURE
from .beir import Dataset
from .correlation import spearman
from .measures import scores_by_query
from .pairs import Pairs

if TYPE_CHECKING:
    import numpy as np

DEPTH = 10


class PairsTask:
    """Sentence pairs: an item is a pair, its outcome the cosine, the measure Spearman's correlation with the gold."""

    measure = "spearman"

    def __init__(self, pairs: Pairs) -> None:
        import numpy as np

        places = {text: place for place, text in enumerate(dict.fromkeys([*pairs.first, *pairs.second]))}
        self.texts: Sequence[str] = list(places)
        self.items = len(pairs)
        self.facts: Mapping[str, Any] = {"name": pairs.name, "sha256": pairs.sha256, "pairs": len(pairs)}
        self._first = np.asarray([places[text] for text in pairs.first])
        self._second = np.asarray([places[text] for text in pairs.second])
        self._gold = np.asarray(pairs.gold)

    def rows_of(self, items: np.ndarray) -> np.ndarray:
        import numpy as np

        return np.unique(np.concatenate([self._first[items], self._second[items]]))

    def outcomes(self, vectors: np.ndarray) -> np.ndarray:
        import numpy as np

        return np.einsum("ij,ij->i", vectors[self._first], vectors[self._second])

    def score(self, outcomes: np.ndarray, items: np.ndarray) -> float:
        return spearman(outcomes[items], self._gold[items])


class RetrievalTask:
    """A test collection: an item is a query, its outcome nDCG@10 of exact search over whole documents.

    Parameters
    ----------
    most : int
        Queries, evenly spread; of the documents all that they judge and as many others, evenly spread.
    """

    measure = RETRIEVAL_MEASURE

    def __init__(self, dataset: Dataset, most: int) -> None:
        names = list(dataset.queries)
        count = min(most, len(names))
        queries = [names[number * len(names) // count] for number in range(count)]
        judged = {name for query in queries for name in dataset.judgements[query]}
        others = [document for document in dataset.documents if document.id not in judged]
        extra = min(len(others), len(judged))
        kept = judged | {others[number * len(others) // extra].id for number in range(extra)}
        documents = [document for document in dataset.documents if document.id in kept and document.whole]
        self._ids = [document.id for document in documents]
        self._queries = queries
        self._judgements = {query: dataset.judgements[query] for query in queries}
        self.texts: Sequence[str] = [
            *(document.whole for document in documents),
            *(dataset.queries[query] for query in queries),
        ]
        self.items = count
        self.facts: Mapping[str, Any] = {
            "name": dataset.name,
            "sha256": _over([self.texts, self._ids, self._judgements]),
            "queries": count,
            "documents": len(documents),
        }

    def rows_of(self, items: np.ndarray) -> np.ndarray:
        """The documents, which are the same for every query; no judgement is looked at."""
        import numpy as np

        return np.arange(len(self._ids))

    def outcomes(self, vectors: np.ndarray) -> np.ndarray:
        import numpy as np

        documents, queries = vectors[: len(self._ids)], vectors[len(self._ids) :]
        order = np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, :DEPTH]
        rankings = {query: [self._ids[place] for place in row] for query, row in zip(self._queries, order, strict=True)}
        found = scores_by_query(self._judgements, rankings, "ndcg@10")
        return np.asarray([found[query] for query in self._queries])

    def score(self, outcomes: np.ndarray, items: np.ndarray) -> float:
        return float(outcomes[items].mean())


def _over(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
