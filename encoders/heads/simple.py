"""Heads without a graph: pooling over tokens, and the ways of earlier work to combine a model's layers.

They are what GLOT and ILSE are measured against, under the same interface. It knows no model.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..pooling import KINDS, pool
from .configuration import HeadConfig

_INITIAL_GATE = 1e-4
_GATE_RATE = 10.0


def of(config: HeadConfig) -> nn.Module:
    """The head that a configuration of one of these methods describes."""
    get = config.parameters
    if config.method in KINDS:
        return TokenPooling(config.method)
    if config.method == "attention":
        return AttentionPooling(config.width, hidden=int(get["hidden"]), start=str(get["start"]))
    if config.method == "layer":
        return OneLayer(int(get["layer"]))
    if config.method == "mix":
        return ScalarMix(config.layers + 1)
    if config.method == "dwatt":
        return DepthWiseAttention(
            config.width,
            config.layers + 1,
            bottleneck=float(get["bottleneck"]),
            positions=int(get["positions"]),
            dropout=float(get["dropout"]),
            start=str(get["start"]),
        )
    if config.method == "mlp":
        body = perceptron(config.width, int(get["hidden"]), int(get["depth"]), float(get["dropout"]))
        return BesideLastLayer(LastLayer(body)) if get["start"] == "mean" else LastLayer(body)
    raise ValueError(f"no head here is called {config.method!r}")


def token_scorer(width: int, hidden: int, start: str) -> nn.Sequential:
    """The network that scores a token by its state; with ``start=mean`` all scores are 0 at first."""
    last = nn.Linear(hidden, 1)
    if start == "mean":
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), last)


def weights_over_tokens(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax of `scores` (batch, tokens) over each text's tokens; 0 where `mask` is false."""
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)


def perceptron(width: int, hidden: int, depth: int, dropout: float) -> nn.Sequential:
    """`depth` times a linear layer, ReLU and dropout; nothing for a depth of 0."""
    parts: list[nn.Module] = []
    for place in range(depth):
        parts += [nn.Linear(hidden if place else width, hidden), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*parts)


class Gate(nn.Module):
    """Multiplies by a learned number that is nearly 0 at first: what makes ``start=mean`` begin as mean pooling.

    In a cosine between two outputs of one head the number appears squared, so that at 0 its gradient is 0 and it would
    stay there for ever. 1e-4 moves a cosine by less than float32 resolves, and Adam, whose step does not depend on the
    gradient's size, takes it from there. As that step is about the learning rate, 1e-3, the weight stands for ten
    times itself: from 0 to 1 in a hundred steps instead of a thousand.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.tensor(_INITIAL_GATE / _GATE_RATE))

    def forward(self, values: Tensor) -> Tensor:
        """`values`, weighed."""
        return _GATE_RATE * self.gate * values


class TokenPooling(nn.Module):
    """Mean, maximum, first or last of a text's token states."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """States (batch, tokens, width) to (batch, width)."""
        return pool(states, mask, self.kind)


class AttentionPooling(nn.Module):
    """AdaPool: the mean over tokens weighed by a small network on each token's state.

    With ``start=mean`` all weights are equal at first.
    """

    def __init__(self, width: int, *, hidden: int = 128, start: str = "mean") -> None:
        super().__init__()
        self.scorer = token_scorer(width, hidden, start)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """States (batch, tokens, width) to (batch, width)."""
        states = states.masked_fill(~mask[:, :, None], 0.0)
        weights = weights_over_tokens(self.scorer(states)[..., 0], mask)
        return (weights[:, None, :] @ states)[:, 0]


class OneLayer(nn.Module):
    """One layer's mean."""

    def __init__(self, layer: int) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Layers' means (batch, layers + 1, width) to (batch, width)."""
        return states[:, self.layer].float()


class ScalarMix(nn.Module):
    """ELMo's mix (arXiv 1802.05365, equation 1): all layers' means, weighed by a softmax over learned scalars.

    The mix is uniform at first. The paper's overall factor is left out: a unit vector has no scale.
    """

    def __init__(self, states: int) -> None:
        super().__init__()
        self.scalars = nn.Parameter(torch.zeros(states))

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Layers' means (batch, layers + 1, width) to (batch, width)."""
        return self.scalars.softmax(dim=0) @ states


class DepthWiseAttention(nn.Module):
    """DWAtt (arXiv 2209.15168, equations 4 to 11): the last layer, and attention from it to all layers, added.

    Keys are learned layer embeddings, values a small network of each layer's mean. With ``start=mean`` the values'
    last norms are 0 at first, so that the output is the last layer's mean.
    """

    def __init__(
        self, width: int, states: int, *, bottleneck: float, positions: int, dropout: float, start: str = "mean"
    ) -> None:
        super().__init__()
        inner = max(1, int(width * bottleneck))
        self.positions = nn.Parameter(torch.rand(states, positions))
        self.keys = nn.Linear(positions, width, bias=False)
        self.values = nn.ModuleList(_bottleneck(width, inner) for _ in range(states))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(states))
        self.query = _bottleneck(width, inner)
        self.dropout = nn.Dropout(dropout)
        if start == "mean":
            for norm in self.norms:
                nn.init.zeros_(norm.weight)  # pyright: ignore[reportArgumentType]

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Layers' means (batch, layers + 1, width) to (batch, width)."""
        last = states[:, -1]
        query = 1 + F.elu(last + self.query(last))
        weights = self.dropout((query @ self.keys(self.positions).T).softmax(dim=-1))
        values = [
            norm(value(states[:, place]))
            for place, (value, norm) in enumerate(zip(self.values, self.norms, strict=True))
        ]
        return last + (weights[:, None, :] @ torch.stack(values, dim=1))[:, 0]


class LastLayer(nn.Module):
    """A network on the last layer's mean."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Layers' means (batch, layers + 1, width) to whatever the network gives."""
        return self.body(states[:, -1])


class BesideLastLayer(nn.Module):
    """[mean of the last layer's tokens; g * body]: every cosine begins as that of mean pooling, g being nearly 0.

    Both parts are of unit length before g, so that it means the same on states of any size: norms within a body make
    its output's length depend on the head alone, while states differ by powers of ten between models.
    """

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.gate = Gate()

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """What `body` takes, layers' means or every layer's token states."""
        last = states[:, -1] if mask is None else pool(states[:, -1], mask)
        body = F.normalize(self.body(states, mask), dim=-1)
        return torch.cat([F.normalize(last, dim=-1), self.gate(body)], dim=-1)


def _bottleneck(width: int, inner: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.LayerNorm(inner), nn.Linear(inner, width))
