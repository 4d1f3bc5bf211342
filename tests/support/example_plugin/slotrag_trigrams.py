"""The encoder ``trigrams`` for slotrag: hashed trigrams of characters, so that a misspelt word stays near.

It is what another author's package looks like: a class that implements `slotrag.Encoder`, named in the package's
pyproject.toml under the entry-point group ``slotrag.encoders``. It knows no meaning and needs no model.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence

import numpy as np
from slotrag import Encoder
from slotrag.encoders.fingerprint import fingerprint
from slotrag.encoders.spec import EncoderSpec

_WORD = re.compile(r"\w+|[^\w\s]")


class TrigramEncoder(Encoder):
    """Square roots of the counts of a text's trigrams, hashed to ``dimension`` places (256), by the first
    ``max_tokens`` words (200)."""

    def __init__(self, spec: str, dimension: int, max_tokens: int) -> None:
        self.spec = spec
        self.dimension = dimension
        self.max_tokens = max_tokens
        self.fingerprint = fingerprint({"method": "trigrams", "version": 1, "dimension": dimension, "most": max_tokens})

    @classmethod
    def from_spec(cls, spec: EncoderSpec, models: object, *, device: str = "auto") -> TrigramEncoder:
        reader = spec.reader()
        dimension = reader.integer("dimension", 256, least=8)
        max_tokens = reader.integer("max_tokens", 200, least=1)
        reader.finish()
        return cls(str(spec), dimension, max_tokens)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in _WORD.finditer(text)]

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for trigram in self._trigrams(text):
                digest = hashlib.sha256(trigram.encode("utf-8", "surrogatepass")).digest()
                row[int.from_bytes(digest[:8], "big") % self.dimension] += 1
        rows = np.sqrt(rows)
        rows[rows.sum(axis=1) == 0, 0] = 1.0
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self.encode_documents(texts)

    def _trigrams(self, text: str) -> list[str]:
        words = [unicodedata.normalize("NFC", text[start:end]).lower() for start, end in self.token_offsets(text)]
        padded = [f" {word} " for word in words[: self.max_tokens]]
        return [word[place : place + 3] for word in padded for place in range(len(word) - 2)]
