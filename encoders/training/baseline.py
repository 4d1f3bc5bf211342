"""What mean pooling is worth on the tasks of a training, under the same settings: what its head is compared with.

It knows no head and no folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .loop import Loop
from .sources import StateSource
from .tasks import Task

if TYPE_CHECKING:
    import numpy as np
    import torch

    from .settings import TrainingSettings

_CLASSIFIERS = "baseline."
"""Before the names of its tensors in a run's state."""


@dataclass(frozen=True)
class Baseline:
    """Mean pooling over the last layer, measured.

    Attributes
    ----------
    measure : float
        Mean of the tasks' deciding measures.
    measures : dict of str to float
        All of them, ``NAME MEASURE``.
    classifiers : dict of str to array
        What was learned of labels over it, ``NUMBER.weight`` and ``NUMBER.bias`` by the number of the task.
    """

    measure: float
    measures: dict[str, float]
    classifiers: dict[str, np.ndarray]

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Tensors and JSON values, of which `from_state` makes the same."""
        tensors = {f"{_CLASSIFIERS}{name}": array for name, array in self.classifiers.items()}
        return tensors, {"measure": self.measure, "measures": self.measures}

    @classmethod
    def from_state(cls, tensors: Mapping[str, np.ndarray], numbers: Mapping[str, Any]) -> Baseline:
        """Read what `state` gave, among other tensors."""
        own = {name.removeprefix(_CLASSIFIERS): a for name, a in tensors.items() if name.startswith(_CLASSIFIERS)}
        return cls(numbers["measure"], dict(numbers["measures"]), own)


def measured_baseline(
    tasks: Mapping[str, Task],
    source: StateSource,
    settings: TrainingSettings,
    device: torch.device,
    *,
    check: Callable[[], None],
    report: Callable[[int, int, float | None], None],
) -> Baseline:
    """Measure mean pooling on each of the tasks, labels by a classifier that is trained on it.

    Parameters
    ----------
    tasks : mapping of str to Task
        For vectors of the backbone's width.
    report : callable
        Told of batches done, all of them, and the loss of the last.
    """
    from .mean_pooling import MeanPooling

    module = MeanPooling().to(device)
    deciding: list[float] = []
    measures: dict[str, float] = {}
    classifiers: dict[str, np.ndarray] = {}
    for number, (name, task) in enumerate(tasks.items()):
        work = Loop(module, {name: task}, source, settings, device)
        steps = work.steps if task.classifier is not None else 1

        def stepped(loss: float | None = None, work: Loop = work, steps: int = steps) -> None:
            report(work.position.step, steps, loss)

        stepped()
        work.run(check=check, stepped=stepped)
        best = work.position.best
        deciding.append(best.measure)
        measures |= best.measures
        classifiers |= {f"{number}{key.removeprefix('0')}": array for key, array in work.classifiers.items()}
    return Baseline(sum(deciding) / len(deciding), measures, classifiers)
