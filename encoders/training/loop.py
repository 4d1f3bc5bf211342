"""Batches, steps, held-out checks and early stopping of one module over some tasks. It knows no folder and no head.

What step n does depends on the seed, n and the state alone, so that a run that was put down anywhere ends in the same
bytes as one that was not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ... import SlotragError
from .sources import StateSource, TextVectors
from .state_tensors import arrays_of, below, moments, restore_moments, tensors_of
from .tasks import Task

if TYPE_CHECKING:
    import numpy as np
    import torch

    from .settings import TrainingSettings

EPOCHS, PATIENCE, TIME, NOTHING = "epochs", "patience", "time", "nothing to learn"
"""Why a run came to its end."""


class Diverged(SlotragError):
    """The loss is not finite any more."""


@dataclass(frozen=True, slots=True)
class Check:
    """What a check on the held-out part found.

    Attributes
    ----------
    step : int
        Batches trained on before it; 0 is the start.
    epoch : float
        The same in passes over the examples.
    loss : float or None
        Mean over the batches since the last check.
    measure : float
        Mean of the tasks' deciding measures.
    measures : dict
        Every measure by its name.
    """

    step: int
    epoch: float
    loss: float | None
    measure: float
    measures: dict[str, float]


@dataclass(slots=True)
class Position:
    """Where a run is: its numbers, beside the tensors."""

    step: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    curve: list[Check] = field(default_factory=list)
    best_step: int = 0
    stopped: str | None = None

    @property
    def best(self) -> Check:
        """The check whose weights are kept."""
        return next(check for check in self.curve if check.step == self.best_step)

    def to_json(self) -> dict[str, Any]:
        """JSON values, of which `from_json` makes an equal position."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Position:
        """Read what `to_json` gave."""
        return cls(**{**value, "curve": [Check(**check) for check in value["curve"]]})


