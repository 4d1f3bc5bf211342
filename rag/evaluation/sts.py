"""Semantic textual similarity: how well the cosine of two sentences' vectors follows people's judgement.

It knows no file form and prints nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import SlotragError
from ...encoders.estimates import Estimate, bootstrap
from ..events import CancelToken, ProgressListener
from .correlation import pearson, spearman
from .pairs import read_pairs
from .running import OWN, Run, postprocessed, require_side

if TYPE_CHECKING:
    from ...encoders.backbones.store import ModelStore
    from ...encoders.base import Encoder

MEASURES = {"spearman": spearman, "pearson": pearson}


@dataclass(frozen=True, slots=True)
class StsScores:
    """What `evaluate_sts` found.

    Attributes
    ----------
    texts : int
        Different sentences, each encoded once.
    postprocessing : str
        What was done to the vectors.
    scores : dict of str to Estimate
        ``spearman`` and ``pearson``, -1 to 1, with their 95 % intervals over the pairs.
    forward_seconds : float
        Of `seconds`, how many were spent in the encoder's backbone.
    """

    dataset: str
    encoder: str
    fingerprint: str
    encoded_as: str
    postprocessing: str
    pairs: int
    texts: int
    scores: dict[str, Estimate]
    seconds: float
    forward_seconds: float

    def to_json(self) -> dict[str, Any]:
        """The value that ``slotrag eval sts --json`` writes."""
        return {"schema": 1, **asdict(self)}


def evaluate_sts(
    pairs: Path,
    *,
    encoder: Encoder | str,
    models: ModelStore | None = None,
    gold: Path | None = None,
    columns: Sequence[str] | None = None,
    encoded_as: str = "passage",
    postprocessing: str = OWN,
    device: str = "auto",
    progress: ProgressListener | None = None,
    cancel: CancelToken | None = None,
) -> StsScores:
    """Measure the correlation of cosines and gold scores over all pairs of a file ("all": no mean over parts).

    Parameters
    ----------
    pairs, gold, columns
        See `slotrag.rag.evaluation.pairs.read_pairs`.
    encoder : Encoder or str
        An encoder or its spec.
    encoded_as : str
        ``passage`` or ``query``, both sentences alike.
    postprocessing : str
        ``own``, ``none``, or steps whose statistics are taken from the file's own sentences (not from its scores).

    Raises
    ------
    DatasetError
        The file is of none of the forms.
    slotrag.UsageError, slotrag.SlotragError
        The encoder cannot be built.
    slotrag.rag.events.Cancelled
    """
    import numpy as np

    started = time.perf_counter()
    require_side(encoded_as)
    data = read_pairs(pairs, gold=gold, columns=columns)
    run = Run(progress, cancel)
    loaded = run.load(encoder, models, device)
    before = getattr(loaded, "forward_seconds", 0.0)
    vectors = run.encode(loaded, [*data.first, *data.second], encoded_as)
    vectors, steps = postprocessed(loaded, vectors, postprocessing)
    cosines = np.einsum("ij,ij->i", vectors[: len(data)], vectors[len(data) :])
    judged = np.asarray(data.gold)
    scores = {
        name: bootstrap(
            lambda places, measure=measure: measure(cosines[places], judged[places]),
            len(data),
            report=lambda done, total: run.report(done, total, "resamples"),
        )
        for name, measure in MEASURES.items()
    }
    if not all(math.isfinite(found.value) for found in scores.values()):
        raise SlotragError(f"{loaded.spec} gives every pair of {data.name} the same cosine, so it cannot be measured.")
    return StsScores(
        dataset=data.name,
        encoder=loaded.spec,
        fingerprint=loaded.fingerprint,
        encoded_as=encoded_as,
        postprocessing=steps,
        pairs=len(data),
        texts=len({*data.first, *data.second}),
        scores=scores,
        seconds=time.perf_counter() - started,
        forward_seconds=getattr(loaded, "forward_seconds", 0.0) - before,
    )
