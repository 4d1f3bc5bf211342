"""A collection's post-processing at work: loaded from the catalog, put before its encoder. It fits nothing.

What is stored are the encoder's raw vectors; what is compared, in the index and in every search, are these after the
collection's post-processing, passages and queries alike.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import SlotragError
from ..encoders.base import Encoder
from ..encoders.postprocessing import Postprocessing, StatisticsDamaged
from ..storage.records import CollectionRecord, NewPostprocessing

if TYPE_CHECKING:
    import numpy as np

    from ..storage import Catalog

COLLECTION, ENCODER = "collection", "encoder"
"""Whose vectors statistics come from."""


class PostprocessingLost(SlotragError):
    """The statistics of a collection's post-processing are missing, damaged, or of vectors of another size."""


class Postprocessings:
    """The post-processings of collections, each loaded once; may be used from several threads."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._loaded: dict[tuple[int, int], Postprocessing] = {}
        self._lock = threading.Lock()

    def of(self, collection: CollectionRecord) -> Postprocessing | None:
        """What is done with a collection's vectors; None for nothing.

        Raises
        ------
        PostprocessingLost
        """
        if collection.postprocessing == 0:
            return None
        key = collection.id, collection.postprocessing  # never given again to another one
        with self._lock:
            found = self._loaded.get(key)
            if found is None:
                found = self._loaded[key] = self._read(collection)
            return found

    def _read(self, collection: CollectionRecord) -> Postprocessing:
        record = self._catalog.postprocessing(collection.id, collection.postprocessing)
        if record is None:
            raise _lost(collection, "missing")
        try:
            found = Postprocessing.from_bytes(record.statistics)
        except StatisticsDamaged as error:
            raise _lost(collection, "damaged") from error
        if found.steps != record.steps:
            raise _lost(collection, f"not those of {record.steps}")
        if found.dimension_in != collection.dimension:
            raise _lost(collection, f"for vectors of {found.dimension_in} dimensions, not {collection.dimension}")
        return found


def _lost(collection: CollectionRecord, what: str) -> PostprocessingLost:
    return PostprocessingLost(
        f"The statistics of the post-processing of collection {collection.name} are {what}: run `slotrag doctor --fix`."
    )


class PostprocessedEncoder(Encoder):
    """An encoder whose vectors are those that a collection compares."""

    def __init__(self, encoder: Encoder, postprocessing: Postprocessing) -> None:
        self._encoder, self._postprocessing = encoder, postprocessing
        self.spec = encoder.spec
        both = f"{encoder.fingerprint} {postprocessing.fingerprint}"
        self.fingerprint = hashlib.sha256(both.encode()).hexdigest()
        self.dimension = postprocessing.dimension_out
        self.max_tokens = encoder.max_tokens

    @classmethod
    def from_spec(cls, spec: Any, models: Any, *, device: str = "auto") -> PostprocessedEncoder:
        raise TypeError("a spec names an encoder; its post-processing is a collection's")

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return self._encoder.token_offsets(text)

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        return self._postprocessing.apply(self._encoder.encode_documents(texts))

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._postprocessing.apply(self._encoder.encode_queries(texts))


def suggested(encoder: Encoder) -> Postprocessing | None:
    """What an encoder wants done with its vectors, with the statistics that it brings along.

    Raises
    ------
    SlotragError
        They are for vectors of another size.
    """
    found: Postprocessing | None = getattr(encoder, "postprocessing", None)
    if found is not None and found.dimension_in != encoder.dimension:
        raise SlotragError(
            f"The encoder {encoder.spec} brings a post-processing for vectors of {found.dimension_in} dimensions, "
            f"but gives {encoder.dimension}; use another calibration."
        )
    return found


def to_store(postprocessing: Postprocessing, origin: str) -> NewPostprocessing:
    """A post-processing as the catalog keeps it."""
    return NewPostprocessing(postprocessing.steps, origin, postprocessing.fitted_on, postprocessing.to_bytes())
