"""Trains a head on labelled files: from the files to a saved head, kept only where it beats mean pooling.

It knows no library. What is common with adapting a head to a collection (`adapting`) is here too.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import UsageError
from ...encoders.training.settings import TrainingSettings
from ..evaluation.running import Run
from ..events import CancelToken, ProgressListener
from .comparing import Comparison, Vectors, compared
from .grounds import Ground
from .labelled import read_examples
from .outcomes import DataUsed, HeadOutcome

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ...encoders.backbones.store import ModelStore
    from ...encoders.training.examples import Examples
    from ...encoders.training.results import TrainingResult, TrainingStep
    from ...encoders.training.state_cache import StateCache

MEAN_POOLING = "mean pooling"
RUNS = "training"
"""Where runs lie below the models folder, and those of a collection below the library's."""

_STATES = "states"


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
    """Train a head on labelled files, and save it where it is better than mean pooling on a held-out part.

    The held-out part also chooses when to stop: its measure is a little better than one on new data would be.

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
        An unknown encoder or parameter, too few examples, or a run folder of other settings.
    slotrag.SlotragError
        A model is missing, or there is no room for the states.
    slotrag.rag.events.Cancelled
        What is there stays in the run's folder.
    """
    from ...encoders.training.mean_pooling import MeanPooling

    started = time.monotonic()
    if not paths:
        raise UsageError("Name at least one file to train on.")
    work = Run(progress, cancel)
    parts = _parted([read_examples(path, columns=columns, licence=licence) for path in paths], settings)
    work.report(0, 1, "models", "load", spec)
    ground = Ground.of(spec, models, device=device)
    place = run or models.folder / RUNS / _run_name(ground, parts, settings)
    cache = ground.cache(states or place / _STATES, limit_bytes)
    result, head = trained(ground, parts, cache, place, settings, work, limit_seconds=_seconds(minutes))
    before = vectors_of(MeanPooling(), cache, ground.device, work)
    after = vectors_of(head, cache, ground.device, work)
    accuracies = _accuracies(result, len(parts))
    comparisons = [
        compared(
            train, held, before, after, accuracies=accuracies[number], candidates=settings.candidates,
            report=lambda done, total: work.report(done, total, "resamples"),
        )
        for number, (train, held) in enumerate(parts)
    ]  # fmt: skip
    state_bytes = cache.bytes
    if states is None:
        shutil.rmtree(place / _STATES, ignore_errors=True)
    return concluded(
        ground, models, result, comparisons, _used(parts),
        against=MEAN_POOLING, place=place, settings=settings, state_bytes=state_bytes,
        seconds={"states": cache.seconds, "training": result.seconds, "all": time.monotonic() - started},
        better=sum(one.gain.value for one in comparisons) > 0,
    )  # fmt: skip


def trained(
    ground: Ground,
    parts: Sequence[tuple[Examples, Examples]],
    cache: StateCache,
    place: Path,
    settings: TrainingSettings,
    work: Run,
    *,
    limit_seconds: float | None,
) -> tuple[TrainingResult, torch.nn.Module]:
    """Train on parted examples in the run's folder `place`; the result, and the head with its best weights."""
    import torch

    from ...encoders.heads.heads import build_head
    from ...encoders.training.run_folder import RunFolder
    from ...encoders.training.trainer import train_head

    result = train_head(
        ground.config,
        [train for train, _ in parts],
        cache,
        settings=settings,
        run=RunFolder(place),
        report=lambda step: tell(work, step),
        check=work.check,
        start=ground.start,
        held_out=[held for _, held in parts],
        device=ground.device,
        limit_seconds=limit_seconds,
    )
    head = build_head(ground.config)
    head.load_state_dict({name: torch.tensor(array) for name, array in result.weights.items()})
    return result, head.eval().to(ground.device)


def tell(work: Run, step: TrainingStep) -> None:
    """Report a training's step; a check comes with a line for the user."""
    if step.phase == "states":
        work.report(step.step, step.steps, "texts", "states")
    elif step.phase == "baseline":
        work.report(step.step, step.steps, "batches", "baseline")
    else:
        line = ""
        if step.measure is not None:
            line = (
                f"epoch {step.epoch:.2f}: held out {step.measure:.4f} (best {step.best:.4f}, mean {step.baseline:.4f})"
            )
        work.report(step.step, step.steps, "batches", "train", line)


