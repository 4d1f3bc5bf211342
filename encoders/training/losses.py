"""Losses on unit vectors: of labels, of scored pairs and of retrieval. They know no model and no text.

METHODS: GLOT (arXiv 2603.03389, section 4) trains on vectors of any length and normalises them only to evaluate; here
both see unit vectors, so that what is trained is what is used.
"""

from __future__ import annotations

import torch
from torch.nn import functional


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Rows scaled to unit length; a row of zeros stays one."""
    return functional.normalize(vectors, dim=-1, eps=1e-12)


def classification(
    vectors: torch.Tensor, labels: torch.Tensor, classifier: torch.nn.Module, *, scale: float
) -> torch.Tensor:
    """Cross-entropy of a linear classifier over unit vectors.

    Parameters
    ----------
    vectors : float32, shape (batch, dimension), unit rows
    labels : int64, shape (batch,)
    classifier : torch.nn.Module
        Gives (batch, labels).
    scale : float
        What its outputs are multiplied by: over unit vectors they are small, and softmax of them nearly flat.
    """
    return functional.cross_entropy(scale * classifier(vectors), labels)


def pairs(first: torch.Tensor, second: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Mean squared difference between the pairs' cosines and their scores.

    Parameters
    ----------
    first, second : float32, shape (batch, dimension), unit rows
    scores : float32, shape (batch,)
        0 for the least alike, 1 for the most.
    """
    return functional.mse_loss((first * second).sum(dim=-1), scores)


def ranking(first: torch.Tensor, second: torch.Tensor, scores: torch.Tensor, *, scale: float) -> torch.Tensor:
    """Cosines in the order of the scores (CoSENT): log(1 + sum of exp(scale * (cosine of i - cosine of j))).

    The sum is over all i and j of the batch with a score of i below that of j. What all cosines have in common plays no
    part in it: vectors may share a direction that keeps every cosine high, on which `pairs` spends itself.

    Parameters
    ----------
    first, second : float32, shape (batch, dimension), unit rows
    scores : float32, shape (batch,)
        By whatever scale; pairs of equal scores have no order.
    scale : float
        Inverse temperature.
    """
    cosines = (first * second).sum(dim=-1)
    # Row i, column j.
    wrong = scale * (cosines[:, None] - cosines[None, :])
    ordered = scores[:, None] < scores[None, :]
    logits = wrong.masked_fill(~ordered, float("-inf")).flatten()
    return torch.logsumexp(torch.cat([logits.new_zeros(1), logits]), dim=0)


def retrieval(
    queries: torch.Tensor,
    passages: torch.Tensor,
    targets: torch.Tensor,
    blocked: torch.Tensor,
    *,
    scale: float,
) -> torch.Tensor:
    """InfoNCE: each query is to choose its passage among all of the batch, the wrong ones of other queries included.

    Parameters
    ----------
    queries : float32, shape (batch, dimension), unit rows
    passages : float32, shape (passages, dimension), unit rows
        Each text once.
    targets : int64, shape (batch,)
        Which passage is each query's.
    blocked : bool, shape (batch, passages)
        Passages that are none of a query's wrong ones: it has them as right ones too. A query's target may be blocked
        or not; it takes part.
    scale : float
        Inverse temperature.
    """
    logits = scale * queries @ passages.T
    own = functional.one_hot(targets, passages.shape[0]).bool()
    return functional.cross_entropy(logits.masked_fill(blocked & ~own, float("-inf")), targets)
