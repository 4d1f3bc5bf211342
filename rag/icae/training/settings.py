"""The settings of a training, as plain values. It imports nothing heavy, so that a command can list them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from .... import UsageError

STAGES: Mapping[str, Mapping[str, float]] = {
    "pretrain": {"autoencode": 0.6, "continue": 0.3, "instruct": 0.1},
    "finetune": {"autoencode": 0.25, "continue": 0.15, "instruct": 0.6},
}
"""What each stage is a mixture of, unless it is given another. Answers begin early, and a reproduction that is not
practised is lost again."""


@dataclass(frozen=True, slots=True)
class CompressorTraining:
    """How a compressor is trained.

    Attributes
    ----------
    steps : int
        All of them; the learning rate falls to its end by then.
    mix : mapping of str to float
        Shares of ``autoencode``, ``continue`` and ``instruct``.
    rates, lengths : str
        Curricula, see `curriculum`: tokens for each slot, and tokens of a context.
    batch_tokens : int
        Context tokens of a step, about.
    passages : int
        Passages of a question at most.
    learning_rate, weight_decay : float
        Of AdamW; the rate at its highest.
    warm_up : int
        Steps in which the learning rate rises from 0.
    floor : float
        Share of the learning rate that is left at the end.
    clip : float
        Longest gradient (its norm over all that is trained).
    distil : float
        Weight of the divergence from the reader of the full text; 0 takes none and saves its reading.
    top : int
        Tokens of that reader's prediction that are told apart.
    check_every : int
        Steps between two checks on held-out texts.
    check_rows : int
        Held-out rows of each kind, rate and length.
    write_every : int
        Checks between two in which texts and answers are also written out; 0 for never.
    write_rows : int
        Texts and answers written then.
    seed : int
    """

    steps: int = 2000
    mix: Mapping[str, float] = field(default_factory=lambda: dict(STAGES["pretrain"]))
    rates: str = "1:100,2:400,2+4:*"
    lengths: str = "32-64:500,64-128:*"
    batch_tokens: int = 512
    passages: int = 1
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    warm_up: int = 50
    floor: float = 0.05
    clip: float = 1.0
    distil: float = 0.5
    top: int = 64
    check_every: int = 200
    check_rows: int = 16
    write_every: int = 5
    write_rows: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_tokens", "passages", "top", "check_every", "check_rows"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is at least 1, not {getattr(self, name)}.")
        for name in ("warm_up", "weight_decay", "distil", "write_every", "write_rows", "seed"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name} is 0 or more, not {getattr(self, name)}.")
        for name in ("learning_rate", "clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} is above 0, not {getattr(self, name)}.")
        if not 0 <= self.floor <= 1:
            raise UsageError(f"floor is between 0 and 1, not {self.floor}.")

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of the step after `step` others: a linear rise, then half a cosine down to the floor.

        Examples
        --------
        >>> training = CompressorTraining(steps=100, warm_up=10, learning_rate=1.0, floor=0.1)
        >>> [round(training.learning_rate_at(step), 3) for step in (0, 9, 10, 55, 99)]
        [0.1, 1.0, 1.0, 0.55, 0.1]
        """
        if step < self.warm_up:
            return self.learning_rate * (step + 1) / self.warm_up
        done = min(1.0, (step - self.warm_up) / max(1, self.steps - self.warm_up))
        falling = 0.5 * (1 + math.cos(math.pi * done))
        return self.learning_rate * (self.floor + (1 - self.floor) * falling)


def parse_mix(text: str) -> dict[str, float]:
    """``autoencode=0.6,instruct=0.4`` as shares.

    Raises
    ------
    slotrag.UsageError
        It is not of the form. Which names there are, and that the shares are none below 0, is seen by who uses them.

    Examples
    --------
    >>> parse_mix("autoencode=0.6, instruct=0.4")
    {'autoencode': 0.6, 'instruct': 0.4}
    """
    shares: dict[str, float] = {}
    try:
        for part in text.split(","):
            name, equals, share = part.partition("=")
            if not equals or name.strip() in shares:
                raise ValueError
            shares[name.strip()] = float(share)
    except ValueError:
        raise UsageError(
            f"--mix is a list of NAME=SHARE, as in autoencode=0.6,continue=0.2,instruct=0.2, not {text!r}."
        ) from None
    return shares
