"""Mean pooling over the token states of a frozen language model: the encoder ``mean``. It trains nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .backbones.catalogue import ModelEntry, entries, find
from .backbones.frozen import DTYPES, FrozenLM
from .base import Encoder
from .batching import batch_limits, encode_in_batches
from .errors import UnknownParameter
from .fingerprint import fingerprint
from .pooling import pool, unit_rows
from .spec import EncoderSpec
from .tokens import TextTokens

if TYPE_CHECKING:
    import numpy as np

    from .backbones.store import ModelStore

DEFAULT_BACKBONE = "minilm-l6"
_VERSION = 1
"""Counted up when the same model and parameters give other vectors than before."""

_LONGEST_BY_DEFAULT = 8192


@dataclass(frozen=True, slots=True)
class MeanRecipe:
    """All that makes a `MeanEncoder`'s vectors: the model's folder, whose states are averaged, and of what text."""

    folder: Path
    dtype: str
    last_layer: bool
    max_length: int
    query_prefix: str
    passage_prefix: str


class MeanEncoder(Encoder):
    """The mean of a text's token states, as sentence-transformers' mean pooling computes it.

    The default backbone is ``minilm-l6``. Parameters of the spec:

    ``layer``
        Whose states are pooled: 0 embeddings, k after k layers, -1 (default) the last after the final norm. A causal
        model does not run the layers above it.
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
    ) -> None:
        self.spec = spec
        self.fingerprint = fingerprint
        self._language_model = language_model
        self._layer = layer % (language_model.layers + 1)
        self.dimension = language_model.width(self._layer)
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix
        self._max_length = max_length
        self._tokens = TextTokens(language_model.tokenizer, max_length, passage_prefix, query_prefix)
        self.max_tokens = self._tokens.max_tokens
        self._budget, self._most = batch_limits(language_model.device.type)

    @classmethod
    def from_spec(cls, spec: EncoderSpec, models: ModelStore, *, device: str = "auto") -> MeanEncoder:
        """Build ``mean[@BACKBONE]``; see the class for its parameters."""
        backbone = spec.backbone or DEFAULT_BACKBONE
        entry = known_entry(backbone)
        reader = spec.reader()
        query_prefix = reader.text("query_prefix", entry.query_prefix if entry else "")
        passage_prefix = reader.text("passage_prefix", entry.passage_prefix if entry else "")
        dtype = reader.choice("dtype", "float32", DTYPES)
        layer = reader.integer("layer", -1)
        asked_length = reader.integer("max_length", 0, least=0)
        reader.finish()

        language_model = FrozenLM.load(models.resolve(backbone), device=device, dtype=dtype)
        states = language_model.layers + 1
        if not -states <= layer < states:
            raise UnknownParameter(f"layer is between {-states} and {states - 1} for {backbone}, not {layer}")
        layer = layer % states
        own_length = _own_length(language_model)
        if asked_length > language_model.window:
            raise UnknownParameter(f"max_length is at most {language_model.window} for {backbone}, not {asked_length}")
        max_length = asked_length or own_length
        facts = {
            "method": "mean",
            "version": _VERSION,
            "weights": models.weights_sha256(backbone),
            "tokenizer": models.tokenizer_sha256(backbone),
            "layer": layer,
            "max_length": max_length,
            "query_prefix": query_prefix,
            "passage_prefix": passage_prefix,
        }
        if dtype != "float32":
            facts["dtype"] = dtype
        return cls(
            language_model,
            spec=str(EncoderSpec(spec.name, backbone, spec.parameters)),
            fingerprint=fingerprint(facts),
            max_length=max_length,
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
            layer=layer,
        )

    @property
    def recipe(self) -> MeanRecipe:
        """What another program needs to make the same vectors."""
        model = self._language_model
        return MeanRecipe(
            folder=model.folder,
            dtype=str(model.dtype).removeprefix("torch."),
            last_layer=self._layer == model.layers,
            max_length=self._max_length,
            query_prefix=self._query_prefix,
            passage_prefix=self._passage_prefix,
        )

    @property
    def forward_seconds(self) -> float:
        """Seconds spent in the backbone's forward passes so far."""
        return self._language_model.forward_seconds

    def unembedding(self) -> np.ndarray:
        """The backbone's unembedding matrix, float32, shape (vocabulary, width), where it is a causal model."""
        return self._language_model.unembedding()

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return self._tokens.offsets(text, self._passage_prefix)

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, self._passage_prefix)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, self._query_prefix)

    def _encode(self, texts: Sequence[str], prefix: str) -> np.ndarray:
        rows = encode_in_batches(
            self._tokens.ids(texts, prefix), self._pooled, self.dimension, budget=self._budget, most=self._most
        )
        return unit_rows(rows)

    def _pooled(self, token_lists: list[Sequence[int]]) -> np.ndarray:
        states, mask = self._language_model.states_at(token_lists, self._layer)
        return pool(states, mask).cpu().numpy()


def known_entry(model: str) -> ModelEntry | None:
    """What the catalogue knows of a model by its name or its hub id: the prefixes it was trained with."""
    return find(model) or next((entry for entry in entries() if entry.repository == model), None)


def _own_length(language_model: FrozenLM) -> int:
    """Tokens of one input: what the model's sentence-transformers configuration says, else its window."""
    longest = min(language_model.window, language_model.tokenizer.model_max_length or language_model.window)
    configuration: Path = language_model.folder / "sentence_bert_config.json"
    if configuration.is_file():
        stated = json.loads(configuration.read_text(encoding="utf-8")).get("max_seq_length")
        if isinstance(stated, int) and stated > 0:
            return min(stated, longest)
    # Longer inputs are possible, but their attention takes gigabytes.
    return min(longest, _LONGEST_BY_DEFAULT)
