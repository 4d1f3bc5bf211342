"""Memory slots of a text: rows in the decoder's embedding space and where they stand. It knows no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Slots:
    """What stands for a text.

    Attributes
    ----------
    rows : float32 array or tensor, shape (k, width)
        In training a tensor with its gradient.
    positions : int64 array, shape (k,)
        From the text's beginning, ascending.
    tokens : int
        Length of the text.
    span : int
        Positions that the slots take up in a prompt; what follows stands behind them.
    """

    rows: np.ndarray | torch.Tensor
    positions: np.ndarray
    tokens: int
    span: int

    def __post_init__(self) -> None:
        if len(self.positions) != len(self.rows):
            raise ValueError(f"{len(self.positions)} positions for {len(self.rows)} slots")

    def __len__(self) -> int:
        return len(self.rows)


def joined(segments: Sequence[Slots], width: int) -> Slots:
    """The slots of a text from those of its segments, in the text's order; `width` is for a text without any."""
    if not segments:
        return Slots(np.zeros((0, width), dtype=np.float32), np.zeros(0, dtype=np.int64), 0, 0)
    if len(segments) == 1:
        return segments[0]
    rows: Any = [segment.rows for segment in segments]
    if isinstance(rows[0], np.ndarray):
        whole: Any = np.concatenate(rows)
    else:
        import torch

        whole = torch.cat(rows)
    begins = np.cumsum([0, *(segment.span for segment in segments)])
    positions = [segment.positions + begin for segment, begin in zip(segments, begins, strict=False)]
    return Slots(whole, np.concatenate(positions), sum(s.tokens for s in segments), int(begins[-1]))
