"""What every measurement does: report progress, stop when cancelled, load its encoder and encode each text once.

It knows no data set and no measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ... import UsageError
from ..events import CancelToken, Progress, ProgressListener

if TYPE_CHECKING:
    import numpy as np

    from ...encoders.backbones.store import ModelStore
    from ...encoders.base import Encoder

SIDES = ("passage", "query")
"""As what a text is encoded; some encoders put other words before a query than before a passage."""

OWN = "own"
"""The post-processing that the encoder brings along, if any."""

_BATCH_TEXTS = 256


class Run:
    """Passes progress on and stops the work when it is cancelled."""

    def __init__(self, listener: ProgressListener | None = None, cancel: CancelToken | None = None) -> None:
        self._listener, self._cancel = listener, cancel

    def report(self, done: int, total: int | None, unit: str, stage: str = "evaluate", message: str = "") -> None:
        """Say how far it is. Raises `slotrag.rag.events.Cancelled`."""
        self.check()
        if self._listener is not None:
            self._listener(Progress(stage, done, total, unit, message))

    def check(self) -> None:
        """Raises `slotrag.rag.events.Cancelled` where the work is cancelled."""
        if self._cancel is not None:
            self._cancel.raise_if_cancelled()

    def load(self, encoder: Encoder | str, models: ModelStore | None, device: str) -> Encoder:
        """The encoder, built where only its spec is given."""
        if not isinstance(encoder, str):
            return encoder
        from ...encoders import registry

        self.report(0, 1, "encoders", "load", encoder)
        return registry.create(encoder, models, device=device)

    def encode(self, encoder: Encoder, texts: Sequence[str], side: str = "passage") -> np.ndarray:
        """Vectors of `texts`, float32 of shape (len(texts), dimension); a text that is there twice is encoded once."""
        import numpy as np

        require_side(side)
        encode = encoder.encode_queries if side == "query" else encoder.encode_documents
        # By length, so that a batch holds texts of one length and is not padded.
        unique = sorted(dict.fromkeys(texts), key=len)
        vectors = np.empty((len(unique), encoder.dimension), dtype=np.float32)
        self.report(0, len(unique), "texts", "encode")
        for start in range(0, len(unique), _BATCH_TEXTS):
            batch = unique[start : start + _BATCH_TEXTS]
            vectors[start : start + len(batch)] = encode(batch)
            self.report(start + len(batch), len(unique), "texts", "encode")
        places = {text: place for place, text in enumerate(unique)}
        return vectors[[places[text] for text in texts]]


def require_side(side: str) -> None:
    """Raises `slotrag.UsageError` for what is none of `SIDES`."""
    if side not in SIDES:
        raise UsageError(f"Texts are encoded as {' or '.join(SIDES)}, not as {side!r}.")


def postprocessed(
    encoder: Encoder, vectors: np.ndarray, steps: str, fitted_on: np.ndarray | None = None
) -> tuple[np.ndarray, str]:
    """Vectors after post-processing, and the name of its steps.

    Parameters
    ----------
    vectors : float32, shape (n, dimension)
    steps : str
        ``own`` (the encoder's, with the statistics it brings along), ``none``, or steps such as ``mean+top=3``.
    fitted_on : float32, shape (m, dimension)
        Where given steps take their statistics from; `vectors` themselves when left out.
    """
    if steps == OWN:
        own = getattr(encoder, "postprocessing", None)
        return (vectors, "none") if own is None else (own.apply(vectors), f"{own.steps} (the encoder's own)")
    from ...encoders.postprocessing_fit import fit
    from ...encoders.postprocessing_steps import parse_steps

    parsed = parse_steps(steps)
    if not parsed:
        return vectors, str(parsed)
    unembedding = getattr(encoder, "unembedding", None)
    rows = vectors if fitted_on is None else fitted_on
    needed = unembedding() if unembedding is not None and parsed.need_unembedding else None
    chosen = fit(str(parsed), [rows], unembedding=needed)
    return chosen.apply(vectors), chosen.steps
