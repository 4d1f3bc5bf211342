"""GenEOL: a generator writes variants of a text, an encoder embeds text and variants, their mean is the vector.

Training-free (arXiv 2410.14635). It knows neither what writes (`variant_writer`), nor which vectors are averaged
(`views`), nor where variants are kept (`variants`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import registry, variant_filters
from .base import Encoder, Parts
from .errors import EncoderUnavailable, UnknownParameter
from .fingerprint import fingerprint
from .one_call import LINES
from .pooling import unit_rows
from .spec import EncoderSpec, ParameterReader
from .text_pieces import STRATEGIES
from .transformations import TRANSFORMATIONS, Transformation, chosen, prompt_version
from .variant_prompts import FORMS, Manner
from .variant_writer import VariantWriter
from .variants import MemoryVariants, VariantStore, text_hash
from .views import Averaging, Encode, Views

if TYPE_CHECKING:
    import numpy as np

    from .backbones.frozen import FrozenLM
    from .backbones.store import ModelStore

DEFAULT_GENERATOR = "smollm2-135m"
DEFAULT_ENCODER = "prompteol@smollm2-135m"

_VERSION = 1
"""Counted up when the same models and parameters give other vectors than before."""

_LONGEST_BY_DEFAULT = 512


class GenEOLEncoder(Encoder):
    """The mean of a text's vector and those of its variants.

    A variant is dropped where it is empty, cut off, a refusal or a chat's preamble, repeats the text or another variant
    word for word, or lies no nearer to the text than unrelated sentences lie to each other under the encoder. If none
    is left the text stands alone. Equal texts get equal variants, whatever else is encoded with them.

    **Queries get no variants by default** (``query_m=0``): a query is encoded while somebody waits, and writing even
    one variant takes far longer than everything else a search does (a second or more on a CPU, against milliseconds).
    The mean over a passage's views stays close to the passage's own vector, so a plain query vector meets it in the
    same space. `query_m` switches them on; a query's variants are kept in memory only.

    Parameters of the spec:

    ``m``
        Variants of a passage (default 4), spread over the transformations in turn.
    ``generator``
        The causal language model that writes, by name, hub id or folder (default ``smollm2-135m``).
    ``encoder``
        Spec of the encoder that embeds (default ``prompteol@smollm2-135m``).
    ``form``
        ``plain`` (lines of demonstrations; always so for a base model), ``chat`` (the generator's own template) or
        ``lines`` (plain, all four transformations of a text in one call; for no others). ``lines`` asks much of the
        generator: of smollm2-135m's variants it keeps 74 % where ``plain`` keeps 84 %, and takes no less time.
    ``temperature``, ``top_p``, ``seed``
        How it samples.
    ``kinds``
        Transformations to use, such as ``T1+T4`` (default all); ``transformations`` names a file with further ones.
    ``compose``
        Whether each variant is summarised once more and the summary takes its place (default no).
    ``strategy``, ``window``
        Long texts: ``whole``; ``sentences`` or ``window`` (of that many tokens) vary each piece, and a view is the
        mean over the pieces; ``summarise`` varies a summary of a text longer than the window.
    ``epsilon``
        Above 0: a text gets no further variant once its mean has moved by less (1 - cosine).
    ``least``
        Least cosine of a variant with its text; by default the 99th percentile of unrelated sentences.
    ``normalise``
        Average unit vectors (default) or, where the encoder gives them (``raw_vectors``), the vectors themselves.
    ``query_m``
        Variants of a query (default 0).
    ``max_length``
        Most tokens of a passage (default 512, or fewer where the encoder reads fewer).
    ``lookup``
        Most tokens that are looked up in the text and verified in one pass; changes the time only. Batches gain nothing
        by it on a CPU: 32 sentences of STS-B, 4 variants each by smollm2-135m on one core, took 1.9 s a text without
        and 2.9 s with ``lookup=8`` (`tests/benchmarks/variants.py`).
    """

    def __init__(
        self,
        inner: Encoder,
        writer: VariantWriter,
        *,
        spec: str,
        fingerprint: str,
        transformations: Sequence[Transformation],
        averaging: Averaging,
        max_tokens: int,
    ) -> None:
        self.spec, self.fingerprint = spec, fingerprint
        self.dimension, self.max_tokens = inner.dimension, max_tokens
        self.postprocessing = getattr(inner, "postprocessing", None)
        if hasattr(inner, "unembedding"):
            self.unembedding: Callable[[], np.ndarray] = inner.unembedding  # type: ignore[attr-defined]
        self._inner, self._writer, self._averaging = inner, writer, averaging
        self._views = Views(inner, writer, transformations, averaging)
        self._memory = MemoryVariants()
        self._store: VariantStore = self._memory

    @classmethod
    def from_spec(cls, spec: EncoderSpec, models: ModelStore, *, device: str = "auto") -> GenEOLEncoder:
        """Build ``geneol``; see the class for its parameters."""
        if spec.backbone is not None:
            raise UnknownParameter("geneol takes its models by generator=MODEL and encoder=(SPEC), not after an '@'")
        reader = spec.reader()
        generator = reader.text("generator", DEFAULT_GENERATOR)
        inner_spec = reader.text("encoder", DEFAULT_ENCODER)
        transformations = chosen(reader.text("kinds", ""), reader.optional_text("transformations"))
        averaging, manner = _averaging(reader), _manner(reader, generator, transformations, models)
        max_length = reader.integer("max_length", _LONGEST_BY_DEFAULT, least=1)
        reader.finish()
        folder = models.resolve(generator)
        _require_generator(folder, generator)
        inner = registry.create(inner_spec, models, device=device)
        if not averaging.normalise and not hasattr(inner, "raw_vectors"):
            raise UnknownParameter(f"{inner.spec} gives unit vectors only: leave normalise=false out")

        def load() -> FrozenLM:
            from .backbones.frozen import FrozenLM

            return FrozenLM.load(folder, causal=True, device=device)

        named = {**dict(spec.parameters), "generator": generator, "encoder": inner.spec}
        return cls(
            inner,
            VariantWriter(load, manner),
            spec=str(EncoderSpec(spec.name, None, tuple(named.items()))),
            fingerprint=fingerprint(_facts(inner, manner, transformations, averaging, max_length)),
            transformations=transformations,
            averaging=averaging,
            max_tokens=min(max_length, inner.max_tokens),
        )

    @classmethod
    def parts(cls, spec: EncoderSpec) -> Parts:
        given = dict(spec.parameters)
        file = given.get("transformations")
        return Parts(
            models=(given.get("generator", DEFAULT_GENERATOR),),
            encoders=(given.get("encoder", DEFAULT_ENCODER),),
            files=(file,) if file else (),
        )

    @property
    def reasons(self) -> Counter[str]:
        """The variants of this object's encoding by what became of them: ``kept`` or why not."""
        return self._views.reasons

    @property
    def forward_seconds(self) -> float:
        """Seconds spent in the encoder's backbone and in the generator so far."""
        return getattr(self._inner, "forward_seconds", 0.0) + self._writer.seconds

    @property
    def variants_written(self) -> int:
        """Variants that the generator has written for this object, those found in the store not counted."""
        return self._writer.written

    def use_variants(self, store: VariantStore) -> None:
        """Keep the variants of passages in `store` from now on."""
        self._store = store

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return self._inner.token_offsets(text)

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, self._averaging.m, self._store, self._inner.encode_documents)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, self._averaging.query_m, self._memory, self._inner.encode_queries)

    def _encode(self, texts: Sequence[str], m: int, store: VariantStore, encode: Encode) -> np.ndarray:
        import numpy as np

        if not len(texts):
            return np.zeros((0, self.dimension), dtype=np.float32)
        if not self._averaging.normalise:
            encode = self._inner.raw_vectors  # type: ignore[attr-defined]
        different = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        views = self._views.of([self._cut(text) for text in different], map(text_hash, different), m, store, encode)
        means = unit_rows(np.stack([np.mean(rows, axis=0, dtype=np.float64) for rows in views]))
        return means[[different[text] for text in texts]]

    def _cut(self, text: str) -> str:
        """`text` as far as its first `max_tokens` tokens reach."""
        spans = self.token_offsets(text) if 4 * len(text) > self.max_tokens else []
        return text if len(spans) <= self.max_tokens else text[: spans[self.max_tokens - 1][1]]


