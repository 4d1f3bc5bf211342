"""How likely a causal language model finds given continuations of a prompt. It chooses nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .prefill import Prompt, PromptReader

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Scored:
    """Log-probabilities of one continuation of n tokens.

    Attributes
    ----------
    tokens : numpy.ndarray
        float32, shape (n,): of each token after those before it.
    ends : numpy.ndarray
        float32, shape (n,): of ending after each token, any end token.
    """

    tokens: np.ndarray
    ends: np.ndarray


def score_continuations(
    module: torch.nn.Module,
    prompt: Prompt,
    continuations: Sequence[Sequence[int]],
    *,
    end_ids: Collection[int],
    batch: int = 64,
    chunk: int = 512,
    cancelled: Callable[[], bool] | None = None,
) -> list[Scored] | None:
    """Score every continuation of `prompt`, which is read once for each `batch` of them.

    Returns
    -------
    list of Scored or None
        In the order of `continuations`; None when cancelled.
    """
    import torch

    cancelled = cancelled or (lambda: False)
    found: list[Scored] = []
    ends = torch.tensor(sorted(end_ids), dtype=torch.long)
    for start in range(0, len(continuations), batch):
        rows = [list(row) for row in continuations[start : start + batch]]
        reader = PromptReader(module, [prompt])
        first = reader.read(chunk, cancelled)
        if first is None or cancelled():
            return None
        if len(rows) > 1:
            reader.repeat(len(rows))
        width = max(len(row) for row in rows)
        # Padding stands on the right, where no scored token sees it.
        tokens = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=reader.device)
        logits = reader.follow(tokens)
        before = torch.cat([first.expand(len(rows), -1)[:, None], logits[:, :-1]], dim=1)
        chosen = torch.log_softmax(before, dim=-1).gather(2, tokens[..., None])[..., 0].cpu().numpy()
        stops = torch.log_softmax(logits, dim=-1)[..., ends.to(reader.device)].logsumexp(dim=-1).cpu().numpy()
        found += [Scored(chosen[i, : len(row)], stops[i, : len(row)]) for i, row in enumerate(rows)]
    return found
