"""Hard negatives by words: for each query the passage that looks most like an answer and is none. It knows no model.

They come from the collection's own lexical index (BM25), and only from documents that are trained on: a passage of a
document held out, taught to be wrong, would be held against the head when it is judged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..diversity import fold
from .pairs import OwnPair, OwnPairs, OwnPassage, holds

if TYPE_CHECKING:
    from ...storage import Catalog

_LOOKED_AT = 20
"""Passages found for a query among which the negative is chosen."""

_LOOKED_AT_AGAIN = 200
"""The same where none of those can be it, as for a document with many copies."""


def hard_negatives(
    catalog: Catalog,
    collection_id: int,
    pairs: OwnPairs,
    *,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> list[str | None]:
    """For each pair the highest ranked passage that is not its own, no copy of it, and does not hold the query.

    Parameters
    ----------
    pairs : OwnPairs
        Those to train on.
    report : callable
        Told (pairs done, all of them); it may raise to cancel.

    Returns
    -------
    list of (str or None)
        What the encoder gets for each; None where the words of the query stand in no other passage.
    """
    groups = {pair.group for pair in pairs.pairs}
    allowed = {number: passage for number, passage in pairs.passages.items() if passage.group in groups}
    found: list[str | None] = []
    for done, pair in enumerate(pairs.pairs):
        if done % 50 == 0:
            report(done, len(pairs))
        chosen = None
        for depth in (_LOOKED_AT, _LOOKED_AT_AGAIN):
            ranked = [number for number, _ in catalog.lexical_search(collection_id, pair.query, depth)]
            chosen = next((allowed[number] for number in ranked if _is_wrong(pair, number, allowed)), None)
            if chosen is not None or len(ranked) < depth:
                break
        found.append(chosen.input if chosen is not None else None)
    report(len(pairs), len(pairs))
    return found


def _is_wrong(pair: OwnPair, number: int, allowed: dict[int, OwnPassage]) -> bool:
    """Whether a passage may be taught not to answer the query of `pair`."""
    passage = allowed.get(number)
    if passage is None or number == pair.passage_id or passage.text_hash == pair.text_hash:
        return False
    if fold([pair.positive, passage.input]) != [0, 1]:
        return False
    return not holds(passage.input, pair.query)
