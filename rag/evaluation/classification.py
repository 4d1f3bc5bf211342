"""Classification of texts by logistic regression on frozen vectors, by the protocols of SentEval and MTEB.

SentEval: Conneau and Kiela, LREC 2018, section 3; MTEB: Muennighoff et al., EACL 2023, section 3.2. The regression is
scikit-learn's, from the extra ``slotrag[eval]``. It prints nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import SlotragError, UsageError
from ...encoders.estimates import Estimate, bootstrap
from ..events import CancelToken, ProgressListener
from .errors import DatasetError
from .running import OWN, Run, postprocessed, require_side
from .tables import plain_name, read_content, records

if TYPE_CHECKING:
    import numpy as np

    from ...encoders.backbones.store import ModelStore
    from ...encoders.base import Encoder

PROTOCOLS = ("mteb", "senteval", "full")
"""``mteb``: C = 1, 100 iterations, trained on a few texts of each label, the mean of several draws. ``senteval``: C
chosen from 1/4 to 8 by ten-fold cross-validation on all of the training texts. ``full``: C = 1 on all of them."""

PER_LABEL, DRAWS = 8, 10
"""MTEB's texts of each label and draws, where a task does not say otherwise (Banking77 takes 16)."""

TEXT_COLUMNS = ("text", "sentence", "question", "utterance")
LABEL_COLUMNS = ("label", "category", "intent", "class")

