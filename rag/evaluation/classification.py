"""Classification of texts by logistic regression on frozen vectors, by the protocols of MTEB and of SentEval.

MTEB: Muennighoff et al., EACL 2023, section 3.2, and its program, github.com/embeddings-benchmark/mteb,
``mteb/abstasks/classification.py``: 8 texts of each label (``samples_per_label``), 10 draws (``n_experiments``), the
seed 42 for each, scikit-learn's regression with ``max_iter=100`` and defaults otherwise; accuracy is the main score.
With all-MiniLM-L6-v2 on Banking77 it gives the accuracy that MTEB publishes, 0.80042, and the same macro-F1.
SentEval: Conneau and Kiela, LREC 2018, section 3, and its program, github.com/facebookresearch/SentEval,
``senteval/tools/validation.py``, ``KFoldClassifier`` (its class for a training and a test file): C from 2^-1 to 2^5,
stratified folds, shuffled by the seed 1111 of ``senteval/engine.py``, whose own number of folds is 5; the setting for
published figures in its examples is 10.

On purpose it differs from them in this:

- The vectors have unit length, as everywhere here; both programs take them as the model gives them.
- Of MTEB's measures it has accuracy and macro-F1 (``f1``). ``ap``, for two labels, is taken there from predicted labels
  and needs to know which of the two is positive; the weighted measures follow the accuracy.
- SentEval by default trains a softmax layer in PyTorch (Adam, batches of 64, weight decay 10^-5 to 10^-2, early
  stopping), on a GPU only. This is what it does without PyTorch, with the solver that scikit-learn has by default now
  (softmax, L-BFGS); in 2018 that was liblinear, one label against the rest.

The regression is scikit-learn's, from the extra ``slotrag[eval]``. It prints nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import SlotragError, UsageError
from ...encoders.estimates import Estimate
from ..events import CancelToken, ProgressListener
from .errors import DatasetError
from .labelled import Labelled, read_labelled
from .regressions import Regressions
from .running import OWN, Run, postprocessed, require_side

if TYPE_CHECKING:
    from ...encoders.backbones.store import ModelStore
    from ...encoders.base import Encoder

PROTOCOLS = ("mteb", "senteval", "full")
"""``mteb``: C = 1, 100 iterations, trained on a few texts of each label, the mean of several draws. ``senteval``: C
chosen from 1/2 to 32 by ten-fold cross-validation on all of the training texts. ``full``: C = 1 on all of them."""

PER_LABEL, DRAWS = 8, 10
"""MTEB's texts of each label and draws, Banking77's too; a task may say otherwise (EmotionClassification takes 16)."""


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
    notices : list of str
        What a reader of the scores should know: test texts whose label is not in the training file, labels with fewer
        training texts than `per_label`.
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
    notices: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The value that ``slotrag eval classification --json`` writes."""
        return {"schema": 1, **asdict(self)}


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
        A file cannot be read, the training file has one label only, or none of the test file's; for ``senteval``, a
        label has one training text only.
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
    _require_labels(Path(train), known, Path(test), asked, protocol)
    run = Run(progress, cancel)
    loaded = run.load(encoder, models, device)
    before = getattr(loaded, "forward_seconds", 0.0)
    vectors = run.encode(loaded, [*known.texts, *asked.texts], encoded_as)
    vectors, steps = postprocessed(loaded, vectors, postprocessing, fitted_on=vectors[: len(known.texts)])
    spent = getattr(loaded, "forward_seconds", 0.0) - before
    work = Regressions(
        vectors[: len(known.texts)], known.labels, vectors[len(known.texts) :], asked.labels, protocol, run
    )
    c, scores = work.few_shot(per_label, draws) if protocol == "mteb" else work.whole()
    return ClassificationScores(
        train=known.name, test=asked.name, encoder=loaded.spec, fingerprint=loaded.fingerprint,
        encoded_as=encoded_as, postprocessing=steps, protocol=protocol,
        draws=draws if protocol == "mteb" else 1, per_label=per_label if protocol == "mteb" else 0, c=c,
        labels=len(set(known.labels)), train_texts=len(known.texts), test_texts=len(asked.texts), scores=scores,
        converged=work.converged, seconds=time.perf_counter() - started, forward_seconds=spent,
        notices=_notices(known, asked, per_label if protocol == "mteb" else 0),
    )  # fmt: skip


def _require_values(protocol: str, per_label: int, draws: int) -> None:
    if protocol not in PROTOCOLS:
        raise UsageError(f"The protocol is one of {', '.join(PROTOCOLS)}, not {protocol!r}.")
    if per_label < 1 or draws < 1:
        raise UsageError("Texts of each label and draws are at least 1.")


def _require_labels(train: Path, known: Labelled, test: Path, asked: Labelled, protocol: str) -> None:
    texts = Counter(known.labels)
    if len(texts) < 2:
        raise DatasetError(train, f"all its texts have the label {known.labels[0]!r}; two labels are needed")
    if not set(asked.labels) & set(texts):
        raise DatasetError(test, f"none of its labels, such as {asked.labels[0]!r}, occurs in the training file")
    rarest = min(texts, key=lambda label: texts[label])
    if protocol == "senteval" and texts[rarest] < 2:
        raise DatasetError(
            train,
            f"the label {rarest!r} has one text; the protocol senteval needs at least two training texts of every "
            "label: add one, or use --protocol full",
        )


def _notices(known: Labelled, asked: Labelled, per_label: int) -> list[str]:
    texts = Counter(known.labels)
    unseen = [label for label in asked.labels if label not in texts]
    found = []
    if unseen:
        found.append(
            f"{len(unseen):,} of {len(asked.labels):,} test texts have a label that no training text has, such as "
            f"{unseen[0]!r}; they count as wrong"
        )
    few = [label for label, count in texts.items() if count < per_label]
    if few:
        found.append(
            f"{len(few):,} of {len(texts):,} labels, such as {few[0]!r}, have fewer than {per_label} training texts; "
            "all of theirs are in every draw"
        )
    return found


def _require_library() -> None:
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise SlotragError("Classification needs scikit-learn: install it with  pip install 'slotrag[eval]'") from error
