"""GenEOL: a generator writes variants of a text, an encoder embeds text and variants, their mean is the vector.

Training-free (arXiv 2410.14635). It knows neither what writes (`variant_writer`) nor where variants are kept
(`variants`).
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import registry, variant_filters
from .base import Encoder
from .errors import EncoderUnavailable, UnknownParameter
from .fingerprint import fingerprint
from .pooling import unit_rows
from .spec import EncoderSpec
from .text_pieces import STRATEGIES, pieces
from .transformations import TRANSFORMATIONS, Transformation, chosen, prompt_version
from .variant_filters import mark_duplicates, normal_form
from .variant_writer import FORMS, Manner, Task, VariantWriter
from .variants import MemoryVariants, VariantStore, text_hash

if TYPE_CHECKING:
    import numpy as np

    from .backbones.frozen import FrozenLM
    from .backbones.store import ModelStore

DEFAULT_GENERATOR = "smollm2-135m"
DEFAULT_ENCODER = "prompteol@smollm2-135m"
MEASURED = ""
"""What is known of the gain, said with the estimate before a long run: measured facts only, empty without any."""

_VERSION = 1
"""Counted up when the same models and parameters give other vectors than before."""

_LONGEST_BY_DEFAULT = 512
_QUANTILE = 0.99


@dataclass(frozen=True, slots=True)
class Averaging:
    """How texts become variants and variants a vector; every field is a parameter of the spec."""

    m: int = 4
    query_m: int = 0
    strategy: str = "whole"
    window: int = 50
    epsilon: float = 0.0
    least: float | None = None
    normalise: bool = True


@dataclass(slots=True)
class _Text:
    """A text while its variants come in."""

    text: str
    owner: bytes
    pieces: list[str] = field(default_factory=list)
    kept: list[list[str]] = field(default_factory=list)
    """Of each piece the variants so far that were kept."""
    views: list[np.ndarray] = field(default_factory=list)
    settled: bool = False


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
        ``plain`` (lines of demonstrations; always so for a base model) or ``chat`` (the generator's own template).
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
        Most tokens that are looked up in the text and verified in one pass; changes the time only.

    `reasons` counts the variants of this object's encoding by what became of them: ``kept`` or why not.
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
        self.reasons: Counter[str] = Counter()
        self._inner, self._writer = inner, writer
        self._transformations, self._averaging = tuple(transformations), averaging
        self._memory = MemoryVariants()
        self._store: VariantStore = self._memory
        self._least: float | None = averaging.least
        self._lock = threading.Lock()

    @classmethod
    def from_spec(cls, spec: EncoderSpec, models: ModelStore, *, device: str = "auto") -> GenEOLEncoder:
        """Build ``geneol``; see the class for its parameters."""
        if spec.backbone is not None:
            raise UnknownParameter("geneol takes its models by generator=MODEL and encoder=(SPEC), not after an '@'")
        reader = spec.reader()
        generator = reader.text("generator", DEFAULT_GENERATOR)
        inner_spec = reader.text("encoder", DEFAULT_ENCODER)
        form = reader.choice("form", "plain", FORMS)
        transformations = chosen(reader.text("kinds", ""), reader.optional_text("transformations"))
        averaging = Averaging(
            m=reader.integer("m", 4, least=0, most=256),
            query_m=reader.integer("query_m", 0, least=0, most=256),
            strategy=reader.choice("strategy", "whole", STRATEGIES),
            window=reader.integer("window", 50, least=8),
            epsilon=reader.number("epsilon", 0.0, least=0.0, most=1.0),
            least=None if reader.text("least", "auto") == "auto" else reader.number("least", 0.0, least=-1.0, most=1.0),
            normalise=reader.flag("normalise", True),
        )
        manner = Manner(
            generator=f"{models.weights_sha256(generator)} {models.tokenizer_sha256(generator)}",
            prompt=prompt_version(transformations, form),
            form=form,
            temperature=reader.number("temperature", 0.7, least=0.0, most=10.0),
            top_p=reader.number("top_p", 1.0, least=0.0, most=1.0),
            seed=reader.integer("seed", 0, least=0),
            compose=reader.flag("compose", False),
            lookup=reader.integer("lookup", 0, least=0, most=64),
        )
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

        facts = {
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
        named = {**dict(spec.parameters), "generator": generator, "encoder": inner.spec}
        return cls(
            inner,
            VariantWriter(load, manner),
            spec=str(EncoderSpec(spec.name, None, tuple(named.items()))),
            fingerprint=fingerprint(facts),
            transformations=transformations,
            averaging=averaging,
            max_tokens=min(max_length, inner.max_tokens),
        )

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

    def _encode(
        self, texts: Sequence[str], m: int, store: VariantStore, encode: Callable[[Sequence[str]], np.ndarray]
    ) -> np.ndarray:
        import numpy as np

        if not len(texts):
            return np.zeros((0, self.dimension), dtype=np.float32)
        if not self._averaging.normalise:
            encode = self._inner.raw_vectors  # type: ignore[attr-defined]
        different = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        works = [_Text(self._cut(text), text_hash(text)) for text in different]
        for work, vector in zip(works, encode([work.text for work in works]), strict=True):
            work.views.append(vector)
        if m:
            self._vary([work for work in works if normal_form(work.text)], m, store, encode)
        means = unit_rows(np.stack([np.mean(work.views, axis=0, dtype=np.float64) for work in works]))
        return means[[different[text] for text in texts]]

    def _cut(self, text: str) -> str:
        """`text` as far as its first `max_tokens` tokens reach."""
        spans = self.token_offsets(text) if 4 * len(text) > self.max_tokens else []
        return text if len(spans) <= self.max_tokens else text[: spans[self.max_tokens - 1][1]]

    def _vary(self, works: list[_Text], m: int, store: VariantStore, encode: Callable[..., np.ndarray]) -> None:
        """Add the views of `works`: all at once, or round by round until each has settled."""
        self._split(works, store)
        originals = self._piece_vectors(works, encode)
        rounds = [range(number, number + 1) for number in range(m)] if self._averaging.epsilon else [range(m)]
        for numbers in rounds:
            active = [work for work in works if not work.settled]
            if not active:
                return
            for work, views in zip(active, self._views(active, numbers, m, store, originals, encode), strict=True):
                before = sum(work.views)
                work.views += views
                work.settled = bool(views) and _moved(before, sum(work.views)) < self._averaging.epsilon

    def _split(self, works: Sequence[_Text], store: VariantStore) -> None:
        averaging = self._averaging
        for work in works:
            work.pieces = pieces(work.text, averaging.strategy, averaging.window, self.token_offsets)
        if averaging.strategy == "summarise":
            long = [work for work in works if len(self.token_offsets(work.text)) > averaging.window]
            found = self._writer.summaries([work.owner for work in long], [work.text for work in long], store)
            for work, (summary, problem) in zip(long, found, strict=True):
                if not problem:
                    work.pieces = [summary]
        for work in works:
            work.kept = [[] for _ in work.pieces]

    def _piece_vectors(self, works: Sequence[_Text], encode: Callable[..., np.ndarray]) -> dict[str, np.ndarray]:
        """The vectors of pieces by their text; a piece that is a whole text has one already."""
        vectors = {work.text: work.views[0] for work in works}
        lacking = list(dict.fromkeys(piece for work in works for piece in work.pieces if piece not in vectors))
        return vectors | (dict(zip(lacking, encode(lacking), strict=True)) if lacking else {})

    def _views(
        self,
        works: Sequence[_Text],
        numbers: range,
        m: int,
        store: VariantStore,
        originals: dict[str, np.ndarray],
        encode: Callable[..., np.ndarray],
    ) -> list[list[np.ndarray]]:
        """The views of each text that its variants of these numbers give."""
        import numpy as np

        kinds = self._transformations
        tasks = [
            Task(work.owner, piece, kinds[number % len(kinds)], number // len(kinds))
            for work in works
            for piece in work.pieces
            for number in numbers
        ]
        written = iter(self._writer.write(tasks, store, each=m, note=MEASURED))
        found = [[[next(written) for _ in numbers] for _ in work.pieces] for work in works]
        reasons: Counter[str] = Counter()
        usable: dict[str, None] = {}
        for work, of_pieces in zip(works, found, strict=True):
            for piece, kept, variants in zip(work.pieces, work.kept, of_pieces, strict=True):
                mark_duplicates(piece, kept, variants)
                usable.update((text, None) for text, problem in variants if not problem)
        vectors = dict(zip(usable, encode(list(usable)), strict=True)) if usable else {}
        least = self._least_cosine() if usable else -1.0
        result = []
        for work, of_pieces in zip(works, found, strict=True):
            views = []
            for place in range(len(numbers)):
                parts, any_kept = [], False
                for piece, variants in zip(work.pieces, of_pieces, strict=True):
                    text, problem = variants[place]
                    original = originals[piece]
                    if not problem and _cosine(vectors[text], original) < least:
                        problem = "far"
                    reasons[problem or "kept"] += 1
                    parts.append(original if problem else vectors[text])
                    any_kept |= not problem
                if any_kept:
                    views.append(np.mean(parts, axis=0))
            result.append(views)
        with self._lock:
            self.reasons += reasons
        return result

    def _least_cosine(self) -> float:
        """The cosine that a variant must have with its text."""
        import numpy as np

        if self._least is None:
            unrelated = [text for one in TRANSFORMATIONS for text, _ in one.demonstrations]
            vectors = unit_rows(self._inner.encode_documents(unrelated))
            above = np.triu_indices(len(vectors), 1)
            self._least = float(np.quantile((vectors @ vectors.T)[above], _QUANTILE))
        return self._least


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    import numpy as np

    return float(one @ other / max(np.linalg.norm(one) * np.linalg.norm(other), 1e-30))


def _moved(before: Any, after: Any) -> float:
    return 1.0 - _cosine(before, after)


def _require_generator(folder: Path, name: str) -> None:
    """Refuse a model that cannot write, before anything is made with it."""
    architectures = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("architectures") or []
    if not any(one.endswith(("ForCausalLM", "LMHeadModel")) for one in architectures):
        raise EncoderUnavailable(f"the model {name} cannot write text; name a causal language model as generator")
