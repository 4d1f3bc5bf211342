"""From a query to passages of one or several collections. It knows no decoder and no session.

Scores: ``rrf`` for fused lists (hybrid, or several collections), ``cosine`` for the dense side alone, ``bm25`` for the
lexical side alone; higher is better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..storage.records import CollectionRecord
from .collection_search import Clock, CollectionSearch, Means
from .fusion import BETWEEN_COLLECTIONS, HYBRID, FusionSettings
from .language_share import question_notice
from .query import Request
from .results import Hit

if TYPE_CHECKING:
    from ..encoders.base import Encoder
    from ..storage import Catalog
    from .vectors import IndexKeeper


@dataclass(slots=True)
class Found:
    """Results of a search and what is to be said about it."""

    hits: list[Hit]
    timings_ms: dict[str, float]
    notices: list[str] = field(default_factory=list)


class Retriever:
    """Searches collections. May be used from several threads.

    Parameters
    ----------
    encoder : callable
        Gives the encoder of a collection, post-processed as its index is; called only where vectors are compared.
    """

    def __init__(
        self,
        catalog: Catalog,
        keeper: IndexKeeper,
        encoder: Callable[[CollectionRecord], Encoder],
        fusion: FusionSettings = HYBRID,
    ) -> None:
        self._catalog = catalog
        self._sizes: dict[int, tuple[int, int]] = {}
        self._unable: set[int] = set()
        self._means = Means(catalog, keeper, encoder, self._passages, fusion)

    def retrieve(self, request: Request, collections: Sequence[CollectionRecord]) -> Found:
        """The passages that fit `request` best, best first; of several collections fused by rank.

        Raises
        ------
        slotrag.UsageError
            See `Request.checked`.
        """
        request = request.checked()
        clock = Clock()
        searches = [CollectionSearch(self._means, request, collection, clock) for collection in collections]
        lists = [search.run() for search in searches]
        hits = lists[0] if len(lists) == 1 else between_collections(lists)
        ranked = [replace(hit, rank=rank) for rank, hit in enumerate(hits[: request.k], start=1)]
        notices = [notice for search in searches for notice in search.notices]
        return Found(ranked, clock.milliseconds(), notices + self._unread(request, collections))

    def _unread(self, request: Request, collections: Sequence[CollectionRecord]) -> list[str]:
        """What is to be said of encoders that do not read the query's language, of each collection once."""
        if request.mode == "lexical":
            return []
        new = [collection for collection in collections if collection.id not in self._unable]
        notice = question_notice(new, request.query)
        if notice:
            self._unable.update(collection.id for collection in new)
        return notice

    def _passages(self, collection: CollectionRecord) -> int:
        """Number of passages of a collection, counted once for each of its states."""
        state, count = self._sizes.get(collection.id, (-1, 0))
        if state != collection.state:
            count = len(self._catalog.passage_ids(collection.id))
            self._sizes[collection.id] = collection.state, count
        return count


_IRRELEVANT = 0.5


def _share(rank: int) -> float:
    """What the hit of this rank scores, relative to the first."""
    return (BETWEEN_COLLECTIONS + 1) / (BETWEEN_COLLECTIONS + rank)


def between_collections(lists: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Hits of several collections in one list, by reciprocal rank: scores of different encoders do not compare.

    The first of a collection scores 1; what is not relevant to the question scores half as much, so that the best of a
    collection that has nothing on it does not stand beside the best of one that has. A passage of the same text that an
    earlier list holds is not repeated: its file becomes a copy of the other.
    """
    scored = [
        replace(hit, score=_share(rank) * (1.0 if hit.relevant else _IRRELEVANT), score_kind="rrf")
        for hits in lists
        for rank, hit in enumerate(hits, start=1)
    ]
    scored.sort(key=lambda hit: (-hit.score, not hit.relevant))
    merged: dict[str, Hit] = {}
    for hit in scored:
        first = merged.setdefault(hit.text, hit)
        if first is not hit:
            paths = {*first.copies, *hit.copies, hit.absolute_path} - {first.absolute_path}
            merged[hit.text] = replace(
                first,
                score=first.score + hit.score,
                copies=sorted(paths),
                relevant=first.relevant or hit.relevant,
            )
    return sorted(merged.values(), key=lambda hit: -hit.score)
