"""How likely a causal language model finds given continuations of a prompt. It knows no tokenizer and no text."""

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
    place : int
        Which continuation.
    tokens : numpy.ndarray
        float32, shape (n,): of each token after those before it.
    ends : numpy.ndarray
        float32, shape (n,): of ending after each token, any end token.
    """

    place: int
    tokens: np.ndarray
    ends: np.ndarray


def score_continuations(
    module: torch.nn.Module,
    prompt: Prompt,
    continuations: Sequence[Sequence[int]],
    *,
    end_ids: Collection[int],
    most: int = 16,
    chunk: int = 512,
    cancelled: Callable[[], bool] | None = None,
) -> list[Scored] | None:
    """Score the `most` continuations of `prompt` whose first token is likeliest.

    The prompt is read once, the continuations side by side in one pass.

    Parameters
    ----------
    continuations : sequence of sequences of int
        None of them empty.

    Returns
    -------
    list of Scored or None
        In the order of `continuations`; None when cancelled.
    """
    import torch

    cancelled = cancelled or (lambda: False)
    reader = PromptReader(module, [prompt])
    first = reader.read(chunk, cancelled)
    if first is None or cancelled():
        return None
    if not continuations:
        return []
    openings = torch.log_softmax(first[0], dim=-1)
    likeliness = openings[torch.tensor([row[0] for row in continuations], device=reader.device)]
    # A stable order, so that equal openings (the same word twice) keep the place they have.
    places = sorted(likeliness.argsort(descending=True, stable=True)[:most].tolist())
    rows = [list(continuations[place]) for place in places]
    if len(rows) > 1:
        reader.repeat(len(rows))
    width = max(len(row) for row in rows)
    # Padding stands on the right, where no scored token sees it.
    tokens = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=reader.device)
    after = torch.log_softmax(reader.follow(tokens), dim=-1)
    before = torch.cat([openings.expand(len(rows), 1, -1), after[:, :-1]], dim=1)
    chosen = before.gather(2, tokens[..., None])[..., 0].cpu().numpy()
    stops = after[..., torch.tensor(sorted(end_ids), device=reader.device)].logsumexp(dim=-1).cpu().numpy()
    return [
        Scored(place, chosen[i, : len(row)], stops[i, : len(row)])
        for i, (place, row) in enumerate(zip(places, rows, strict=True))
    ]
