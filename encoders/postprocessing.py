"""Post-processing of sentence vectors: mean removal, removal of top directions, whitening, EmbedFilter (METHODS 1).

Every step is an affine map, so a chain of them is one shift and one matrix, fitted from the first and second moments of
the raw vectors in a single pass. It knows no encoder, no collection and no storage.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .. import SlotragError, UsageError

if TYPE_CHECKING:
    import numpy as np

LEAST_ROWS = 100
"""Vectors below which statistics say more about single texts than about the encoder."""

NONE = "none"
CHOICES = "none, or steps joined by '+': mean, top=N, whiten=N, embedfilter, embedfilter=N (for example mean+top=3)"

_BLOCK = 1024
_NOTHING_LEFT = 1e-6
_FLAT = 1e-8
_ROUNDING = 1e-12
_MAGIC = b"slotrag postprocessing 1\n"


class PostprocessingError(UsageError):
    """Steps that do not exist, do not fit together, or that the vectors at hand do not allow."""


class StatisticsDamaged(SlotragError):
    """Stored statistics are not what was written."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: ``mean``, ``top``, ``whiten`` or ``embedfilter``, and its number (0 where it was left out)."""

    name: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.name}={self.number}" if self.number else self.name


class Steps(tuple[Step, ...]):
    """Steps in their order; `str` gives the canonical text, ``none`` without any."""

    __slots__ = ()

    def __str__(self) -> str:
        return "+".join(map(str, self)) or NONE

    @property
    def need_vectors(self) -> bool:
        """Whether statistics of vectors are needed."""
        return any(step.name != "embedfilter" for step in self)

    @property
    def need_unembedding(self) -> bool:
        """Whether the unembedding matrix of a causal language model is needed."""
        return any(step.name == "embedfilter" for step in self)


def parse_steps(text: str) -> Steps:
    """Take ``mean+top=3`` apart.

    Raises
    ------
    slotrag.UsageError
        An unknown step, a missing or superfluous number, a step given twice, a step after ``whiten``.

    Examples
    --------
    >>> str(parse_steps(" mean + top=3 "))
    'mean+top=3'
    >>> parse_steps("none")
    ()
    """
    if text.strip().lower() == NONE:
        return Steps()
    steps = Steps(_step(part) for part in text.split("+"))
    names = [step.name for step in steps]
    for name in names:
        if names.count(name) > 1:
            raise PostprocessingError(f"Give the post-processing step {name!r} only once, not {text!r}.")
    if "whiten" in names[:-1]:
        raise PostprocessingError(f"After 'whiten' all directions count alike, so it is the last step: not {text!r}.")
    return steps


def _step(part: str) -> Step:
    name, equals, number = (piece.strip() for piece in part.lower().partition("="))
    if name not in ("mean", "top", "whiten", "embedfilter"):
        raise PostprocessingError(f"There is no post-processing step {part.strip()!r}; write {CHOICES}.")
    if name == "mean" and equals:
        raise PostprocessingError(f"The post-processing step 'mean' takes no number: not {part.strip()!r}.")
    if name in ("top", "whiten") and not equals:
        raise PostprocessingError(f"The post-processing step {name!r} needs a number, as in {name}=3.")
    if equals and not (number.isascii() and number.isdecimal() and 0 < int(number) < 1_000_000):
        raise PostprocessingError(f"The number in {part.strip()!r} is a whole number from 1 on.")
    return Step(name, int(number) if equals else 0)


