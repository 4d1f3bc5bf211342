"""The encoder interface: texts in, unit vectors out. It knows no model, no storage and no index.

A plug-in author implements `Encoder` (this page is the whole contract), registers the class under the entry-point
group ``slotrag.encoders`` and subclasses ``slotrag.encoders.conformance.EncoderConformance`` as a test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from .backbones.store import ModelStore
    from .spec import EncoderSpec


@dataclass(frozen=True, slots=True)
class Parts:
    """What beside its own text and the installed code decides the vectors of a spec.

    Attributes
    ----------
    models : tuple of str
        Names of models, as a `ModelStore` takes them.
    encoders : tuple of str
        Specs of the encoders within it.
    files : tuple of str
        Paths of other files that are read.
    """

    models: tuple[str, ...] = ()
    encoders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class Encoder(ABC):
    """Turns texts into unit vectors.

    A class is registered by name; `from_spec` builds one from a parsed command-line spec.

    Attributes
    ----------
    spec : str
        Canonical spec, e.g. ``mean@minilm-l6``; `from_spec` of it gives an equal encoder.
    fingerprint : str
        64 hex digits: hash of everything that changes a vector (name, parameters, prompt, pooling, calibration,
        the weights' and tokenizer's sha256), and of nothing else (not device, not dtype unless the spec names it).
    dimension : int
        Length of a vector.
    max_tokens : int
        Most tokens of one passage (as counted by `token_offsets`) that reach the vector; the encoder's own prompt and
        special tokens are already subtracted. Longer texts are cut at the end of the text. A query never gets more
        of its tokens in than this; a longer prompt may leave it fewer.

    An encoder with a model may have `forward_seconds`, the seconds spent in the model's forward passes so far.

    The vectors are raw; what a collection compares are these after its post-processing (mean removal, whitening ...).
    An encoder may have `postprocessing`, a `slotrag.encoders.postprocessing.Postprocessing` of `dimension` inputs, that
    a new collection starts with, and over a causal language model ``unembedding()``, the float32 matrix of shape
    (vocabulary, dimension) that gives its logits, which the step ``embedfilter`` needs.
    """

    spec: str
    fingerprint: str
    dimension: int
    max_tokens: int

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: EncoderSpec, models: ModelStore, *, device: str = "auto") -> Encoder:
        """Build the encoder that `spec` describes, its model files coming from `models`.

        Raises
        ------
        slotrag.UsageError
            An unknown parameter or a value out of range.
        slotrag.SlotragError
            A model is missing and may not be fetched.
        """

    @classmethod
    def parts(cls, spec: EncoderSpec) -> Parts | None:
        """What the vectors of `spec` depend on, told without loading a model; None where that is not known.

        By default the backbone, and None without one or where a parameter looks like a spec of its own. An encoder of
        other parts says them here, so that indexing an unchanged folder need not load its models.
        """
        nested = any("@" in value or "(" in value for _, value in spec.parameters)
        return None if spec.backbone is None or nested else Parts(models=(spec.backbone,))

    @abstractmethod
    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Character spans ``[start, end)`` of the tokens of `text`, without special tokens and prompt."""

    @abstractmethod
    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of passages: float32, shape (len(texts), dimension), rows of unit length, order kept."""

    @abstractmethod
    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of queries: float32, shape (len(texts), dimension), rows of unit length, order kept."""