def _averaging(reader: ParameterReader) -> Averaging:
    return Averaging(
        m=reader.integer("m", 4, least=0, most=256),
        query_m=reader.integer("query_m", 0, least=0, most=256),
        strategy=reader.choice("strategy", "whole", STRATEGIES),
        window=reader.integer("window", 50, least=8),
        epsilon=reader.number("epsilon", 0.0, least=0.0, most=1.0),
        least=None if reader.text("least", "auto") == "auto" else reader.number("least", 0.0, least=-1.0, most=1.0),
        normalise=reader.flag("normalise", True),
    )


def _manner(
    reader: ParameterReader, generator: str, transformations: tuple[Transformation, ...], models: ModelStore
) -> Manner:
    form = reader.choice("form", "plain", FORMS)
    if form == "lines" and tuple(transformations) != TRANSFORMATIONS:
        raise UnknownParameter("form=lines writes T1 to T4 in one call: leave kinds and transformations out")
    return Manner(
        generator=f"{models.weights_sha256(generator)} {models.tokenizer_sha256(generator)}",
        prompt=prompt_version((LINES,) if form == "lines" else transformations, form),
        form=form,
        temperature=reader.number("temperature", 0.7, least=0.0, most=10.0),
        top_p=reader.number("top_p", 1.0, least=0.0, most=1.0),
        seed=reader.integer("seed", 0, least=0),
        compose=reader.flag("compose", False),
        lookup=reader.integer("lookup", 0, least=0, most=64),
    )


def _facts(
    inner: Encoder, manner: Manner, transformations: Sequence[Transformation], averaging: Averaging, max_length: int
) -> dict[str, Any]:
    """All that changes a vector."""
    return {
        "method": "geneol",
        "version": [_VERSION, variant_filters.VERSION],
        "encoder": inner.fingerprint,
        "generator": manner.generator,
        "prompt": manner.prompt,
        "names": [one.name for one in transformations],
        "sampling": [manner.temperature, manner.top_p, manner.seed],
        "compose": manner.compose,
        "m": [averaging.m, averaging.query_m],
        "pieces": [averaging.strategy, averaging.window if averaging.strategy in ("window", "summarise") else 0],
        "epsilon": averaging.epsilon,
        "least": "auto" if averaging.least is None else averaging.least,
        "normalise": averaging.normalise,
        "max_length": max_length,
    }


def _require_generator(folder: Path, name: str) -> None:
    """Refuse a model that cannot write, before anything is made with it."""
    architectures = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("architectures") or []
    if not any(one.endswith(("ForCausalLM", "LMHeadModel")) for one in architectures):
        raise EncoderUnavailable(f"the model {name} cannot write text; name a causal language model as generator")
