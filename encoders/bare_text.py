"""What encoders that give a frozen model the bare text share: prefixes, special tokens, length, batches, unit vectors.

It knows no way to turn a batch's states into vectors; `mean` and the trained heads each have theirs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .backbones.catalogue import ModelEntry, entries, find
from .backbones.frozen import DTYPES, FrozenLM
from .base import Encoder
from .batching import batch_limits, encode_in_batches
from .lengths import require_readable, text_length
from .pooling import unit_rows
from .tokens import TextTokens

if TYPE_CHECKING:
    import numpy as np

    from .backbones.store import ModelStore
    from .spec import ParameterReader

DEFAULT_BACKBONE = "minilm-l6"


@dataclass(frozen=True, slots=True)
class TextSettings:
    """The parameters that all of these encoders have.

    Attributes
    ----------
    backbone : str
        Name of the model.
    query_prefix, passage_prefix : str
        Put before every text; the prefix's tokens and the special tokens count as the text's.
    dtype : str
        Of the backbone.
    max_length : int
        Tokens of one input as asked for, special tokens included; 0 for what the model's own configuration says.
    """

    backbone: str
    query_prefix: str
    passage_prefix: str
    dtype: str
    max_length: int

    @classmethod
    def read(
        cls,
        reader: ParameterReader,
        backbone: str,
        *,
        prefixes: tuple[str, str] | None = None,
        max_length: int = 0,
    ) -> TextSettings:
        """Read ``query_prefix``, ``passage_prefix``, ``dtype`` and ``max_length``.

        Parameters
        ----------
        prefixes, max_length
            The defaults; by default the prefixes that the catalogue says the model was trained with.
        """
        if prefixes is None:
            entry = known_entry(backbone)
            prefixes = (entry.query_prefix, entry.passage_prefix) if entry else ("", "")
        return cls(
            backbone=backbone,
            query_prefix=reader.text("query_prefix", prefixes[0]),
            passage_prefix=reader.text("passage_prefix", prefixes[1]),
            dtype=reader.choice("dtype", "float32", DTYPES),
            max_length=reader.integer("max_length", max_length, least=0),
        )

    def load(self, models: ModelStore, device: str) -> FrozenLM:
        """The backbone."""
        return FrozenLM.load(models.resolve(self.backbone), device=device, dtype=self.dtype)

    def length(self, language_model: FrozenLM) -> int:
        """Tokens of one input. Raises `slotrag.UsageError` where more are asked for than the model reads."""
        require_readable(self.max_length, language_model, self.backbone)
        return self.max_length or text_length(language_model)

    def facts(self, models: ModelStore, max_length: int) -> dict[str, Any]:
        """What of a fingerprint follows from these settings."""
        facts: dict[str, Any] = {
            "weights": models.weights_sha256(self.backbone),
            "tokenizer": models.tokenizer_sha256(self.backbone),
            "max_length": max_length,
            "query_prefix": self.query_prefix,
            "passage_prefix": self.passage_prefix,
        }
        if self.dtype != "float32":
            facts["dtype"] = self.dtype
        return facts


class BareTextEncoder(Encoder):
    """An encoder over a frozen model that is given each text with a prefix and nothing else.

    `forward_seconds` is the time spent in the backbone so far.
    """

    def __init__(
        self,
        language_model: FrozenLM,
        *,
        spec: str,
        fingerprint: str,
        dimension: int,
        max_length: int,
        query_prefix: str = "",
        passage_prefix: str = "",
    ) -> None:
        self.spec = spec
        self.fingerprint = fingerprint
        self.dimension = dimension
        self._language_model = language_model
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix
        self._max_length = max_length
        self._tokens = TextTokens(language_model.tokenizer, max_length, passage_prefix, query_prefix)
        self.max_tokens = self._tokens.max_tokens
        self._budget, self._most = batch_limits(language_model.device.type)

    @property
    def forward_seconds(self) -> float:
        """Seconds spent in the backbone's forward passes so far."""
        return self._language_model.forward_seconds

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return self._tokens.offsets(text, self._passage_prefix)

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, self._passage_prefix)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, self._query_prefix)

    def _encode(self, texts: Sequence[str], prefix: str) -> np.ndarray:
        rows = encode_in_batches(
            self._tokens.ids(texts, prefix), self._rows, self.dimension, budget=self._budget, most=self._most
        )
        return unit_rows(rows)

    @abstractmethod
    def _rows(self, token_lists: list[Sequence[int]]) -> np.ndarray:
        """Float32 rows of any length, shape (len(token_lists), dimension), of one batch."""


def known_entry(model: str) -> ModelEntry | None:
    """What the catalogue knows of a model by its name or its hub id: the prefixes it was trained with."""
    return find(model) or next((entry for entry in entries() if entry.repository == model), None)
