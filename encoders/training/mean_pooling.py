"""Mean pooling over whatever inputs a head takes: what a trained head is compared with. It has nothing to learn."""

from __future__ import annotations

import torch

from ..pooling import pool


class MeanPooling(torch.nn.Module):
    """The mean over a text's tokens at the last layer that the inputs hold."""

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Inputs of any kind, as for `slotrag.encoders.heads.heads.build_head`, to (batch, width)."""
        if mask is None:
            return states[:, -1].float()
        return pool(states[:, -1] if states.dim() == 4 else states, mask)
