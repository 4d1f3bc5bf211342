"""An encoder without a model, for tests: hashed words, no torch, instant. It knows no meaning.

Texts that share words have a high cosine, so search finds them; its vectors are the same on every machine. It is a
plug-in like any other: this folder on ``sys.path`` or ``PYTHONPATH`` registers the encoder ``hashing``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b, sha256

import numpy as np
from slotrag.encoders.base import Encoder
from slotrag.encoders.spec import EncoderSpec

# A run of word characters, or a single one of a script that is written without spaces.
_TOKEN = re.compile(r"[぀-ヿ㐀-鿿가-힣]|[^\W぀-ヿ㐀-鿿가-힣]+")


class HashingEncoder(Encoder):
    """Signed sums of hashed words: parameters ``dimension`` (default 64), ``max_tokens`` (200) and ``seed`` (0).

    `calls` counts the texts encoded since the class was loaded, for tests that an unchanged text is not encoded again.
    """

    calls = 0

    def __init__(self, dimension: int, max_tokens: int, seed: int, spec: EncoderSpec) -> None:
        self.spec = str(spec)
        self.dimension = dimension
        self.max_tokens = max_tokens
        self.fingerprint = sha256(f"hashing 1 {dimension} {max_tokens} {seed}".encode()).hexdigest()
        self.forward_seconds = 0.0
        self._seed = seed

    @classmethod
    def from_spec(cls, spec: EncoderSpec, models: object, *, device: str = "auto") -> HashingEncoder:
        reader = spec.reader()
        dimension = reader.integer("dimension", 64, least=2)
        max_tokens = reader.integer("max_tokens", 200, least=1)
        seed = reader.integer("seed", 0)
        reader.finish()
        return cls(dimension, max_tokens, seed, spec)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in _TOKEN.finditer(text)]

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        HashingEncoder.calls += len(texts)
        return self._encode(texts)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts)

    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for start, end in self.token_offsets(text)[: self.max_tokens]:
                place, sign = _place(text[start:end].lower(), self.dimension, self._seed)
                vector[place] += sign
            if not vector.any():
                vector[0] = 1.0
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@lru_cache(maxsize=100_000)
def _place(word: str, dimension: int, seed: int) -> tuple[int, float]:
    digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8, salt=seed.to_bytes(8, "little", signed=True))
    number = int.from_bytes(digest.digest(), "little")
    return (number >> 1) % dimension, 1.0 if number & 1 else -1.0
