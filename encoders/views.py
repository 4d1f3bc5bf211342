"""The views of texts, over which GenEOL averages: their own vectors and those of the variants that can stand for them.

Texts are taken apart where the strategy says so, variants that lie too far away are dropped, and with an adaptive m no
more are made once the mean stays. It knows neither specs nor models, nor what a view is averaged into.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .base import Encoder
from .pooling import unit_rows
from .text_pieces import pieces
from .transformations import TRANSFORMATIONS, Transformation
from .variant_filters import mark_duplicates, normal_form
from .variant_prompts import Task
from .variant_writer import VariantWriter
from .variants import VariantStore

if TYPE_CHECKING:
    import numpy as np

MEASURED = (
    "Written by smollm2-135m, variants made the vectors worse on 250 pairs of STS-B (Spearman with prompteol .784 "
    "without, .758 with 8 variants; with mean .878 and .826); a larger generator may do better."
)
"""What is known of the gain, said with the estimate before a long run: measured facts only.

`tests/benchmarks/variants.py` on STS-B's dev part: m = 0, 2, 4, 8 gave .784, .747, .743, .758 with
``encoder=(prompteol@smollm2-135m)`` and .878, .827, .823, .826 with ``encoder=(mean@minilm-l6)``.
"""

_QUANTILE = 0.99

Encode = Callable[[Sequence[str]], "np.ndarray"]
"""Texts to rows, float32 of shape (len(texts), dimension)."""


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
    views: list[np.ndarray]
    pieces: list[str] = field(default_factory=list)
    kept: list[list[str]] = field(default_factory=list)
    """Of each piece the variants so far that were kept."""
    settled: bool = False


class Views:
    """Makes the views of texts, by a writer of variants and an encoder.

    Attributes
    ----------
    reasons : Counter of str
        The variants so far by what became of them: ``kept`` or why not.
    """

    def __init__(
        self,
        inner: Encoder,
        writer: VariantWriter,
        transformations: Sequence[Transformation],
        averaging: Averaging,
    ) -> None:
        self.reasons: Counter[str] = Counter()
        self._inner, self._writer = inner, writer
        self._transformations, self._averaging = tuple(transformations), averaging
        self._least: float | None = averaging.least
        self._lock = threading.Lock()

    def of(
        self, texts: Sequence[str], owners: Iterable[bytes], m: int, store: VariantStore, encode: Encode
    ) -> list[list[np.ndarray]]:
        """Of each text its own vector, then those of its variants that were kept.

        Parameters
        ----------
        owners : bytes for each text
            The hash under which the text's variants are kept, see `variants.VariantStore`.
        m : int
            Variants of a text.
        """
        works = [_Text(text, owner, [row]) for text, owner, row in zip(texts, owners, encode(texts), strict=True)]
        varied = [work for work in works if normal_form(work.text)] if m else []
        if varied:
            self._vary(varied, m, store, encode)
        return [work.views for work in works]

    def _vary(self, works: list[_Text], m: int, store: VariantStore, encode: Encode) -> None:
        """Add the views of `works`: all at once, or round by round until each has settled."""
        self._split(works, store)
        originals = _piece_vectors(works, encode)
        rounds = [range(number, number + 1) for number in range(m)] if self._averaging.epsilon else [range(m)]
        for numbers in rounds:
            active = [work for work in works if not work.settled]
            if not active:
                return
            found = self._written(active, numbers, m, store)
            for work, views in zip(active, self._views(active, found, originals, encode), strict=True):
                before = sum(work.views)
                work.views += views
                work.settled = bool(views) and _moved(before, sum(work.views)) < self._averaging.epsilon

    def _split(self, works: Sequence[_Text], store: VariantStore) -> None:
        averaging, token_offsets = self._averaging, self._inner.token_offsets
        for work in works:
            work.pieces = pieces(work.text, averaging.strategy, averaging.window, token_offsets)
        if averaging.strategy == "summarise":
            long = [work for work in works if len(token_offsets(work.text)) > averaging.window]
            found = self._writer.summaries([work.owner for work in long], [work.text for work in long], store)
            for work, (summary, problem) in zip(long, found, strict=True):
                if not problem:
                    work.pieces = [summary]
        for work in works:
            work.kept = [[] for _ in work.pieces]

    def _written(
        self, works: Sequence[_Text], numbers: range, m: int, store: VariantStore
    ) -> list[list[list[tuple[str, str]]]]:
        """By text, piece and number the variant with what is wrong with it, empty where nothing is."""
        kinds = self._transformations
        tasks = [
            Task(work.owner, piece, kinds[number % len(kinds)], number // len(kinds))
            for work in works
            for piece in work.pieces
            for number in numbers
        ]
        written = iter(self._writer.write(tasks, store, each=m, note=MEASURED))
        found = [[[next(written) for _ in numbers] for _ in work.pieces] for work in works]
        for work, of_pieces in zip(works, found, strict=True):
            for piece, kept, variants in zip(work.pieces, work.kept, of_pieces, strict=True):
                mark_duplicates(piece, kept, variants)
        return found

    def _views(
        self,
        works: Sequence[_Text],
        found: list[list[list[tuple[str, str]]]],
        originals: dict[str, np.ndarray],
        encode: Encode,
    ) -> list[list[np.ndarray]]:
        """The views of each text that the variants `found` give; one is the mean over the text's pieces."""
        import numpy as np

        every = (variant for of_pieces in found for variants in of_pieces for variant in variants)
        usable = list(dict.fromkeys(text for text, problem in every if not problem))
        vectors = dict(zip(usable, encode(usable), strict=True)) if usable else {}
        least = self._least_cosine() if usable else -1.0
        reasons: Counter[str] = Counter()
        result = []
        for work, of_pieces in zip(works, found, strict=True):
            views = []
            for variants in zip(*of_pieces, strict=True):
                parts, any_kept = [], False
                for piece, (text, problem) in zip(work.pieces, variants, strict=True):
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


def _piece_vectors(works: Sequence[_Text], encode: Encode) -> dict[str, np.ndarray]:
    """The vectors of pieces by their text; a piece that is a whole text has one already."""
    vectors = {work.text: work.views[0] for work in works}
    lacking = list(dict.fromkeys(piece for work in works for piece in work.pieces if piece not in vectors))
    return vectors | (dict(zip(lacking, encode(lacking), strict=True)) if lacking else {})


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    import numpy as np

    return float(one @ other / max(np.linalg.norm(one) * np.linalg.norm(other), 1e-30))


def _moved(before: Any, after: Any) -> float:
    return 1.0 - _cosine(before, after)
