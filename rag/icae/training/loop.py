"""Steps, checks and the best weights of one training. It knows no folder, no files and no words of prompts.

What step n does depends on the seed, n and the state alone, so that a run that was put down anywhere ends in the same
bytes, on one kind of device and number of threads, as one that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ....encoders.training.loop import Diverged
from ....encoders.training.state_tensors import below, moments, restore_moments
from .checking import Cell, Checker, deciding, summary
from .drawing import Drawer, context_tokens
from .objectives import Reader, group_loss

if TYPE_CHECKING:
    from .settings import CompressorTraining

STEPS, TIME = "steps", "time"
"""Why a run came to its end."""

LOG_EVERY = 20
"""Steps that a line of the training curve is the mean of."""


@dataclass(slots=True)
class Position:
    """Where a run is: its numbers, beside the tensors.

    Attributes
    ----------
    step, tokens : int
        Steps done, and the context tokens compressed in them.
    curve : list of dict
        Lines of the training's means (``train``) and of the checks (``check``).
    sums : dict
        What the next line of the training's means is made of: sum and count by name.
    baselines : dict
        Measures of the cells that do not depend on the compressor.
    pending : dict
        Measures of the cells of a check that is not at its end.
    best_step : int
    best_loss : float or None
        The deciding loss of the best check.
    stopped : str or None
    """

    step: int = 0
    tokens: int = 0
    curve: list[dict[str, Any]] = field(default_factory=list)
    sums: dict[str, list[float]] = field(default_factory=dict)
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    pending: dict[str, dict[str, float]] = field(default_factory=dict)
    best_step: int = 0
    best_loss: float | None = None
    stopped: str | None = None

    @property
    def checks(self) -> list[dict[str, Any]]:
        """The checks, the start's first."""
        return [line for line in self.curve if line["kind"] == "check"]

    @property
    def best(self) -> dict[str, Any]:
        """The check whose weights are kept."""
        return next(line for line in self.checks if line["step"] == self.best_step)


