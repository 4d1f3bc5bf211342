"""Mean pooling over the token states of a frozen language model: the encoder ``mean``. It trains nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .backbones.frozen import FrozenLM
from .bare_text import DEFAULT_BACKBONE, BareTextEncoder, TextSettings
from .errors import UnknownParameter
from .fingerprint import fingerprint
from .pooling import pool, without_first
from .spec import EncoderSpec

if TYPE_CHECKING:
    import numpy as np

    from .backbones.store import ModelStore

_VERSION = 1
"""Counted up when the same model and parameters give other vectors than before."""


@dataclass(frozen=True, slots=True)
class MeanRecipe:
    """All that makes a `MeanEncoder`'s vectors: the model's folder, whose states are averaged, and of what text."""

    folder: Path
    dtype: str
    last_layer: bool
    sink: bool
    max_length: int
    query_prefix: str
    passage_prefix: str


class MeanEncoder(BareTextEncoder):
    """The mean of a text's token states, as sentence-transformers' mean pooling computes it but for `sink`.

    The default backbone is ``minilm-l6``. Parameters of the spec:

    ``layer``
        Whose states are pooled: 0 embeddings, k after k layers, -1 (default) the last after the final norm. A causal
        model does not run the layers above it.
    ``sink``
        Whether the first token takes part. By default it does but for a causal language model: there every later token
        attends to it, and its states, ten and more times longer than the others (arXiv 2402.17762), would drown them
        in the mean. A text of one token keeps it.
    ``query_prefix``, ``passage_prefix``
        Put before every text; by default what the catalogue says the model was trained with. The prefix's tokens and
        the special tokens take part in the mean.
    ``max_length``
        Tokens of one input, special tokens included; by default what the model's own configuration says.
    ``dtype``
        ``float32`` (default), ``bfloat16`` or ``float16``.

    `forward_seconds` is the time spent in the backbone so far.
    """

    def __init__(
        self,
        language_model: FrozenLM,
        *,
        spec: str,
        fingerprint: str,
        max_length: int,
        query_prefix: str = "",
        passage_prefix: str = "",
        layer: int = -1,
        sink: bool = True,
    ) -> None:
        self._layer = layer % (language_model.layers + 1)
        self._sink = sink
        super().__init__(
            language_model,
            spec=spec,
            fingerprint=fingerprint,
            dimension=language_model.width(self._layer),
            max_length=max_length,
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
        )

    @classmethod
    def from_spec(cls, spec: EncoderSpec, models: ModelStore, *, device: str = "auto") -> MeanEncoder:
        """Build ``mean[@BACKBONE]``; see the class for its parameters."""
        backbone = spec.backbone or DEFAULT_BACKBONE
        reader = spec.reader()
        settings = TextSettings.read(reader, backbone)
        layer = reader.integer("layer", -1)
        asked_sink = None if reader.optional_text("sink") is None else reader.flag("sink", True)
        reader.finish()

        language_model = settings.load(models, device)
        sink = not language_model.decoder if asked_sink is None else asked_sink
        states = language_model.layers + 1
        if not -states <= layer < states:
            raise UnknownParameter(f"layer is between {-states} and {states - 1} for {backbone}, not {layer}")
        layer = layer % states
        max_length = settings.length(language_model)
        facts = {"method": "mean", "version": _VERSION, "layer": layer, **settings.facts(models, max_length)}
        if not sink:
            facts["sink"] = False
        return cls(
            language_model,
            spec=str(EncoderSpec(spec.name, backbone, spec.parameters)),
            fingerprint=fingerprint(facts),
            max_length=max_length,
            query_prefix=settings.query_prefix,
            passage_prefix=settings.passage_prefix,
            layer=layer,
            sink=sink,
        )

    @property
    def recipe(self) -> MeanRecipe:
        """What another program needs to make the same vectors."""
        model = self._language_model
        return MeanRecipe(
            folder=model.folder,
            dtype=str(model.dtype).removeprefix("torch."),
            last_layer=self._layer == model.layers,
            sink=self._sink,
            max_length=self._max_length,
            query_prefix=self._query_prefix,
            passage_prefix=self._passage_prefix,
        )

    def unembedding(self) -> np.ndarray:
        """The backbone's unembedding matrix, float32, shape (vocabulary, width), where it is a causal model."""
        return self._language_model.unembedding()

    def _rows(self, token_lists: list[Sequence[int]]) -> np.ndarray:
        states, mask = self._language_model.states_at(token_lists, self._layer)
        return pool(states, mask if self._sink else without_first(mask)).cpu().numpy()
