"""Trains a head on labelled files: from the files to a saved head, kept only where it beats mean pooling.

It knows no library; `carrying_out` has what is common with adapting a head to a collection (`adapting`).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ... import UsageError
from ...encoders.training.settings import TrainingSettings
from ..evaluation.running import Run
from ..events import CancelToken, ProgressListener
from .carrying_out import concluded, trained, vectors_of
from .comparing import Classifier, compared
from .grounds import Ground, require_head
from .labelled import read_examples
from .outcomes import DataUsed, HeadOutcome
from .parting import Parting, in_three, require_enough
from .run_places import RUNS, STATES

if TYPE_CHECKING:
    from ...encoders.backbones.store import ModelStore
    from ...encoders.training.examples import Examples
    from ...encoders.training.results import TrainingResult

MEAN_POOLING = "mean pooling"


def train_from_file(
    spec: str,
    paths: Sequence[Path | str],
    models: ModelStore,
    *,
    settings: TrainingSettings = TrainingSettings(),  # noqa: B008 - frozen
    columns: Mapping[str, str] | None = None,
    licence: str = "",
    run: Path | None = None,
    states: Path | None = None,
    limit_bytes: int | None = None,
    minutes: float | None = None,
    device: str = "auto",
    progress: ProgressListener | None = None,
    cancel: CancelToken | None = None,
) -> HeadOutcome:
    """Train a head on labelled files, and save it where it is better than mean pooling on a part set apart for that.

    Each file is parted in three: what is trained on, what says when to stop, and what the head is judged on, which
    neither has seen (see `parting`). `settings.held_out` is the share to judge on.

    Parameters
    ----------
    spec : str
        See `grounds.Ground`.
    paths : sequence of Path
        See `labelled.read_examples`; several are learned together.
    columns, licence
        Of all of them.
    run : Path, optional
        The run's folder; by default one below the models folder that is named by all that the run depends on, so that
        the same call goes on where an interrupted one was.
    states : Path, optional
        Where the frozen states are kept and looked for. By default they lie in the run's folder and are deleted when
        it is done.
    limit_bytes : int, optional
        Most that the states may take.
    minutes : float, optional
        Training ends then, with the best by then.

    Raises
    ------
    slotrag.rag.evaluation.errors.DatasetError
        A file cannot be read.
    slotrag.UsageError
        An unknown encoder or parameter, too few examples to part them so, or a run folder of other settings.
    slotrag.SlotragError
        A model is missing, or there is no room for the states.
    slotrag.rag.events.Cancelled
        What is there stays in the run's folder.
    """
    from ...encoders.training.mean_pooling import MeanPooling

    started = time.monotonic()
    if not paths:
        raise UsageError("Name at least one file to train on.")
    # What can be told without reading anything comes first.
    require_head(spec)
    work = Run(progress, cancel)
    parts = _parted([read_examples(path, columns=columns, licence=licence) for path in paths], settings)
    work.report(0, 1, "models", "load", spec)
    ground = Ground.of(spec, models, device=device)
    place = run or models.folder / RUNS / _run_name(ground, parts, settings)
    cache = ground.cache(states or place / STATES, limit_bytes)
    result, head = trained(
        ground, [(part.training, part.watched) for part in parts], cache, place, settings, work,
        limit_seconds=_seconds(minutes),
    )  # fmt: skip
    before = vectors_of(MeanPooling(), cache, ground.device, work)
    after = vectors_of(head, cache, ground.device, work)
    comparisons = [
        compared(
            part.training, part.judged, before, after,
            classifiers=_classifiers(result, number, part.training), candidates=settings.candidates,
            report=lambda done, total: work.report(done, total, "resamples"),
        )
        for number, part in enumerate(parts)
    ]  # fmt: skip
    state_bytes = cache.bytes
    if states is None:
        shutil.rmtree(place / STATES, ignore_errors=True)
    return concluded(
        ground, models, result, comparisons, _used(parts),
        against=MEAN_POOLING, place=place, settings=settings, state_bytes=state_bytes,
        seconds={"states": cache.seconds, "training": result.seconds, "all": time.monotonic() - started},
        better=sum(one.gain.value for one in comparisons) > 0,
    )  # fmt: skip


def _parted(examples: Sequence[Examples], settings: TrainingSettings) -> list[Parting[Examples]]:
    parts = []
    for each in examples:
        part = in_three(each, settings.held_out, settings.seed, most=settings.most_held_out)
        require_enough(part, each.name)
        parts.append(part)
    return parts


def _used(parts: Sequence[Parting[Examples]]) -> list[DataUsed]:
    return [
        DataUsed(
            part.training.name, type(part.training).__name__, part.training.sha256, part.training.licence,
            len(part.training), len(part.watched), len(part.judged),
        )
        for part in parts
    ]  # fmt: skip


def _classifiers(result: TrainingResult, number: int, train: Examples) -> tuple[Classifier, Classifier] | None:
    """What was learned of the labels of a set over mean pooling and over the head; None where it has none."""
    from ...encoders.training.examples import Labelled

    if not isinstance(train, Labelled):
        return None
    labels = sorted(set(train.labels))
    found = [
        Classifier(labels, arrays[f"{number}.weight"], arrays[f"{number}.bias"])
        for arrays in (result.baseline_classifiers, result.classifiers)
    ]
    return found[0], found[1]


def _run_name(ground: Ground, parts: Sequence[Parting[Examples]], settings: TrainingSettings) -> str:
    from dataclasses import asdict

    facts = [
        ground.config.to_json(), ground.facts, asdict(settings),
        [(part.training.sha256, len(part.training), len(part.watched), len(part.judged)) for part in parts],
        None if ground.start is None else sorted((name, hashlib.sha256(array.tobytes()).hexdigest())
                                                 for name, array in ground.start.items()),
    ]  # fmt: skip
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return f"{ground.config.method}-{digest[:12]}"


def _seconds(minutes: float | None) -> float | None:
    return None if minutes is None else 60.0 * minutes
