"""Fits a post-processing to raw vectors: their first and second moments in one pass, then step by step.

It knows no encoder and no collection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .postprocessing import Postprocessing, StatisticsDamaged
from .postprocessing_steps import PostprocessingError, Step, parse_steps

if TYPE_CHECKING:
    import numpy as np

_BLOCK = 1024
_FLAT = 1e-8
_ROUNDING = 1e-12


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
