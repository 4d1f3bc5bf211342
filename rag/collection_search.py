"""One search in one collection: both sides, fused, filtered, folded, spread, judged. It knows no other collection."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..storage.records import CollectionRecord, PassageRecord
from .diversity import Folding, spread, words_of
from .fusion import FusionSettings, fuse_sides, side_shares
from .query import Request
from .relevance import Judge, question_words
from .results import Hit

if TYPE_CHECKING:
    from ..encoders.base import Encoder
    from ..storage import Catalog
    from .vectors import IndexKeeper

_POOL = 4
"""Candidates looked at for each result wanted, so that folding and spreading have a choice."""

_LEAST_POOL = 20
_DEEPEST = 1_000_000
SCORE_KINDS = {"hybrid": "rrf", "dense": "cosine", "lexical": "bm25"}


class Clock:
    """Adds up the time that the parts of a search take."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._parts: dict[str, float] = dict.fromkeys(("encode", "faiss", "lexical", "database"), 0.0)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._parts[name] += time.perf_counter() - started

    def milliseconds(self) -> dict[str, float]:
        """Milliseconds of each part and in ``total``."""
        total = time.perf_counter() - self._started
        return {name: seconds * 1000 for name, seconds in (*self._parts.items(), ("total", total))}


@dataclass(frozen=True, slots=True)
class Means:
    """What a search works with; `encoder` gives the vectors that a collection compares, post-processed."""

    catalog: Catalog
    keeper: IndexKeeper
    encoder: Callable[[CollectionRecord], Encoder]
    passages: Callable[[CollectionRecord], int]
    fusion: FusionSettings


@dataclass(slots=True)
class Candidate:
    """A passage of one collection on its way to the results."""

    passage_id: int
    score: float
    dense: float | None
    lexical: float | None
    cosine: float | None
    dense_rank: int | None
    lexical_rank: int | None
    record: PassageRecord | None = None
    relevant: bool = True
    same: list[PassageRecord] = field(default_factory=list)


