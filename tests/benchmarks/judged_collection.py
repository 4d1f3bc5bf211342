"""A test collection in the product's own search: its ranking by words, queries in folds, and nDCG@10 under an encoder.

It knows no head. `head_retrieval.py` uses it.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slotrag.encoders.training.examples import Queries
from slotrag.encoders.training.folds import query_folds
from slotrag.rag.evaluation.beir import read_dataset
from slotrag.rag.evaluation.corpus import CorpusSearch, DocumentScores
from slotrag.rag.evaluation.measures import scores_by_query
from slotrag.rag.evaluation.retrieval import DEPTH

SIDES = ("alone", "fused")
"""By vectors alone, and fused with words as a search fuses them."""

_MEASURE = "ndcg@10"
_NEGATIVES = 10
"""A query's pairs take turns among so many hard negatives."""


class JudgedCollection:
    """Documents, queries and judgements in BEIR's form; a document is one passage, as `evaluate_retrieval` has it.

    Attributes
    ----------
    name : str
    queries : dict of str to str
        Text by id.
    sha256 : str
        Of documents, queries and judgements.
    """

    def __init__(self, folder: Path) -> None:
        data = read_dataset(folder)
        self.name, self.queries = data.name, data.queries
        self._documents, self._judgements = data.documents, data.judgements
        with tempfile.TemporaryDirectory() as place:
            corpus = CorpusSearch(Path(place), data.documents, None)
            self._words = {query: corpus.lexical(text, DEPTH) for query, text in data.queries.items()}
            corpus.close()
        content = [[asdict(document) for document in data.documents], data.queries, data.judgements]
        self.sha256 = hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def by_words(self) -> dict[str, float]:
        """nDCG@10 of each query by words alone."""
        return self._scores(self._words)

    def tested(self, encoder: Any, queries: Sequence[str]) -> dict[str, dict[str, float]]:
        """nDCG@10 of `queries`, given by id, among all documents, by each of `SIDES`.

        Parameters
        ----------
        encoder : Encoder
            Or what has of it all that `CorpusSearch` asks for.
        """
        found: dict[str, dict[str, DocumentScores]] = {side: {} for side in SIDES}
        with tempfile.TemporaryDirectory() as place:
            corpus = CorpusSearch(Path(place), self._documents, encoder)
            vectors = encoder.encode_queries([self.queries[query] for query in queries])
            for query, vector in zip(queries, vectors, strict=True):
                found["alone"][query] = dense = corpus.dense(vector, DEPTH)
                found["fused"][query] = corpus.hybrid(dense, self._words[query])[:DEPTH]
            corpus.close()
        return {side: self._scores(rankings) for side, rankings in found.items()}

    def pairs(self) -> Queries:
        """Each query with each of its relevant documents and a hard negative: one of the highest ranked by words that
        are not judged relevant."""
        ids: dict[str, list[str]] = defaultdict(list)
        for query, text in self.queries.items():
            ids[text].append(query)
        rows: list[tuple[str, str, str | None]] = []
        for text, same in ids.items():
            positives = self._relevant(same)
            wrong = self._wrong(same[0], positives)
            for number, positive in enumerate(positives):
                rows.append((text, positive, wrong[number % len(wrong)] if wrong else None))
        queries, positives, negatives = ([row[column] for row in rows] for column in range(3))
        return Queries(queries, positives, negatives, name=self.name)  # type: ignore[arg-type]

    def folds(self) -> list[tuple[Queries, list[str]]]:
        """For each fold what to train on, and the ids of the queries to test."""
        found = []
        for train, test in query_folds(self.pairs()):
            tested = set(test.queries)
            found.append((train, [query for query, text in self.queries.items() if text in tested]))
        return found

    def _relevant(self, queries: Sequence[str]) -> list[str]:
        texts = {document.id: document.whole for document in self._documents}
        judged = [(document, gain) for query in queries for document, gain in self._judgements[query].items()]
        return list(dict.fromkeys(texts[document] for document, gain in judged if gain > 0 and texts[document].strip()))

    def _wrong(self, query: str, relevant: Sequence[str]) -> list[str]:
        ranked = dict.fromkeys(self._documents[place].whole for place, _ in self._words[query])
        return [text for text in ranked if text not in relevant and text.strip()][:_NEGATIVES]

    def _scores(self, rankings: Mapping[str, DocumentScores]) -> dict[str, float]:
        names = {query: [self._documents[place].id for place, _ in ranked] for query, ranked in rankings.items()}
        found = scores_by_query({query: self._judgements[query] for query in rankings}, names, _MEASURE)
        return {query: round(value, 5) for query, value in found.items()}
