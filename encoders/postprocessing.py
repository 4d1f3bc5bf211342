"""Post-processing of sentence vectors: mean removal, removal of top directions, whitening, EmbedFilter.

Every step is an affine map, so a chain of them is one shift and one matrix. Here it is applied and turned into bytes;
`postprocessing_fit` makes it. It knows no encoder, no collection and no storage.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .. import SlotragError
from .postprocessing_steps import parse_steps

if TYPE_CHECKING:
    import numpy as np

LEAST_ROWS = 100
"""Vectors below which statistics say more about single texts than about the encoder."""

_NOTHING_LEFT = 1e-6
_MAGIC = b"slotrag postprocessing 1\n"


class StatisticsDamaged(SlotragError):
    """Stored statistics are not what was written."""


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
