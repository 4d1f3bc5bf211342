"""Configuration to module: the one place that knows which class carries out which method.

It imports torch only when a head is built, and torch-geometric only for the methods that need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from .configuration import HeadConfig


def build_head(config: HeadConfig, *, seed: int = 0) -> torch.nn.Module:
    """A new head with random weights, the same for the same seed; the global random state stays as it was.

    Its ``forward(states, mask)`` gives float32 of shape (batch, ``config.dimension``), not yet of unit length:

    ``tokens``
        states float32 (batch, tokens, width), mask bool (batch, tokens), true at the text's tokens, at least one a
        row. What stands at masked places is not looked at.
    ``layers``
        states (batch, layers + 1, width), mask None.
    ``layer-tokens``
        states (batch, layers + 1, tokens, width), mask (batch, tokens).

    It is in training mode; a method that has nothing to learn has no parameters. With ``start=mean`` every cosine of a
    new head is that of mean pooling.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _new(config).float()


def _new(config: HeadConfig) -> torch.nn.Module:
    # Only these two need torch-geometric, whose import takes seconds.
    if config.method == "glot":
        from .glot import Glot

        return Glot.of(config)
    if config.method == "ilse":
        from . import ilse

        return ilse.of(config)
    from . import simple

    return simple.of(config)
