"""The settings of a training run, as plain values. It imports nothing heavy, so that a command can list them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ... import UsageError

PAIR_LOSSES = ("ranking", "cosine")


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How a head is trained.

    Attributes
    ----------
    epochs : int
        Passes over the examples, at most.
    batch : int
        Examples of one step.
    learning_rate, weight_decay : float
        Of Adam.
    patience : int
        Training ends when so many checks in a row brought nothing better than the best.
    held_out : float
        Share of the examples that is not trained on but measured, above 0 and below 1.
    most_held_out : int
        Examples held out at most, however many there are.
    seed : int
        Of the head's first weights, of the parting, of the order and of dropout.
    scale : float
        Inverse temperature of InfoNCE and of ``ranking``, and what a classifier's outputs are multiplied by.
    pair_loss : str
        Of scored pairs: ``ranking`` (CoSENT: the cosines in the order of the scores) or ``cosine`` (the squared
        difference of cosine and score, as GLOT's and ILSE's authors train).
    symmetric : bool
        InfoNCE from passages to queries too, as GLOT's authors train (arXiv 2603.03389).
    candidates : int
        Passages that held-out queries are asked among, at most (all of the held-out ones in any case).
    check_every : int
        Batches between two checks on the held-out part; 0 for a quarter of an epoch, 10 at least.
    """

    epochs: int = 3
    batch: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    patience: int = 2
    held_out: float = 0.1
    most_held_out: int = 2000
    seed: int = 0
    scale: float = 20.0
    pair_loss: Literal["ranking", "cosine"] = "ranking"
    symmetric: bool = False
    candidates: int = 4000
    check_every: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "patience", "most_held_out", "candidates"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is at least 1, not {getattr(self, name)}.")
        for name in ("seed", "check_every", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name} is 0 or more, not {getattr(self, name)}.")
        for name in ("learning_rate", "scale"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} is above 0, not {getattr(self, name)}.")
        if self.pair_loss not in PAIR_LOSSES:
            raise UsageError(f"pair_loss is {' or '.join(PAIR_LOSSES)}, not {self.pair_loss!r}.")
        if not 0 < self.held_out < 1:
            raise UsageError(f"held_out is above 0 and below 1, not {self.held_out}.")
