"""A collection's encoder as it is, as the other side of a comparison. It trains nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..evaluation.running import Run
from .comparing import Vectors
from .portions import CHUNK

if TYPE_CHECKING:
    from ...encoders.base import Encoder
    from ...storage.records import CollectionRecord
    from ..index_run import Parts


def present_vectors(encoder: Encoder, work: Run) -> Vectors:
    """The encoder's two sides; its passages in portions, so that encoding them can be cancelled."""

    def passages(texts: Sequence[str]) -> np.ndarray:
        rows = []
        for at in range(0, len(texts), CHUNK):
            work.report(at, len(texts), "passages", "evaluate")
            rows.append(encoder.encode_documents(list(texts[at : at + CHUNK])))
        return np.concatenate(rows)

    return Vectors(encoder.encode_queries, passages)


def stored_vectors(parts: Parts, collection: CollectionRecord, pool: Mapping[int, str]) -> np.ndarray:
    """The vectors of passages as the collection compares them, in the order of `pool`."""
    places = {number: place for place, number in enumerate(pool)}
    found = np.zeros((len(pool), parts.keeper.dimension(collection)), dtype=np.float32)
    for ids, vectors in parts.keeper.vectors(collection, np.array(sorted(pool), dtype=np.int64)):
        found[[places[number] for number in ids.tolist()]] = vectors
    return found
