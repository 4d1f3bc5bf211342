"""The regressions of `classification`: on a few texts of each label, or on all of them with a C given or chosen.

It knows vectors and labels only, no file and no encoder. Where the numbers come from is told in `classification`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...encoders.estimates import Estimate, bootstrap
from .running import Run

if TYPE_CHECKING:
    import numpy as np

_ITERATIONS = 100  # MTEB's max_iter, and scikit-learn's where SentEval gives none
_CHOICES_OF_C = tuple(2.0**power for power in range(-1, 6))
_FOLDS = 10
_SEEDS = {"mteb": 42, "senteval": 1111, "full": 42}


class Regressions:
    """The regressions over the vectors of both files."""

    def __init__(
        self,
        known: np.ndarray,
        known_labels: Sequence[str],
        asked: np.ndarray,
        asked_labels: Sequence[str],
        protocol: str,
        run: Run,
    ) -> None:
        import numpy as np

        labels, numbers = np.unique([*known_labels, *asked_labels], return_inverse=True)
        self._labels = len(labels)
        self._known, self._known_labels = known, numbers[: len(known)]
        self._asked, self._asked_labels = asked, numbers[len(known) :]
        self._seed, self._protocol, self._run = _SEEDS[protocol], protocol, run
        self.converged = True

    def few_shot(self, per_label: int, draws: int) -> tuple[float, dict[str, Estimate]]:
        """MTEB's: the mean over `draws` of a regression on `per_label` texts of each label."""
        import numpy as np

        order = np.arange(len(self._known_labels))
        found: dict[str, list[float]] = {}
        for number in range(draws):
            self._run.report(number, draws, "draws")
            # The order of one draw is shuffled on for the next, with the same seed, as MTEB does.
            np.random.RandomState(self._seed).shuffle(order)
            chosen = _first_of_each(self._known_labels, order, per_label)
            predicted = self._predicted(self._fitted(chosen, 1.0))
            for name, measure in self._measures().items():
                found.setdefault(name, []).append(measure(self._asked_labels, predicted))
        self._run.report(draws, draws, "draws")
        return 1.0, {name: Estimate(float(np.mean(all_)), min(all_), max(all_)) for name, all_ in found.items()}

    def whole(self) -> tuple[float, dict[str, Estimate]]:
        """A regression on all of the training texts; its interval is over the test texts."""
        import numpy as np

        c = self._chosen_c() if self._protocol == "senteval" else 1.0
        self._run.report(0, 1, "regressions")
        predicted = self._predicted(self._fitted(np.arange(len(self._known_labels)), c))
        scores = {
            name: bootstrap(
                lambda places, measure=measure: measure(self._asked_labels[places], predicted[places]),
                len(predicted),
                report=lambda done, total: self._run.report(done, total, "resamples"),
            )
            for name, measure in self._measures().items()
        }
        return c, scores

    def _measures(self) -> dict[str, Callable[[np.ndarray, np.ndarray], float]]:
        """Of the wanted and the predicted labels' numbers."""
        return {"accuracy": _accuracy, "macro_f1": lambda wanted, found: _macro_f1(wanted, found, self._labels)}

    def _chosen_c(self) -> float:
        """The C with the best accuracy in ten-fold cross-validation on the training texts; the first of equal ones.

        Accuracies are equal that agree in hundredths of a percent. A label with fewer texts than there are folds is in
        some of them only, about which scikit-learn warns.
        """
        import warnings

        import numpy as np
        from sklearn.model_selection import StratifiedKFold

        most = int(np.bincount(self._known_labels).max())
        folds = StratifiedKFold(n_splits=min(_FOLDS, most), shuffle=True, random_state=self._seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
            cuts = list(folds.split(self._known, self._known_labels))
        means = []
        for place, c in enumerate(_CHOICES_OF_C):
            right = []
            for number, (fitted_on, left_out) in enumerate(cuts):
                self._run.report(place * len(cuts) + number, len(cuts) * len(_CHOICES_OF_C), "regressions")
                predicted = self._fitted(fitted_on, c).predict(self._known[left_out])
                right.append(float((predicted == self._known_labels[left_out]).mean()))
            means.append(round(100 * float(np.mean(right)), 2))
        return _CHOICES_OF_C[int(np.argmax(means))]

    def _fitted(self, places: np.ndarray, c: float) -> Any:
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        regression = LogisticRegression(C=c, max_iter=_ITERATIONS, random_state=self._seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # told by `converged`
            regression.fit(self._known[places], self._known_labels[places])
        self.converged = self.converged and int(regression.n_iter_.max()) < _ITERATIONS
        return regression

    def _predicted(self, regression: Any) -> np.ndarray:
        return regression.predict(self._asked)


def _accuracy(wanted: np.ndarray, found: np.ndarray) -> float:
    return float((wanted == found).mean())


def _macro_f1(wanted: np.ndarray, found: np.ndarray, labels: int) -> float:
    """The mean F1 of the labels 0 to `labels` - 1 that are wanted or found, as scikit-learn's, which is far slower."""
    import numpy as np

    either = np.bincount(wanted, minlength=labels) + np.bincount(found, minlength=labels)
    right = np.bincount(wanted[wanted == found], minlength=labels)
    there = either > 0
    return float((2 * right[there] / either[there]).mean())


def _first_of_each(labels: np.ndarray, order: np.ndarray, most: int) -> np.ndarray:
    """The first `most` positions of each label in `order`."""
    import numpy as np

    taken: dict[int, int] = {}
    chosen = []
    for place in order.tolist():
        label = int(labels[place])
        if taken.get(label, 0) < most:
            taken[label] = taken.get(label, 0) + 1
            chosen.append(place)
    return np.asarray(chosen)
