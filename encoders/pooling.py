"""Token states to one vector for each text. It knows no model; padding, wherever it stands, never reaches a vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import EncodingError

if TYPE_CHECKING:
    import numpy as np
    import torch

KINDS = ("mean", "max", "first", "last")


def pool(states: torch.Tensor, mask: torch.Tensor, kind: str = "mean") -> torch.Tensor:
    """Pool the states of each text's tokens.

    Parameters
    ----------
    states : shape (batch, tokens, width)
        Whatever stands at masked places is not looked at, infinities included.
    mask : bool, shape (batch, tokens)
        True at the text's tokens; at least one a row.
    kind : str
        ``mean``, ``max``, ``first`` (the class token of a BERT) or ``last``.

    Returns
    -------
    float32, shape (batch, width), on the device of `states`
    """
    import torch

    if kind not in KINDS:
        raise ValueError(f"pooling is one of {', '.join(KINDS)}, not {kind!r}")
    mask = mask.bool()
    states = states.float()
    if kind in ("first", "last"):
        positions = torch.arange(mask.shape[1], device=mask.device)
        chosen = positions.masked_fill(~mask, mask.shape[1] if kind == "first" else -1)
        place = chosen.amin(dim=1) if kind == "first" else chosen.amax(dim=1)
        return states[torch.arange(len(states), device=states.device), place]
    if kind == "max":
        return states.masked_fill(~mask[:, :, None], float("-inf")).amax(dim=1)
    return states.masked_fill(~mask[:, :, None], 0.0).sum(dim=1) / mask.sum(dim=1, keepdim=True)


def without_first(mask: torch.Tensor) -> torch.Tensor:
    """`mask`, bool of shape (batch, tokens), without the first token of each row that has more than one."""
    counted = mask.cumsum(dim=1)
    return mask & ((counted > 1) | (counted[:, -1:] == 1))


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Rows scaled to unit length, float32; a row of zeros, which has no direction, becomes the first axis.

    Raises
    ------
    EncodingError
        A value is infinite or not a number.
    """
    import numpy as np

    # float64 on the way: the square of a large float32 is infinite, that of a small one zero.
    rows = np.asarray(vectors, dtype=np.float64)
    if not np.isfinite(rows).all():
        raise EncodingError("the model gave values that are not finite: use dtype=float32, or fetch the model again")
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    rows = rows / np.where(largest > 0, largest, 1.0)
    rows[largest[:, 0] == 0, :1] = 1.0
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