class CollectionSearch:
    """One request in one collection."""

    def __init__(self, means: Means, request: Request, collection: CollectionRecord, clock: Clock) -> None:
        self._means, self._request, self._collection, self._clock = means, request, collection, clock
        self._catalog, self._fusion = means.catalog, means.fusion
        self._vector: np.ndarray | None = None
        self._judge: Judge | None = None
        self._shares: list[dict[int, float]] = [{}, {}]
        self.notices: list[str] = []

    def run(self) -> list[Hit]:
        """The hits, best first, at most `k`."""
        request = self._request
        depth = min(max(self._fusion.depth, _POOL * request.k), _DEEPEST)
        dense = self._dense(depth) if request.mode != "lexical" else []
        lexical = self._lexical(depth) if request.mode != "dense" else []
        candidates = self._fused(dense, lexical)
        if request.min_score is not None:
            candidates = self._at_least(candidates, request.min_score)
        chosen = self._spread(candidates) if request.diversity > 0 else self._first(candidates)
        if request.judge:
            self._mark(chosen)
        copies = self._copies(chosen)
        return [self._hit(rank, candidate, copies) for rank, candidate in enumerate(chosen, start=1)]

    def _query_vector(self) -> np.ndarray:
        if self._vector is not None:
            return self._vector
        encoder = self._means.encoder(self._collection)
        with self._clock.part("encode"):
            vector: np.ndarray = encoder.encode_queries([self._request.query])[0]
        self._vector = vector
        return vector

    def _dense(self, depth: int) -> list[tuple[int, float]]:
        allowed = None
        if self._request.path is not None:
            with self._clock.part("database"):
                allowed = self._catalog.passage_ids(self._collection.id, self._request.path)
        vector = self._query_vector()
        with self._clock.part("faiss"):
            found, notices = self._means.keeper.search(self._collection, vector[None], depth, allowed)
        self.notices.extend(notices)
        ids, scores = found[0]
        return list(zip(ids.tolist(), scores.tolist(), strict=True))

    def _lexical(self, depth: int) -> list[tuple[int, float]]:
        with self._clock.part("lexical"):
            return self._catalog.lexical_search(self._collection.id, self._request.query, depth, self._request.path)

    def _fused(self, dense: list[tuple[int, float]], lexical: list[tuple[int, float]]) -> list[Candidate]:
        """Candidates of both sides, best first."""
        dense_scores, lexical_scores = dict(dense), dict(lexical)
        dense_ranks = {key: rank for rank, (key, _) in enumerate(dense, start=1)}
        lexical_ranks = {key: rank for rank, (key, _) in enumerate(lexical, start=1)}
        if self._request.mode == "hybrid":
            ranked = fuse_sides(dense, lexical, self._fusion)
            self._shares = [
                side_shares(side, weight, self._fusion.constant)
                for side, weight in zip((dense, lexical), self._fusion.weights, strict=True)
            ]
        else:
            ranked = dense if self._request.mode == "dense" else lexical
        return [
            Candidate(
                key, score, dense_scores.get(key), lexical_scores.get(key), dense_scores.get(key),
                dense_ranks.get(key), lexical_ranks.get(key),
            )
            for key, score in ranked
        ]  # fmt: skip

    def _at_least(self, candidates: list[Candidate], least: float) -> list[Candidate]:
        self._add_cosines(candidates)
        return [c for c in candidates if c.cosine is not None and c.cosine >= least]

    def _add_cosines(self, candidates: Sequence[Candidate]) -> None:
        """Compute the cosine of those that the dense side did not find, from their stored vectors."""
        lacking = {c.passage_id: c for c in candidates if c.cosine is None}
        if not lacking:
            return
        query = self._query_vector()
        with self._clock.part("database"):
            wanted = np.array(list(lacking), dtype=np.int64)
            for ids, vectors in self._means.keeper.vectors(self._collection, wanted):
                for passage_id, cosine in zip(ids.tolist(), vectors @ query, strict=True):
                    lacking[passage_id].cosine = float(cosine)

    def _first(self, candidates: list[Candidate]) -> list[Candidate]:
        """The first `k` different candidates; near-identical ones are folded into those before them."""
        seen: list[Candidate] = []
        kept: list[Candidate] = []
        folding = Folding()
        step = max(2 * self._request.k, _LEAST_POOL)
        for at in range(0, len(candidates), step):
            portion = self._with_records(candidates[at : at + step])
            kept += self._folded(portion, seen, folding)
            if len(kept) >= self._request.k:
                break
        return kept[: self._request.k]

    def _spread(self, candidates: list[Candidate]) -> list[Candidate]:
        pool = self._folded(self._with_records(candidates[: max(_POOL * self._request.k, _LEAST_POOL)]), [], Folding())
        vectors = self._vectors(pool)
        order = spread(np.array([c.score for c in pool]), vectors, self._request.k, self._request.diversity)
        return [pool[position] for position in order]

    def _vectors(self, candidates: Sequence[Candidate]) -> np.ndarray:
        places = {c.passage_id: row for row, c in enumerate(candidates)}
        keeper = self._means.keeper
        found = np.zeros((len(candidates), keeper.dimension(self._collection)), dtype=np.float32)
        with self._clock.part("database"):
            for ids, vectors in keeper.vectors(self._collection, np.array(list(places), dtype=np.int64)):
                found[[places[passage_id] for passage_id in ids.tolist()]] = vectors
        return found

    def _with_records(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that the catalog still holds, with their text."""
        with self._clock.part("database"):
            records = {record.id: record for record in self._catalog.passages(c.passage_id for c in candidates)}
        for candidate in candidates:
            candidate.record = records.get(candidate.passage_id)
        return [c for c in candidates if c.record is not None]

    @staticmethod
    def _folded(portion: list[Candidate], seen: list[Candidate], folding: Folding) -> list[Candidate]:
        """Those of `portion` that fold into none before them; the others are noted at those, `seen` among them."""
        first = len(seen)
        seen += portion
        into = folding.add([_record(c).text for c in portion])
        for candidate, target in zip(portion, into, strict=True):
            if seen[target] is not candidate:
                seen[target].same.append(_record(candidate))
        return [c for position, c in enumerate(portion, start=first) if into[position - first] == position]

    def _mark(self, candidates: Sequence[Candidate]) -> None:
        """Say of each candidate whether it is relevant."""
        if not candidates:
            return
        if self._request.mode != "lexical":
            self._add_cosines(candidates)
        with self._clock.part("lexical"):
            words = question_words(self._request.query)
            counts = self._catalog.token_counts(self._collection.id, words)
        self._judge = Judge.of(
            self._request.query,
            noise_level=self._collection.noise_level,
            counts=counts,
            passages=self._means.passages(self._collection),
        )
        for candidate in candidates:
            record = _record(candidate)
            candidate.relevant = self._judge.relevant(candidate.cosine, f"{record.heading}\n{record.text}")

    def _copies(self, candidates: Sequence[Candidate]) -> dict[int, list[str]]:
        """Other files with the same words in the same order, for each candidate; a near-identical text is no copy."""
        with self._clock.part("database"):
            equal = self._catalog.copies(c.passage_id for c in candidates)
        found = {}
        for candidate in candidates:
            own = _record(candidate)
            same_words = [one.absolute_path for one in candidate.same if words_of(one.text) == words_of(own.text)]
            paths = {*equal.get(candidate.passage_id, []), *same_words}
            found[candidate.passage_id] = sorted(paths - {own.absolute_path})
        return found

    def _hit(self, rank: int, candidate: Candidate, copies: dict[int, list[str]]) -> Hit:
        record = _record(candidate)
        return Hit(
            rank=rank, score=float(candidate.score), score_kind=SCORE_KINDS[self._request.mode],
            dense=candidate.dense, lexical=candidate.lexical, passage_id=record.id, collection=record.collection,
            path=record.path, absolute_path=record.absolute_path, copies=copies[record.id], page=record.page,
            lines=record.lines, chars=record.chars, heading=record.heading, text=record.text,
            relevant=candidate.relevant, explanation=self._explanation(candidate) if self._request.explain else {},
        )  # fmt: skip

    def _explanation(self, candidate: Candidate) -> dict[str, object]:
        """How the candidate came to its place."""
        told: dict[str, object] = {
            "dense_rank": candidate.dense_rank,
            "lexical_rank": candidate.lexical_rank,
            "cosine": candidate.cosine,
            "folded": [f"{record.path}:{record.lines[0]}" for record in candidate.same],
        }
        if self._request.mode == "hybrid":
            shares = [side.get(candidate.passage_id, 0.0) for side in self._shares]
            told |= {"dense_share": shares[0], "lexical_share": shares[1]}
        if self._judge is not None:
            told |= {"noise_level": self._judge.noise_level, "rare_words": sorted(self._judge.rare)}
        return told


def _record(candidate: Candidate) -> PassageRecord:
    assert candidate.record is not None, "looked at before it was fetched"
    return candidate.record
