"""A test suite that every encoder must pass; a plug-in's author subclasses it. It needs no test runner to import.

In the plug-in's tests (pytest collects the inherited tests)::

    from slotrag.encoders.conformance import EncoderConformance

    class TestMyEncoder(EncoderConformance):
        spec = "myencoder@minilm-l6"
        different = ["myencoder@minilm-l6:strength=2"]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from . import registry
from .base import Encoder
from .spec import EncoderSpec

if TYPE_CHECKING:
    import numpy as np

    from .backbones.store import ModelStore

_WORDS = tuple(
    re.findall(r"\w+", "the wing of an aircraft bends under load while heat flows through its thin skin at high speed")
)

STRANGE_TEXTS = {
    "empty": "",
    "white space": " \t\n ",
    "one letter": "a",
    "zero width": "\u200b",
    "zero width inside": "wi\u200bng\u200d",
    "byte order mark": "\ufeffwing",
    "nul": "wing\x00flutter",
    "only nul": "\x00",
    "lone surrogate": "wing \ud800 flutter",
    "only lone surrogates": "\udfff\ud800",
    "control characters": "\x01\x02\x1b[31m",
    "combining marks": "e\u0301" * 20,
    "emoji": "👩‍👩‍👧 🇰🇷 🚀",
    "korean": "회의는 화요일 오후 세 시에 열립니다.",
    "korean decomposed": "\u1112\u116c\u110b\u1174",
    "no spaces": "x" * 3000,
    "markers": "[CLS] </s> <|im_end|> [PAD] [MASK] <s> <PST>",
    "right to left": "\u202eabc\u202c שלום",
}
"""Texts that once broke some encoder; each must give a finite unit vector."""

PLAIN_TEXTS = [
    "The boundary layer grows.",
    "Heat transfer at supersonic speed, measured for 3.14 seconds in 1958.",
    "회의는 화요일 오후 세 시에 열립니다.",
    "a",
    "Who wrote the report, when was it written, and what does it say about the flutter of thin wings at Mach 2?",
    "wing",
    "def main(argv): return 0",
]


class EncoderConformance:
    """What every encoder promises.

    Attributes
    ----------
    spec : str
        The encoder under test; it must be registered (an installed entry point).
    different : sequence of str
        Specs of the same encoder that must give other vectors, each with its own fingerprint.
    models : ModelStore, optional
        Where models come from; the default store when None.
    tolerance : float
        Largest difference of a vector's value that batches, order and padding may make.
    """

    spec: ClassVar[str]
    different: ClassVar[Sequence[str]] = ()
    models: ClassVar[ModelStore | None] = None
    tolerance: ClassVar[float] = 1e-5
    _made: ClassVar[dict[tuple[object, str], Encoder]] = {}

    def make(self, spec: str | None = None) -> Encoder:
        """A new encoder."""
        return registry.create(spec or self.spec, self.models)

    def encoder(self) -> Encoder:
        """The encoder under test, built once."""
        key = (type(self), self.spec)
        if key not in self._made:
            self._made[key] = self.make()
        return self._made[key]

    # What an encoder says of itself

    def test_attributes(self) -> None:
        encoder = self.encoder()
        assert isinstance(encoder, Encoder)
        assert isinstance(encoder.dimension, int) and encoder.dimension > 0
        assert isinstance(encoder.max_tokens, int) and encoder.max_tokens > 0
        assert len(encoder.fingerprint) == 64 and set(encoder.fingerprint) <= set("0123456789abcdef")

    def test_the_post_processing_that_it_brings_along_fits_its_vectors(self) -> None:
        encoder = self.encoder()
        own = getattr(encoder, "postprocessing", None)
        if own is None:
            return
        vectors = own.apply(encoder.encode_documents(PLAIN_TEXTS))
        assert own.dimension_in == encoder.dimension and vectors.shape == (len(PLAIN_TEXTS), own.dimension_out)
        assert type(own).from_bytes(own.to_bytes()) == own

    def test_spec_builds_an_equal_encoder(self) -> None:
        encoder = self.encoder()
        assert str(EncoderSpec.parse(encoder.spec)) == encoder.spec, "the spec is not in canonical form"
        again = self.make(encoder.spec)
        assert (again.spec, again.fingerprint) == (encoder.spec, encoder.fingerprint)
        assert (again.dimension, again.max_tokens) == (encoder.dimension, encoder.max_tokens)
        self.assert_close(again.encode_documents(PLAIN_TEXTS), encoder.encode_documents(PLAIN_TEXTS))

    def test_parameters_change_the_fingerprint(self) -> None:
        specs = [self.spec, *self.different]
        fingerprints = {self.make(spec).fingerprint for spec in specs}
        assert len(fingerprints) == len(specs), "two parameters share a fingerprint"

    def test_unknown_parameter_is_refused(self) -> None:
        from .. import UsageError

        parsed = EncoderSpec.parse(self.spec)
        wrong = EncoderSpec(parsed.name, parsed.backbone, (*parsed.parameters, ("no_such_parameter", "1")))
        try:
            self.make(str(wrong))
        except UsageError as error:
            assert "no_such_parameter" in str(error)
        else:
            raise AssertionError("an unknown parameter was ignored")

    # Vectors

    def test_shape_type_and_length(self) -> None:
        import numpy as np

        encoder = self.encoder()
        for encode in (encoder.encode_documents, encoder.encode_queries):
            for count in (1, 2, len(PLAIN_TEXTS)):
                vectors = encode(PLAIN_TEXTS[:count])
                assert vectors.shape == (count, encoder.dimension)
                assert vectors.dtype == np.float32
                np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)

    def test_no_texts(self) -> None:
        import numpy as np

        encoder = self.encoder()
        for encode in (encoder.encode_documents, encoder.encode_queries):
            vectors = encode([])
            assert vectors.shape == (0, encoder.dimension)
            assert vectors.dtype == np.float32

    def test_other_sequences_than_lists(self) -> None:
        encoder = self.encoder()
        self.assert_close(encoder.encode_documents(tuple(PLAIN_TEXTS)), encoder.encode_documents(PLAIN_TEXTS))

    def test_texts_differ(self) -> None:
        vectors = self.encoder().encode_documents(PLAIN_TEXTS)
        cosines = vectors @ vectors.T
        for row in range(len(cosines)):
            assert (cosines[row].argsort()[-1] == row) and (cosines[row] > 1 - 1e-6).sum() == 1

    def test_strange_texts(self) -> None:
        import numpy as np

        encoder = self.encoder()
        for encode in (encoder.encode_documents, encoder.encode_queries):
            together = encode(list(STRANGE_TEXTS.values()))
            assert np.isfinite(together).all()
            np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
            for name, alone in zip(STRANGE_TEXTS, together, strict=True):
                self.assert_close(encode([STRANGE_TEXTS[name]])[0], alone, name)

    def test_deterministic(self) -> None:
        encoder = self.encoder()
        first, second = encoder.encode_documents(PLAIN_TEXTS), encoder.encode_documents(PLAIN_TEXTS)
        assert (first == second).all()

    # The same vector in any company

    def test_batch_and_padding_make_no_difference(self) -> None:
        encoder = self.encoder()
        texts = [*PLAIN_TEXTS, _prose(min(encoder.max_tokens, 400))]
        for encode in (encoder.encode_documents, encoder.encode_queries):
            together = encode(texts)
            for text, vector in zip(texts, together, strict=True):
                self.assert_close(encode([text])[0], vector, text[:40])

    def test_order_makes_no_difference(self) -> None:
        encoder = self.encoder()
        texts = [*PLAIN_TEXTS, _prose(40), *PLAIN_TEXTS, ""]
        forwards, backwards = encoder.encode_documents(texts), encoder.encode_documents(texts[::-1])
        self.assert_close(backwards[::-1], forwards)
        self.assert_close(forwards[: len(PLAIN_TEXTS)], forwards[len(PLAIN_TEXTS) + 1 : -1], "a text given twice")

    def test_many_texts_make_no_difference(self) -> None:
        encoder = self.encoder()
        texts = [" ".join(_WORDS[: 1 + number % len(_WORDS)]) + f" {number}" for number in range(150)]
        together = encoder.encode_documents(texts)
        picked = [0, 1, 63, 64, 149]
        self.assert_close(encoder.encode_documents([texts[place] for place in picked]), together[picked])

    def test_threads_make_no_difference(self) -> None:
        encoder = self.encoder()
        parts = [[*PLAIN_TEXTS[start:], f"part {start}", _prose(20 + 9 * start)] for start in range(4)]
        serial = [(encoder.encode_documents(part), encoder.encode_queries(part)) for part in parts]
        with ThreadPoolExecutor(4) as pool:
            for _ in range(2):
                threaded = pool.map(lambda part: (encoder.encode_documents(part), encoder.encode_queries(part)), parts)
                for (documents, queries), (want_documents, want_queries) in zip(threaded, serial, strict=True):
                    self.assert_close(documents, want_documents)
                    self.assert_close(queries, want_queries)

    # Tokens and the limit

    def test_offsets_lie_in_the_text(self) -> None:
        encoder = self.encoder()
        for name, text in {**STRANGE_TEXTS, **{text: text for text in PLAIN_TEXTS}}.items():
            spans = encoder.token_offsets(text)
            assert all(0 <= start <= end <= len(text) for start, end in spans), name
            assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(spans)), name
        assert encoder.token_offsets("") == []

    def test_offsets_cover_the_text(self) -> None:
        encoder = self.encoder()
        for text in [*PLAIN_TEXTS, _prose(60), "  두 칸   띄어쓰기\n\nnew line\tand tab  "]:
            covered = {place for start, end in encoder.token_offsets(text) for place in range(start, end)}
            left_out = [text[place] for place in range(len(text)) if text[place].isalnum() and place not in covered]
            assert not left_out, f"{left_out} of {text!r} lie in no token"

    def test_text_of_any_length(self) -> None:
        import numpy as np

        encoder = self.encoder()
        for tokens in (1, encoder.max_tokens - 1, encoder.max_tokens, encoder.max_tokens + 1, 20 * encoder.max_tokens):
            text = _prose(max(tokens, 1))
            for encode in (encoder.encode_documents, encoder.encode_queries):
                vector = encode([text])
                assert np.isfinite(vector).all() and vector.shape == (1, encoder.dimension)

    def test_text_beyond_the_limit_does_not_count(self) -> None:
        encoder = self.encoder()
        text = _prose(2 * encoder.max_tokens + 50)
        end = _end_of_word(text, encoder.token_offsets(text)[encoder.max_tokens + 2][1])
        for encode in (encoder.encode_documents, encoder.encode_queries):
            vectors = encode([text, text[:end], text[:end] + " something else altogether", text * 30])
            self.assert_close(vectors, vectors[[0, 0, 0, 0]], "text beyond max_tokens changes the vector")

    def test_text_within_the_limit_counts(self) -> None:
        import numpy as np

        encoder = self.encoder()
        text = _prose(2 * encoder.max_tokens + 50)
        spans = encoder.token_offsets(text)
        for place in {0, encoder.max_tokens // 2, encoder.max_tokens - 1}:
            start, end = spans[place]
            start = text.rfind(" ", 0, end - 1) + 1 if place else 0
            changed = text[:start] + "report" + text[_end_of_word(text, end) :]
            # A query's prompt may be longer than a passage's, and then leave less room for the text.
            last = place == encoder.max_tokens - 1
            for encode in (encoder.encode_documents, *([] if last else [encoder.encode_queries])):
                vectors = encode([text, changed])
                difference = np.abs(vectors[0] - vectors[1]).max()
                assert difference > self.tolerance, f"token {place} of {encoder.max_tokens} does not reach the vector"

    def assert_close(self, found: np.ndarray, wanted: np.ndarray, message: str = "") -> None:
        """Vectors are equal within `tolerance`."""
        import numpy as np

        np.testing.assert_allclose(found, wanted, rtol=0, atol=self.tolerance, err_msg=message)


def _prose(words: int) -> str:
    return " ".join(_WORDS[number % len(_WORDS)] for number in range(words))


def _end_of_word(text: str, place: int) -> int:
    end = text.find(" ", place)
    return len(text) if end < 0 else end