class Loop:
    """Training of the reader's compressor.

    Parameters
    ----------
    reader : Reader
    drawer : Drawer
    checker : Checker
    settings : CompressorTraining

    Attributes
    ----------
    position : Position
    whole : bool
        Whether `state` is one between two steps; not where an interrupt from outside came into one.
    """

    def __init__(self, reader: Reader, drawer: Drawer, checker: Checker, settings: CompressorTraining) -> None:
        self.position, self.whole = Position(), True
        self._reader, self._drawer, self._checker, self._settings = reader, drawer, checker, settings
        self._trained = reader.module.trainable()
        self._optimiser = torch.optim.AdamW(
            list(self._trained.values()), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self._best: dict[str, np.ndarray] = {}

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The compressor's weights at the best check."""
        return dict(self._best)

    def run(
        self,
        *,
        check: Callable[[], None],
        stepped: Callable[[dict[str, float]], None] = lambda losses: None,
        checked: Callable[[], None] = lambda: None,
        put_down: Callable[[], None] = lambda: None,
        out_of_time: Callable[[], bool] = lambda: False,
    ) -> None:
        """Train to the last step, or until there is no time.

        Parameters
        ----------
        check : callable
            Called between steps; what it raises comes out, and `state` is then that of a whole step.
        stepped : callable
            Given the losses of each step by objective.
        checked : callable
            Called after each check, when `state` has it.
        put_down : callable
            Called wherever `state` may be saved.
        out_of_time : callable
            Asked between steps.
        """
        position = self.position
        if position.stopped == TIME:
            position.stopped = None
        while position.stopped is None:
            check()
            put_down()
            if self._due():
                if self._check_one():
                    checked()
            elif position.step == self._settings.steps:
                position.stopped = STEPS
            elif out_of_time():
                position.stopped = TIME
            else:
                stepped(self._step())

    def outcome(self, check: Callable[[], None]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The best check with its weights, those as they are now among them.

        Where the time was over between two checks these are measured too. They are no part of the state, so that a
        run that goes on ends like one that was never put down.
        """
        position, cells = self.position, self._checker.losses()
        if not self._is_unchecked():
            return position.best, self.weights
        found = {}
        for cell in cells:
            check()
            found[cell.name] = self._checker.measured(cell)
        line = self._line(found, cells)
        if position.best_loss is not None and line["loss"] >= position.best_loss:
            return position.best, self.weights
        return line, self._reader.module.weights()

    def _due(self) -> bool:
        """Whether a check comes next, or goes on."""
        settings, step = self._settings, self.position.step
        return (step % settings.check_every == 0 or step == settings.steps) and self._is_unchecked()

    def _is_unchecked(self) -> bool:
        checks = self.position.checks
        return not checks or checks[-1]["step"] != self.position.step

    def _step(self) -> dict[str, float]:
        position, settings = self.position, self._settings
        rows = self._drawer.step(position.step)
        self.whole = False
        rate = settings.learning_rate_at(position.step)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.zero_grad(set_to_none=True)
        losses = {}
        for objective, found in groupby(rows, key=lambda row: row.objective):
            group = list(found)
            done = group_loss(self._reader, group, distil=settings.distil, top=settings.top)
            value = float(done.loss.detach())
            if not np.isfinite(value):
                raise Diverged(
                    f"The loss of step {position.step + 1} is not a finite number; train with a smaller learning rate."
                )
            (done.loss * (len(group) / len(rows))).backward()
            losses[objective] = done.entropy
            self._count(f"{objective} loss", done.entropy)
            self._count(f"{objective} accuracy", done.right)
            if done.divergence:
                self._count(f"{objective} divergence", done.divergence)
        length = torch.nn.utils.clip_grad_norm_(list(self._trained.values()), settings.clip)
        self._count("gradient", float(length))
        self._optimiser.step()
        position.step += 1
        position.tokens += context_tokens(rows)
        if position.step % LOG_EVERY == 0 or position.step == settings.steps:
            self._log(rate)
        self.whole = True
        return losses

    def _count(self, name: str, value: float) -> None:
        total = self.position.sums.setdefault(name, [0.0, 0])
        total[0] += value
        total[1] += 1

    def _log(self, rate: float) -> None:
        position = self.position
        means = {name: total / count for name, (total, count) in sorted(position.sums.items())}
        position.curve.append(
            {"kind": "train", "step": position.step, "tokens": position.tokens, "learning rate": rate, **means}
        )
        position.sums = {}

    def _check_one(self) -> bool:
        """Measure the next cell of a check; whether it was the last."""
        position, settings, checker = self.position, self._settings, self._checker
        for cell in checker.baselines():
            if cell.name not in position.baselines:
                position.baselines[cell.name] = checker.measured(cell)
                return False
        number = len(position.checks)
        writes = settings.write_every and (number % settings.write_every == 0 or position.step == settings.steps)
        # At the start nothing can be written yet that would be worth its time.
        cells = [*checker.losses(), *(checker.written() if writes and position.step else ())]
        for cell in cells:
            if cell.name not in position.pending:
                position.pending[cell.name] = checker.measured(cell)
                return False
        self._conclude(cells)
        return True

    def _conclude(self, cells: list[Cell]) -> None:
        position = self.position
        line = self._line(position.pending, cells)
        self.whole = False
        position.curve.append(line)
        position.pending = {}
        if position.best_loss is None or line["loss"] < position.best_loss:
            position.best_loss, position.best_step = line["loss"], position.step
            self._best = self._reader.module.weights()
        self.whole = True

    def _line(self, found: Mapping[str, dict[str, float]], cells: list[Cell]) -> dict[str, Any]:
        """What the curve says of a check."""
        position = self.position
        return {
            "kind": "check",
            "step": position.step,
            "tokens": position.tokens,
            "loss": deciding(found, cells, self._settings.mix),
            "measures": summary({**position.baselines, **found}, cells),
        }

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Tensors and JSON values, of which `restore` makes the same state."""
        tensors = {f"weights.{name}": value for name, value in self._reader.module.weights().items()}
        tensors |= {f"best.{name}": value for name, value in self._best.items()}
        return {**tensors, **moments(self._optimiser)}, asdict(self.position)

    def restore(self, tensors: Mapping[str, np.ndarray], numbers: Mapping[str, Any]) -> None:
        """Go back to a state that `state` gave."""
        self.position = Position(**numbers)
        self._reader.module.load_weights(below(tensors, "weights."))
        self._best = below(tensors, "best.")
        restore_moments(self._optimiser, tensors)