class Loop:
    """Training of `module`.

    Parameters
    ----------
    module : torch.nn.Module
        On `device`; trained in place.
    tasks : mapping of str to Task
        By name; their batches take turns.
    source : StateSource
        Holds the inputs of all texts.
    settings : TrainingSettings
    device : torch.device

    Attributes
    ----------
    position : Position
    steps : int
        Batches of all epochs together.
    whole : bool
        Whether `state` is one between two steps; not where an interrupt from outside came into one.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        tasks: Mapping[str, Task],
        source: StateSource,
        settings: TrainingSettings,
        device: torch.device,
    ) -> None:
        import torch

        self.position, self.whole = Position(), True
        self._module, self._tasks, self._settings = module, tasks, settings
        self._vectors = TextVectors(module, source, device)
        self._batches = {name: -(-task.size // settings.batch) for name, task in tasks.items()}
        self._an_epoch = sum(self._batches.values())
        self.steps = settings.epochs * self._an_epoch
        self._every = settings.check_every or max(10, -(-self._an_epoch // 4))
        self._classifiers = torch.nn.ModuleDict()
        for number, task in enumerate(tasks.values()):
            if task.classifier is not None:
                self._classifiers[str(number)] = task.classifier.to(device)
        self._parameters = [*module.parameters(), *self._classifiers.parameters()]
        self._optimiser = (
            torch.optim.Adam(self._parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)
            if self._parameters
            else None
        )
        self._best: dict[str, np.ndarray] = {}
        self._best_classifiers: dict[str, np.ndarray] = {}
        self._epoch: tuple[int, list[tuple[str, list[int]]]] = (-1, [])

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The module's weights at the best check."""
        return dict(self._best)

    @property
    def classifiers(self) -> dict[str, np.ndarray]:
        """The classifiers' weights at the best check: ``NUMBER.weight`` and ``NUMBER.bias`` by the task's number."""
        return dict(self._best_classifiers)

    def run(
        self,
        *,
        check: Callable[[], None],
        stepped: Callable[[float], None] = lambda loss: None,
        checked: Callable[[], None] = lambda: None,
        out_of_time: Callable[[], bool] = lambda: False,
    ) -> None:
        """Train until the last epoch, until `patience` checks brought nothing better, or until there is no time.

        Parameters
        ----------
        check : callable
            Called between batches; what it raises comes out, and `state` is then that of a whole step.
        stepped : callable
            Given the loss of each batch.
        checked : callable
            Called after each check, when `state` has it.
        out_of_time : callable
            Asked between batches.
        """
        import torch

        position, device = self.position, self._vectors.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            if position.stopped == TIME:
                position.stopped = None
            while position.stopped is None:
                if self._due():
                    self._check(check)
                    checked()
                    continue
                check()
                if out_of_time():
                    position.stopped = TIME
                else:
                    stepped(self._step())

    def _due(self) -> bool:
        """Whether a check comes next: it may be one that was interrupted."""
        position = self.position
        if position.curve and position.curve[-1].step == position.step:
            return False
        return position.step % self._every == 0 or position.step == self.steps

    def _step(self) -> float:
        import torch

        assert self._optimiser is not None
        position = self.position
        self.whole = False
        name, rows = self._batch(position.step)
        torch.manual_seed(_seed(self._settings.seed, position.step))
        self._module.train()
        self._optimiser.zero_grad(set_to_none=True)
        loss = self._tasks[name].loss(rows, self._vectors)
        value = float(loss.detach())
        if value != value or value in (float("inf"), float("-inf")):
            raise Diverged(
                f"The loss of batch {position.step + 1} is not a finite number; train with a smaller learning rate."
            )
        # A batch without any wrong passage has nothing to teach.
        if loss.requires_grad:
            loss.backward()
            self._optimiser.step()
        position.step += 1
        position.loss_sum += value
        position.loss_count += 1
        self.whole = True
        return value

    def _batch(self, step: int) -> tuple[str, list[int]]:
        epoch, place = divmod(step, self._an_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._schedule(epoch))
        return self._epoch[1][place]

    def _schedule(self, epoch: int) -> list[tuple[str, list[int]]]:
        """The batches of an epoch: each task's examples in an order of their own, its batches spread evenly."""
        import numpy as np

        placed = []
        for number, (name, task) in enumerate(self._tasks.items()):
            order = np.random.default_rng([self._settings.seed, epoch, number]).permutation(task.size)
            count = self._batches[name]
            # Equal parts: a last batch of one query would have no wrong passage.
            for place, rows in enumerate(np.array_split(order, count)):
                placed.append(((place + 0.5) / count, number, name, rows.tolist()))
        return [(name, rows) for _, _, name, rows in sorted(placed, key=lambda batch: batch[:2])]

    def _check(self, check: Callable[[], None]) -> None:
        position = self.position
        measures: dict[str, float] = {}
        deciding = []
        for name, task in self._tasks.items():
            found = task.measured(self._vectors, check)
            deciding.append(found[task.measure])
            measures |= {f"{name} {measure}": value for measure, value in found.items()}
        loss = position.loss_sum / position.loss_count if position.loss_count else None
        measure = sum(deciding) / len(deciding)
        self.whole = False
        position.curve.append(Check(position.step, position.step / self._an_epoch, loss, measure, measures))
        position.loss_sum, position.loss_count = 0.0, 0
        if position.step == 0 or measure > position.best.measure:
            position.best_step = position.step
            self._best = arrays_of(self._module.state_dict())
            self._best_classifiers = arrays_of(self._classifiers.state_dict())
        if self._optimiser is None:
            position.stopped = NOTHING
        elif sum(check.step > position.best_step for check in position.curve) >= self._settings.patience:
            position.stopped = PATIENCE
        elif position.step == self.steps:
            position.stopped = EPOCHS
        self.whole = True

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Tensors and JSON values, of which `restore` makes the same state."""
        tensors = {f"head.{name}": value for name, value in arrays_of(self._module.state_dict()).items()}
        tensors |= {f"classifiers.{name}": value for name, value in arrays_of(self._classifiers.state_dict()).items()}
        tensors |= {f"best.{name}": value for name, value in self._best.items()}
        tensors |= {f"best classifiers.{name}": value for name, value in self._best_classifiers.items()}
        if self._optimiser is not None:
            tensors |= moments(self._optimiser)
        return tensors, self.position.to_json()

    def restore(self, tensors: Mapping[str, np.ndarray], numbers: Mapping[str, Any]) -> None:
        """Go back to a state that `state` gave."""

        self.position = Position.from_json(numbers)
        self._module.load_state_dict(tensors_of(below(tensors, "head.")))
        self._classifiers.load_state_dict(tensors_of(below(tensors, "classifiers.")))
        self._best = below(tensors, "best.")
        self._best_classifiers = below(tensors, "best classifiers.")
        if self._optimiser is not None:
            restore_moments(self._optimiser, tensors)


def _seed(seed: int, step: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {step}".encode()).digest()[:7], "little")
