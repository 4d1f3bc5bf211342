"""Gives a collection another post-processing, or the same one fitted anew. No document is encoded again.

The index over the newly post-processed vectors is written beside the old one, under the setting's own number; then one
transaction makes the setting and the noise level measured under it the collection's. Until then the old one answers,
and whatever is left after a kill is one of the two, whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .. import UsageError
from ..encoders.postprocessing import LEAST_ROWS, Postprocessing
from ..encoders.postprocessing_fit import fit
from ..encoders.postprocessing_steps import PostprocessingError, Steps, parse_steps, require_possible
from ..storage.records import CollectionRecord
from .events import CancelToken, Progress, ProgressListener
from .index_run import Parts
from .language_share import main_language
from .noise import noise_level, questions
from .postprocessing import COLLECTION, ENCODER, PostprocessingLost, suggested, to_store

if TYPE_CHECKING:
    import numpy as np

    from ..encoders.base import Encoder
    from ..index import VectorIndex


@dataclass(frozen=True, slots=True)
class Fitted:
    """A post-processing fitted to vectors at hand, or what takes its place.

    Attributes
    ----------
    postprocessing : Postprocessing or None
    origin : str
        ``collection`` or ``encoder``: whose vectors its statistics come from.
    notices : list of str
        What is to be said about it.
    """

    postprocessing: Postprocessing | None
    origin: str = COLLECTION
    notices: list[str] = field(default_factory=list)


def fit_to(steps: Steps, rows: int, vectors: Callable[[], Iterable[np.ndarray]], encoder: Encoder) -> Fitted:
    """Fit `steps` to the `rows` raw vectors that `vectors` gives.

    Below `LEAST_ROWS` the statistics are the encoder's own where it brings some for the same steps; otherwise nothing
    is done with the vectors.

    Raises
    ------
    slotrag.UsageError
        The vectors or the encoder do not allow a step.
    """
    if not steps:
        return Fitted(None)
    unembedding = check_steps(steps, encoder)
    if not steps.need_vectors or rows >= LEAST_ROWS:
        return Fitted(fit(str(steps), vectors() if steps.need_vectors else (), unembedding=unembedding))
    own = suggested(encoder)
    few = f"{rows} passages are too few for statistics of their own ({LEAST_ROWS} are needed)"
    if own is not None and own.steps == str(steps):
        return Fitted(own, ENCODER, [f"{few}, so the post-processing {steps} uses those that the encoder brings."])
    return Fitted(None, COLLECTION, [f"{few}, so the post-processing {steps} is left out; ask for it again later."])


def check_steps(steps: Steps, encoder: Encoder) -> np.ndarray | None:
    """Refuse what no vectors of this encoder could allow, before any are made; its unembedding matrix where a step
    needs it. Raises `slotrag.UsageError`."""
    require_possible(steps, encoder.dimension)
    if not steps.need_unembedding:
        return None
    if not hasattr(encoder, "unembedding"):
        raise PostprocessingError(
            f"The encoder {encoder.spec} has no unembedding matrix, which 'embedfilter' needs; choose another step, or "
            "an encoder over a causal language model."
        )
    matrix: np.ndarray = encoder.unembedding()  # type: ignore[attr-defined]
    if matrix.shape[1] != encoder.dimension:
        raise PostprocessingError(
            f"The unembedding matrix of {encoder.spec} is {matrix.shape[1]} wide, its vectors {encoder.dimension}: "
            "'embedfilter' is not possible; choose another step."
        )
    return matrix


@dataclass(slots=True)
class Refit:
    """Changes the post-processing of one collection. The caller holds the writer's lock while `run` runs."""

    parts: Parts
    listener: ProgressListener | None = None
    cancel: CancelToken | None = None

    def steps_of(self, collection: CollectionRecord) -> Steps:
        """The steps that a collection has now, also where their statistics are lost."""
        if collection.postprocessing == 0:
            return Steps()
        record = self.parts.catalog.postprocessing(collection.id, collection.postprocessing)
        try:
            return parse_steps(record.steps) if record is not None else Steps()
        except UsageError:
            return Steps()

    def run(self, collection: CollectionRecord, steps: Steps) -> tuple[CollectionRecord, list[str]]:
        """Let a collection have `steps`, fitted to the vectors it holds now; what is to be said about it.

        Raises
        ------
        slotrag.UsageError
            The vectors or the encoder do not allow a step.
        FingerprintMismatch
            The collection's encoder is not what it was.
        slotrag.rag.events.Cancelled
        """
        catalog, keeper = self.parts.catalog, self.parts.keeper
        encoder = self.parts.shelf.of(collection)
        rows = len(catalog.passage_ids(collection.id))
        fitted = fit_to(steps, rows, lambda: self._raw(collection, rows), encoder)
        if steps and fitted.postprocessing is None:  # too few passages
            kept = [f"The post-processing stays {now}."] if (now := self.steps_of(collection)) else []
            return collection, fitted.notices + kept
        if self._is_current(collection, fitted.postprocessing):
            return collection, fitted.notices
        new = fitted.postprocessing
        number = catalog.next_postprocessing(collection.id) if new is not None else 0
        index = keeper.prepare(replace(collection, postprocessing=number), new, self._check)
        level = self._level(collection, index, encoder, new)
        self._check()
        stored = to_store(new, fitted.origin) if new is not None else None
        record = catalog.set_postprocessing(collection.id, number, stored, noise_level=level)
        keeper.adopt(collection, record, index)
        return record, fitted.notices

    def _is_current(self, collection: CollectionRecord, wanted: Postprocessing | None) -> bool:
        try:
            return self.parts.keeper.postprocessings.of(collection) == wanted
        except PostprocessingLost:
            return False

    def _raw(self, collection: CollectionRecord, rows: int) -> Iterator[np.ndarray]:
        done = 0
        for ids, vectors in self.parts.catalog.vectors(collection.id):
            self._check()
            done += len(ids)
            if self.listener is not None:
                self.listener(Progress("index", done, rows, "passages", "fitting the post-processing"))
            yield vectors

    def _level(
        self, collection: CollectionRecord, index: VectorIndex, encoder: Encoder, new: Postprocessing | None
    ) -> float | None:
        """The noise level under the new setting: everyday questions are encoded, no document is."""
        if not len(index):
            return None
        vectors = encoder.encode_queries(questions(main_language(self.parts.catalog, collection)))
        found = index.search(vectors if new is None else new.apply(vectors), 1)
        return noise_level([float(scores[0]) for _, scores in found if len(scores)])

    def _check(self) -> None:
        if self.cancel is not None:
            self.cancel.raise_if_cancelled()