def vectors_of(module: torch.nn.Module, cache: StateCache, device: str, work: Run) -> Vectors:
    """Unit vectors of texts under a module over the states that the cache keeps."""
    import torch

    from ...encoders.training.sources import TextVectors

    found = TextVectors(module.to(device), cache, torch.device(device))

    def side(prefix: str) -> Callable[[Sequence[str]], np.ndarray]:
        def encode(texts: Sequence[str]) -> np.ndarray:
            # They are there, but for a run that had come to its end before.
            cache.ensure(
                texts,
                prefix=prefix,
                report=lambda done, total: work.report(done, total, "texts", "states"),
                check=work.check,
            )
            return found.looked_at(texts, prefix, work.check)

        return encode

    return Vectors(side(cache.query_prefix), side(cache.passage_prefix))


def concluded(
    ground: Ground,
    models: ModelStore,
    result: TrainingResult,
    comparisons: Sequence[Comparison],
    data: Sequence[DataUsed],
    *,
    against: str,
    place: Path,
    settings: TrainingSettings,
    state_bytes: int,
    seconds: dict[str, float],
    better: bool,
    **more: Any,
) -> HeadOutcome:
    """Save a head where it is better, and tell what came of it."""
    from dataclasses import asdict

    from ...encoders.heads.checkpoint import save_head

    spec, file, size = None, None, 0
    if better:
        checkpoint = ground.checkpoint(
            result.weights,
            training={
                "data": [asdict(one) for one in data],
                "settings": asdict(settings),
                "steps": result.best_step,
                "parameters": result.parameters,
            },
            measured={"against": against, "held_out": [asdict(one) for one in comparisons]},
        )
        file = save_head(checkpoint, models)
        spec = ground.spec_of(checkpoint.hash)
        size = sum(path.stat().st_size for path in file.parent.glob(f"{checkpoint.hash}.*"))
    outcome = HeadOutcome(
        method=ground.config.method, against=against, kept=better, spec=spec, file=file, comparisons=comparisons,
        data=data, curve=result.curve, parameters=result.parameters, steps=result.steps, stopped=result.stopped,
        seconds={name: round(value, 3) for name, value in seconds.items()}, state_bytes=state_bytes, head_bytes=size,
        run=place, **more,
    )  # fmt: skip
    return outcome


def _parted(examples: Sequence[Examples], settings: TrainingSettings) -> list[tuple[Examples, Examples]]:
    """Each set's part to train on and its held-out part."""
    return [each.split(min(settings.held_out, settings.most_held_out / len(each)), settings.seed) for each in examples]


def _used(parts: Sequence[tuple[Examples, Examples]]) -> list[DataUsed]:
    return [
        DataUsed(train.name, type(train).__name__, train.sha256, train.licence, len(train), len(held))
        for train, held in parts
    ]


def _accuracies(result: TrainingResult, sets: int) -> list[tuple[float, float]]:
    """What classifiers reached over mean pooling and over the head, of each set; zeros for those without labels."""
    names = [name for name in result.measures if not name.endswith(" mrr@10")]
    assert len(names) == sets, "one deciding measure of each set"
    return [(result.baseline_measures[name], result.measures[name]) for name in names]


def _run_name(ground: Ground, parts: Sequence[tuple[Examples, Examples]], settings: TrainingSettings) -> str:
    from dataclasses import asdict

    facts = [
        ground.config.to_json(), ground.facts, asdict(settings),
        [(train.sha256, len(train), len(held)) for train, held in parts],
        None if ground.start is None else sorted((name, hashlib.sha256(array.tobytes()).hexdigest())
                                                 for name, array in ground.start.items()),
    ]  # fmt: skip
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return f"{ground.config.method}-{digest[:12]}"


def _seconds(minutes: float | None) -> float | None:
    return None if minutes is None else 60.0 * minutes
