"""Batches of token lists that waste little on padding, and results back in the caller's order. It knows no model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


# Tokens (padding counted) and texts of a batch. On a CPU small batches stay in its cache: with MiniLM on one core, 1024
# tokens were 15 % faster than 2048 and 40 % faster than 4096 (tests/benchmarks/encoding.py).
_CPU_BATCH = (1024, 64)
_GPU_BATCH = (32_768, 512)


def batch_limits(device: str) -> tuple[int, int]:
    """Most tokens and most texts of a batch that is fast on a kind of device (``cpu``, ``cuda``, ...)."""
    return _CPU_BATCH if device == "cpu" else _GPU_BATCH


def batches(lengths: Sequence[int], budget: int, most: int) -> Iterator[list[int]]:
    """Positions of `lengths` in batches, the longest texts first.

    Parameters
    ----------
    lengths : sequence of int
        Tokens of each text.
    budget : int
        Most tokens of a batch, padding counted; a single text may exceed it.
    most : int
        Most texts of a batch.

    Yields
    ------
    list of int
        Each position once over all batches; equal lengths in the caller's order.

    Examples
    --------
    >>> list(batches([1, 5, 2, 5], budget=10, most=8))
    [[1, 3], [2, 0]]
    """
    # The longest first: memory that does not suffice shows at once, and the last batch is a short one.
    order = sorted(range(len(lengths)), key=lambda position: -lengths[position])
    start = 0
    while start < len(order):
        longest = max(lengths[order[start]], 1)
        size = max(1, min(most, budget // longest))
        yield order[start : start + size]
        start += size


def encode_in_batches(
    token_lists: Sequence[Sequence[int]],
    encode: Callable[[list[Sequence[int]]], np.ndarray],
    dimension: int,
    *,
    budget: int,
    most: int,
) -> np.ndarray:
    """Encode token lists in batches of like length.

    Parameters
    ----------
    encode : callable
        Gives the float32 rows, shape (texts, dimension), of the token lists of one batch.

    Returns
    -------
    float32, shape (len(token_lists), dimension), in the order of `token_lists`
    """
    import numpy as np

    rows = np.empty((len(token_lists), dimension), dtype=np.float32)
    for positions in batches([len(tokens) for tokens in token_lists], budget, most):
        rows[positions] = encode([token_lists[position] for position in positions])
    return rows
