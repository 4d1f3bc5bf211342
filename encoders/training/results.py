"""What a training tells: how far it is, and what came out. It trains nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .loop import Check

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """How far a training is.

    Attributes
    ----------
    phase : str
        ``states`` (texts go through the backbone), ``baseline`` (mean pooling is measured), ``training``.
    step, steps : int
        Texts or batches done, and all of them; a training may end before its last.
    epoch : float
        Passes over the examples.
    loss : float or None
        Of the batch.
    measure : float or None
        Of the held-out part, where this was a check.
    measures : mapping
        The same by task and name.
    best, baseline : float or None
        The best measure so far, and that of mean pooling.
    seconds : float
        Spent so far, those of an interrupted run included.
    """

    phase: str
    step: int
    steps: int
    seconds: float
    epoch: float = 0.0
    loss: float | None = None
    measure: float | None = None
    measures: Mapping[str, float] | None = None
    best: float | None = None
    baseline: float | None = None


@dataclass(frozen=True)
class TrainingResult:
    """What came out.

    Attributes
    ----------
    weights : dict of str to array
        The head's, at the best check; float32.
    classifiers, baseline_classifiers : dict of str to array
        What was learned of labels over the head and over mean pooling: ``NUMBER.weight``, shape (labels, dimension),
        and ``NUMBER.bias``, by the number of the set of examples; the labels are in the order of their texts.
    measure : float
        On the held-out part at the best check: the mean of the tasks' deciding measures (accuracy of labels,
        Spearman's correlation of pairs, nDCG@10 of queries).
    measures : dict
        All of them, ``NAME MEASURE``.
    baseline, baseline_measures
        The same of mean pooling over the last layer (of a head over one layer: that layer), for labels with a
        classifier trained under the same settings.
    curve : list of Check
        Every check, the start first.
    best_step, steps : int
        Batches trained on until the best check, and in all.
    parameters : int
        Trained numbers of the head.
    seconds : float
        Of training, over all its interruptions; without those of the states.
    stopped : str
        Why it ended: ``epochs``, ``patience``, ``time`` or ``nothing to learn``.
    """

    weights: dict[str, np.ndarray]
    classifiers: dict[str, np.ndarray]
    baseline_classifiers: dict[str, np.ndarray]
    measure: float
    measures: dict[str, float]
    baseline: float
    baseline_measures: dict[str, float]
    curve: list[Check]
    best_step: int
    steps: int
    parameters: int
    seconds: float
    stopped: str

    @property
    def gain(self) -> float:
        """How much better than mean pooling."""
        return self.measure - self.baseline

    def to_json(self) -> dict[str, Any]:
        """All but the arrays."""
        arrays = ("weights", "classifiers", "baseline_classifiers")
        return {**{name: value for name, value in vars(self).items() if name not in (*arrays, "curve")},
                "curve": [asdict(check) for check in self.curve]}  # fmt: skip