_ITERATIONS = 100
_CHOICES_OF_C = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_FOLDS = 10
_SEEDS = {"mteb": 42, "senteval": 1111, "full": 42}


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts with a label each."""

    name: str
    texts: list[str]
    labels: list[str]


@dataclass(frozen=True, slots=True)
class ClassificationScores:
    """What `evaluate_classification` found.

    Attributes
    ----------
    draws, per_label : int
        Of the protocol ``mteb``; 1 and 0 (all of them) otherwise.
    c : float
        Inverse strength of the regularisation.
    scores : dict of str to Estimate
        ``accuracy`` and ``macro_f1``, 0 to 1. Their 95 % intervals are over the test texts, for ``mteb`` over the
        draws (the least and the greatest value).
    converged : bool
        Whether every regression ended before its last iteration.
    """

    train: str
    test: str
    encoder: str
    fingerprint: str
    encoded_as: str
    postprocessing: str
    protocol: str
    draws: int
    per_label: int
    c: float
    labels: int
    train_texts: int
    test_texts: int
    scores: dict[str, Estimate]
    converged: bool
    seconds: float
    forward_seconds: float

    def to_json(self) -> dict[str, Any]:
        """The value that ``slotrag eval classification --json`` writes."""
        return {"schema": 1, **asdict(self)}


def read_labelled(path: Path, *, columns: Sequence[str] | None = None) -> Labelled:
    """Read a csv, tsv or jsonl file with a text and a label in each row.

    Parameters
    ----------
    columns : sequence of two str, optional
        Names of the columns; by default one of `TEXT_COLUMNS` and one of `LABEL_COLUMNS`.

    Raises
    ------
    DatasetError
        It cannot be read or a line is malformed.
    slotrag.UsageError
        Not two columns.
    """
    if columns is not None and (len(columns) != 2 or not all(columns)):
        raise UsageError("Name two columns, TEXT,LABEL: of the text and of its label.")
    path = Path(path)
    content = read_content(path)
    texts, labels = [], []
    chosen: list[str] | None = None
    for number, record in records(content):
        chosen = chosen or _columns(path, record, columns)
        text, label = (record.get(name) for name in chosen)
        if not isinstance(text, str) or not text.strip():
            raise DatasetError(path, f"there is no text in {chosen[0]!r}", number)
        if isinstance(label, bool) or not isinstance(label, str | int) or not str(label).strip():
            raise DatasetError(path, f"there is no label in {chosen[1]!r}", number)
        texts.append(text)
        labels.append(str(label).strip())
    if not texts:
        raise DatasetError(path, "it holds no text")
    return Labelled(plain_name(path), texts, labels)


def evaluate_classification(
    train: Path,
    test: Path,
    *,
    encoder: Encoder | str,
    models: ModelStore | None = None,
    columns: Sequence[str] | None = None,
    protocol: str = "mteb",
    per_label: int = PER_LABEL,
    draws: int = DRAWS,
    encoded_as: str = "passage",
    postprocessing: str = OWN,
    device: str = "auto",
    progress: ProgressListener | None = None,
    cancel: CancelToken | None = None,
) -> ClassificationScores:
    """Train a logistic regression on the vectors of one file and measure it on another.

    Parameters
    ----------
    protocol : str
        One of `PROTOCOLS`.
    per_label, draws : int
        For ``mteb``: training texts of each label, and how often they are drawn.
    encoded_as, postprocessing
        As for `slotrag.rag.evaluation.sts.evaluate_sts`; given steps are fitted on the training texts.

    Raises
    ------
    DatasetError
        A file cannot be read, the training file has one label only, or none of the test file's.
    slotrag.UsageError
        An unknown protocol, a number below 1, an unknown encoder.
    slotrag.SlotragError
        scikit-learn is not installed, or a model is missing.
    slotrag.rag.events.Cancelled
    """
    started = time.perf_counter()
    _require_values(protocol, per_label, draws)
    require_side(encoded_as)
    _require_library()
    known, asked = read_labelled(train, columns=columns), read_labelled(test, columns=columns)
    if len(set(known.labels)) < 2:
        raise DatasetError(Path(train), f"all its texts have the label {known.labels[0]!r}; two labels are needed")
    if not set(asked.labels) & set(known.labels):
        raise DatasetError(Path(test), f"none of its labels, such as {asked.labels[0]!r}, occurs in the training file")
    run = Run(progress, cancel)
    loaded = run.load(encoder, models, device)
    before = getattr(loaded, "forward_seconds", 0.0)
    vectors = run.encode(loaded, [*known.texts, *asked.texts], encoded_as)
    vectors, steps = postprocessed(loaded, vectors, postprocessing, fitted_on=vectors[: len(known.texts)])
    spent = getattr(loaded, "forward_seconds", 0.0) - before
    work = _Work(vectors[: len(known.texts)], known.labels, vectors[len(known.texts) :], asked.labels, protocol, run)
    c, scores = work.few_shot(per_label, draws) if protocol == "mteb" else work.whole()
    return ClassificationScores(
        train=known.name, test=asked.name, encoder=loaded.spec, fingerprint=loaded.fingerprint,
        encoded_as=encoded_as, postprocessing=steps, protocol=protocol,
        draws=draws if protocol == "mteb" else 1, per_label=per_label if protocol == "mteb" else 0, c=c,
        labels=len(set(known.labels)), train_texts=len(known.texts), test_texts=len(asked.texts), scores=scores,
        converged=work.converged, seconds=time.perf_counter() - started, forward_seconds=spent,
    )  # fmt: skip


class _Work:
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

        self._known, self._known_labels = known, np.asarray(known_labels)
        self._asked, self._asked_labels = asked, np.asarray(asked_labels)
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
            for name, value in _measures(self._asked_labels, predicted).items():
                found.setdefault(name, []).append(value)
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
                lambda places, name=name: _measures(self._asked_labels[places], predicted[places])[name],
                len(predicted),
                report=lambda done, total: self._run.report(done, total, "resamples"),
            )
            for name in ("accuracy", "macro_f1")
        }
        return c, scores

    def _chosen_c(self) -> float:
        """The C with the best accuracy in ten-fold cross-validation on the training texts; the first of equal ones."""
        import numpy as np
        from sklearn.model_selection import StratifiedKFold

        fewest = int(np.unique(self._known_labels, return_counts=True)[1].min())
        if fewest < 2:
            raise SlotragError(
                "The protocol senteval needs at least two training texts of every label; use --protocol full."
            )
        folds = StratifiedKFold(n_splits=min(_FOLDS, fewest), shuffle=True, random_state=self._seed)
        cuts = list(folds.split(self._known, self._known_labels))
        means = []
        for place, c in enumerate(_CHOICES_OF_C):
            right = []
            for number, (fitted_on, left_out) in enumerate(cuts):
                self._run.report(place * len(cuts) + number, len(cuts) * len(_CHOICES_OF_C), "regressions")
                predicted = self._fitted(fitted_on, c).predict(self._known[left_out])
                right.append(float((predicted == self._known_labels[left_out]).mean()))
            means.append(float(np.mean(right)))
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


def _measures(wanted: np.ndarray, predicted: np.ndarray) -> Mapping[str, float]:
    from sklearn.metrics import accuracy_score, f1_score

    no_prediction: Any = 0  # pyright knows "warn" only
    return {
        "accuracy": float(accuracy_score(wanted, predicted)),
        "macro_f1": float(f1_score(wanted, predicted, average="macro", zero_division=no_prediction)),
    }


def _first_of_each(labels: np.ndarray, order: np.ndarray, most: int) -> np.ndarray:
    """The first `most` positions of each label in `order`."""
    import numpy as np

    taken: dict[str, int] = {}
    chosen = []
    for place in order.tolist():
        label = str(labels[place])
        if taken.get(label, 0) < most:
            taken[label] = taken.get(label, 0) + 1
            chosen.append(place)
    return np.asarray(chosen)


def _columns(path: Path, record: Mapping[str, Any], columns: Sequence[str] | None) -> list[str]:
    by_small = {name.lower(): name for name in record}
    there = ", ".join(record)
    chosen = []
    wanted = (TEXT_COLUMNS, LABEL_COLUMNS) if columns is None else tuple((name,) for name in columns)
    find: Callable[[str], str | None] = by_small.get if columns is None else {name: name for name in record}.get
    for known in wanted:
        name = next((found for found in map(find, known) if found is not None), None)
        if name is None:
            raise DatasetError(
                path, f"there is no column {known[0]!r}; there are {there}; name yours by --columns TEXT,LABEL", 1
            )
        chosen.append(name)
    return chosen


def _require_values(protocol: str, per_label: int, draws: int) -> None:
    if protocol not in PROTOCOLS:
        raise UsageError(f"The protocol is one of {', '.join(PROTOCOLS)}, not {protocol!r}.")
    if per_label < 1 or draws < 1:
        raise UsageError("Texts of each label and draws are at least 1.")


def _require_library() -> None:
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise SlotragError("Classification needs scikit-learn: install it with  pip install 'slotrag[eval]'") from error