@dataclass(frozen=True, eq=False)
class Postprocessing:
    """A fitted chain of steps. Made by `fit`; two are equal when their bytes are.

    What it holds are sums over all vectors it was fitted on (a mean, directions of a covariance), at least 100 of them
    in a collection: no vector and no text can be read from it.

    Attributes
    ----------
    steps : str
        Canonical text.
    dimension_in, dimension_out : int
    fitted_on : int
        Vectors the statistics come from; 0 where the steps need none.
    shift : float32, shape (dimension_in,)
        Subtracted first.
    directions : float32, shape (dimension_in, n)
        Orthonormal columns, removed; empty where there is a matrix.
    matrix : float32, shape (dimension_in, dimension_out), or shape (dimension_in, 0)
        Applied last; without columns it stands for the identity.
    """

    steps: str
    fitted_on: int
    shift: np.ndarray
    directions: np.ndarray
    matrix: np.ndarray

    @property
    def dimension_in(self) -> int:
        return len(self.shift)

    @property
    def dimension_out(self) -> int:
        return self.matrix.shape[1] or self.dimension_in

    def transform(self, vectors: np.ndarray) -> np.ndarray:
        """The affine map alone: float32, shape (n, dimension_out), rows of any length."""
        import numpy as np

        rows = np.asarray(vectors, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.dimension_in:
            raise ValueError(f"vectors of shape (n, {self.dimension_in}) are wanted, not {rows.shape}")
        rows = rows - self.shift
        if self.matrix.shape[1]:
            return rows @ self.matrix
        if self.directions.shape[1]:
            rows -= (rows @ self.directions) @ self.directions.T
        return rows

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        """Post-processed vectors.

        Parameters
        ----------
        vectors : shape (n, dimension_in), rows of unit length

        Returns
        -------
        float32, shape (n, dimension_out), rows of unit length
            A row of which nothing is left, as the mean itself after mean removal, is zero: its cosine with every
            vector is 0. A row does not depend on the rows beside it but for rounding (1e-6).
        """
        import numpy as np

        rows = self.transform(vectors)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        left = lengths > _NOTHING_LEFT * self._scale
        return np.where(left, rows / np.where(left, lengths, 1.0), np.float32(0.0)).astype(np.float32, copy=False)

    @cached_property
    def _scale(self) -> float:
        """Longest that a unit vector along an output axis can become."""
        import numpy as np

        return float(np.linalg.norm(self.matrix, axis=0).max()) if self.matrix.shape[1] else 1.0

    def to_bytes(self) -> bytes:
        """A header in JSON and the arrays, float32 little-endian: the same object gives the same bytes."""
        import numpy as np

        header = {"steps": self.steps, "fitted_on": self.fitted_on, "dimension": self.dimension_in}
        header |= {"directions": self.directions.shape[1], "columns": self.matrix.shape[1]}
        arrays = (self.shift, self.directions, self.matrix)
        body = b"".join(np.ascontiguousarray(array, dtype="<f4").tobytes() for array in arrays)
        return _MAGIC + json.dumps(header, sort_keys=True).encode() + b"\n" + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Postprocessing:
        """What `to_bytes` wrote.

        Raises
        ------
        StatisticsDamaged
            The bytes are others, too few, too many, or hold numbers that are not finite.
        """
        import numpy as np

        try:
            header, start = _header(data)
            dimension, directions, columns = (int(header[key]) for key in ("dimension", "directions", "columns"))
            steps, fitted_on = str(parse_steps(header["steps"])), int(header["fitted_on"])
        except (KeyError, TypeError, ValueError) as error:
            raise StatisticsDamaged("The statistics of a post-processing are damaged.") from error
        shapes = [(dimension,), (dimension, directions), (dimension, columns)]
        sizes = [int(np.prod(shape)) for shape in shapes]
        if dimension < 1 or min(directions, columns) < 0 or len(data) - start != 4 * sum(sizes):
            raise StatisticsDamaged("The statistics of a post-processing have another size than they say.")
        numbers = np.frombuffer(data, dtype="<f4", offset=start).astype(np.float32)
        if not np.isfinite(numbers).all():
            raise StatisticsDamaged("The statistics of a post-processing hold numbers that are not finite.")
        shift, axes, matrix = (
            part.reshape(shape) for part, shape in zip(np.split(numbers, np.cumsum(sizes)[:-1]), shapes, strict=True)
        )
        return cls(steps, fitted_on, shift, axes, matrix)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the bytes, 64 hex digits."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Postprocessing) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    if not data.startswith(_MAGIC):
        raise ValueError("another kind of bytes")
    end = data.index(b"\n", len(_MAGIC))
    return json.loads(data[len(_MAGIC) : end]), end + 1


def require_possible(steps: Steps, dimension: int) -> None:
    """Refuse steps that no vectors of this dimension allow, before anything is encoded for them.

    Raises
    ------
    slotrag.UsageError
    """
    for step in steps:
        whole = step.name in ("whiten", "embedfilter")
        most = dimension if whole else dimension - 1
        if step.number > most:
            advice = f"choose {step.name}={most} or less" if most else "leave it out"
            raise PostprocessingError(f"{str(step)!r} is too much for vectors of {dimension} dimensions: {advice}.")
        if whole:
            dimension = step.number or max(dimension // 2, 1)


def fit(steps: str, vectors: Iterable[np.ndarray], *, unembedding: np.ndarray | None = None) -> Postprocessing:
    """Fit steps to vectors, read once; memory grows with the dimension's square and not with the vectors.

    The same vectors in the same order give the same bits on one machine, however they are cut into chunks, since they
    are summed in blocks of our own, in float64. Another order or another linear algebra library moves cosines by less
    than 1e-5, unless the step cuts between two directions that vary equally (``top`` and ``whiten``: then either is as
    good). The columns' signs are fixed by their largest entry. ``top`` removes the directions of most variance after a
    mean removal, of most length without one; ``whiten`` removes the mean too.

    Parameters
    ----------
    steps : str
        See `parse_steps`.
    vectors : iterable of shape (rows, d)
        Raw vectors, of unit length. Not read where no step needs them.
    unembedding : shape (vocabulary, d), optional
        For ``embedfilter``, which keeps the middle of its right-singular vectors, half of them by default.

    Raises
    ------
    slotrag.UsageError
        No vectors where some are needed, no unembedding, more directions than there are.
    """
    import numpy as np

    parsed = parse_steps(steps)
    if parsed.need_unembedding and unembedding is None:
        raise PostprocessingError("'embedfilter' needs an encoder over a causal language model; choose another step.")
    moments = _Moments.of(vectors) if parsed.need_vectors else None
    if moments is None and unembedding is None:
        raise PostprocessingError("'none' has nothing to fit.")
    chain = _Chain(moments.dimension if moments is not None else _width(unembedding), moments)
    for step in parsed:
        if step.name == "embedfilter":
            assert unembedding is not None
            chain.project(_middle(unembedding, step.number, chain.dimension), step)
        else:
            chain.fit(step)
    dimension = chain.dimension
    centred = moments is not None and chain.centred
    return Postprocessing(
        steps=str(parsed),
        fitted_on=moments.rows if moments is not None else 0,
        shift=moments.mean.astype(np.float32) if centred and moments else np.zeros(dimension, dtype=np.float32),
        directions=np.ascontiguousarray(chain.directions, dtype=np.float32),
        matrix=np.ascontiguousarray(chain.matrix, dtype=np.float32)
        if chain.matrix is not None
        else np.zeros((dimension, 0), dtype=np.float32),
    )


class _Moments:
    """Mean and second moment of rows, float64."""

    def __init__(self, rows: int, mean: np.ndarray, second: np.ndarray) -> None:
        self.rows, self.mean, self.second = rows, mean, second

    @property
    def dimension(self) -> int:
        return len(self.mean)

    @classmethod
    def of(cls, chunks: Iterable[np.ndarray]) -> _Moments:
        import numpy as np

        rows, total, square = 0, None, None
        for block in _blocks(chunks):
            part, product = block.sum(axis=0), block.T @ block
            total, square = (part, product) if total is None or square is None else (total + part, square + product)
            rows += len(block)
        if total is None or square is None:
            raise PostprocessingError("There are no vectors to fit a post-processing on; index documents first.")
        if not np.isfinite(square).all():
            raise StatisticsDamaged("Some vectors hold numbers that are not finite; make the collection anew.")
        return cls(rows, total / rows, square / rows)

    def covariance(self, *, centred: bool) -> np.ndarray:
        import numpy as np

        return self.second - np.outer(self.mean, self.mean) if centred else self.second


class _Chain:
    """The steps so far, as directions to remove or as a matrix, float64."""

    def __init__(self, dimension: int, moments: _Moments | None) -> None:
        import numpy as np

        self.dimension, self._moments = dimension, moments
        self.centred = False
        self.directions = np.zeros((dimension, 0))
        self.matrix: np.ndarray | None = None

    def fit(self, step: Step) -> None:
        """Add ``mean``, ``top`` or ``whiten``."""
        assert self._moments is not None
        self.centred = self.centred or step.name in ("mean", "whiten")
        if step.name == "mean":
            return
        values, axes = self._spectrum(step)
        if step.name == "whiten":
            self.project(axes / values**0.5, step)
        elif self.matrix is None:
            self.directions = axes
        else:
            self.matrix = self.matrix - (self.matrix @ axes) @ axes.T

    def project(self, columns: np.ndarray, step: Step) -> None:
        """Add a map to fewer dimensions: `columns` of shape (the dimension now, the new one)."""
        before = self.matrix
        if before is None:
            self.matrix = columns - self.directions @ (self.directions.T @ columns)
            self.directions = self.directions[:, :0]
        else:
            self.matrix = before @ columns

    def _spectrum(self, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """The largest eigenvalues and their eigenvectors, as many as the step asks for."""
        import numpy as np

        assert self._moments is not None
        covariance = self._moments.covariance(centred=self.centred)
        if self.matrix is not None:
            covariance = self.matrix.T @ covariance @ self.matrix
        elif self.directions.shape[1]:
            inner = covariance - self.directions @ (self.directions.T @ covariance)
            covariance = inner - (inner @ self.directions) @ self.directions.T
        values, axes = np.linalg.eigh((covariance + covariance.T) / 2)
        least = max(_FLAT * np.trace(covariance), _ROUNDING * np.trace(self._moments.second))
        self._check(step, len(values), int((values > least).sum()))
        return values[::-1][: step.number], _signed(axes[:, ::-1][:, : step.number])

    def _check(self, step: Step, dimension: int, rank: int) -> None:
        """Refuse a number that the vectors do not allow: whitening would blow up rounding, removing leave nothing."""
        assert self._moments is not None
        rows, whiten = self._moments.rows, step.name == "whiten"
        most = min(dimension, rows - 1, rank) if whiten else min(dimension, rank) - 1
        if step.number <= most:
            return
        what = f"of {dimension} dimensions" if step.number > dimension else f"that vary in {rank} directions only"
        advice = f"choose {step.name}={most} or less" if most > 0 else "leave this step out"
        raise PostprocessingError(f"{str(step)!r} is too much for {rows} vectors {what}: {advice}.")


def _blocks(chunks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Rows in float64 blocks of one size, whatever the chunks' sizes; the last is what is left."""
    import numpy as np

    block: np.ndarray | None = None
    filled = 0
    for chunk in chunks:
        at = 0
        while at < len(chunk):
            if block is None:
                block = np.empty((_BLOCK, chunk.shape[1]))
            taken = min(_BLOCK - filled, len(chunk) - at)
            block[filled : filled + taken] = chunk[at : at + taken]
            at, filled = at + taken, filled + taken
            if filled == _BLOCK:
                yield block
                filled = 0
    if block is not None and filled:
        yield block[:filled]


def _width(unembedding: np.ndarray | None) -> int:
    assert unembedding is not None
    return int(unembedding.shape[1])


def _middle(unembedding: np.ndarray, kept: int, dimension: int) -> np.ndarray:
    """Right-singular vectors of the unembedding matrix without the largest and the smallest ones, as columns."""
    import numpy as np

    width = _width(unembedding)
    if width != dimension:
        raise PostprocessingError(
            f"'embedfilter' needs vectors as wide as the language model's states ({width}), not {dimension}."
        )
    kept = kept or max(width // 2, 1)
    if kept > width:
        raise PostprocessingError(f"'embedfilter={kept}' is more than the {width} dimensions; choose {width} or less.")
    _, axes = np.linalg.eigh(_Moments.of([unembedding]).second)
    left_out = (width - kept) // 2
    return _signed(axes[:, ::-1][:, left_out : left_out + kept])


def _signed(axes: np.ndarray) -> np.ndarray:
    """Columns with their largest entry positive: an eigenvector's sign is the library's accident."""
    import numpy as np

    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return axes * np.where(largest < 0, -1.0, 1.0)
