"""Trains a head: from examples and cached states to the best weights and what they are worth on held-out examples.

It knows neither files of examples nor checkpoints; a `RunFolder` keeps where a run is.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ... import UsageError
from . import loop as looping
from .baseline import Baseline, measured_baseline
from .examples import Examples
from .results import TrainingResult, TrainingStep
from .run_folder import RunFolder
from .sets import facts_of, names_of, parted
from .settings import TrainingSettings
from .sources import StateSource
from .tasks import Task, task_for

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ..heads.configuration import HeadConfig

_SCHEMA = 2


def train_head(
    config: HeadConfig,
    examples: Examples | Sequence[Examples],
    cache: StateSource,
    *,
    settings: TrainingSettings = TrainingSettings(),  # noqa: B008 - frozen
    run: RunFolder,
    report: Callable[[TrainingStep], None] = lambda step: None,
    check: Callable[[], None] = lambda: None,
    start: Mapping[str, np.ndarray] | None = None,
    held_out: Examples | Sequence[Examples] | None = None,
    device: str = "cpu",
    limit_seconds: float | None = None,
) -> TrainingResult:
    """Train the head that `config` describes.

    Where `run` holds an interrupted training of the same kind it goes on, and ends in the same bytes as one that was
    not interrupted. The best weights are kept; those of the start count as a check too.

    Parameters
    ----------
    config : HeadConfig
    examples : Examples or sequence of them
        Several are learned together, their batches taking turns. A part of each is held out.
    cache : StateSource
        A `StateCache` over the backbone, opened for `config`; the states that it lacks are made first.
    report : callable
        Told of every batch and check.
    check : callable
        Called between batches; it may raise to end the work, which is then put down in `run` and comes out.
    start : mapping of str to array, optional
        First weights of the head, by default new ones of `settings.seed`.
    held_out : Examples or sequence of them, optional
        What is measured, one for each of `examples`, which are then trained on as a whole.
    device : str
        Where the head is trained; the same bytes come out on one kind of device and number of threads only.
    limit_seconds : float, optional
        Training ends when so many have passed since the call (the states are finished in any case), with what is best
        by then; called again, it goes on.

    Raises
    ------
    TooFewExamples
        One of the examples has too few to hold some out.
    RunMismatch, RunBusy, RunDamaged
        Of the run's folder.
    slotrag.UsageError
        Nothing can be learned from the examples, or `start` is of another head.
    slotrag.SlotragError
        The loss is not finite any more, or there is no room for the states.
    """
    import torch

    parts = parted(examples, held_out, settings)
    training = _Training(config, parts, cache, settings, torch.device(device), report, check)
    with run.held():
        run.begin(training.configuration(start))
        return training.carried_out(run, start, limit_seconds)


class _Training:
    """One call of `train_head`."""

    def __init__(
        self,
        config: HeadConfig,
        parts: list[tuple[Examples, Examples]],
        cache: StateSource,
        settings: TrainingSettings,
        device: torch.device,
        report: Callable[[TrainingStep], None],
        check: Callable[[], None],
    ) -> None:
        self._config, self._parts, self._cache, self._settings = config, parts, cache, settings
        self._device, self._report, self._check = device, report, check
        self._names = names_of(parts)
        self._started = time.monotonic()
        # Before a folder is written to: what cannot be learned is refused here.
        self._texts = self._by_prefix()

    def configuration(self, start: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
        """All that decides what comes out."""
        return {
            "schema": _SCHEMA,
            "head": self._config.to_json(),
            "settings": asdict(self._settings),
            "data": facts_of(self._parts),
            "inputs": self._cache.key,
            "start": None if start is None else _digest(start),
        }

    def carried_out(
        self, run: RunFolder, start: Mapping[str, np.ndarray] | None, limit_seconds: float | None
    ) -> TrainingResult:
        from ..heads.heads import build_head

        module = build_head(self._config, seed=self._settings.seed).to(self._device)
        if start is not None:
            _load(module, start)
        work = self._loop(module, self._tasks(self._config.dimension))
        stored = run.state()
        clock: dict[str, Any] = {}
        if stored is None:
            self._make_states()
            baseline = self._baseline()
        else:
            tensors, numbers, clock = stored
            baseline = Baseline.from_state(tensors, numbers.pop("baseline"))
            work.restore(tensors, numbers)
            if work.position.stopped in (None, looping.TIME):
                self._make_states()
        trained = time.monotonic()
        before = float(clock.get("seconds", 0.0))

        def seconds() -> float:
            return before + time.monotonic() - trained

        def put_down() -> None:
            tensors, numbers = work.state()
            more, compared = baseline.state()
            run.save_state({**tensors, **more}, {**numbers, "baseline": compared}, {"seconds": round(seconds(), 3)})
            run.save_metrics([asdict(check) for check in work.position.curve])

        def checked() -> None:
            put_down()
            self._report_step(work, baseline, seconds(), work.position.curve[-1])

        def out_of_time() -> bool:
            return limit_seconds is not None and time.monotonic() - self._started >= limit_seconds

        try:
            work.run(
                check=self._check,
                stepped=lambda loss: self._report_step(work, baseline, seconds(), None, loss),
                checked=checked,
                out_of_time=out_of_time,
            )
        except BaseException:
            if work.whole and work.position.curve:
                put_down()
            raise
        put_down()
        result = self._result(work, baseline, seconds(), module)
        run.finish(result.to_json())
        return result

    def _tasks(self, dimension: int) -> dict[str, Task]:
        return {
            name: task_for(train, held, dimension=dimension, settings=self._settings)
            for name, (train, held) in zip(self._names, self._parts, strict=True)
        }

    def _loop(self, module: torch.nn.Module, tasks: Mapping[str, Task]) -> looping.Loop:
        return looping.Loop(module, tasks, self._cache, self._settings, self._device)

    def _by_prefix(self) -> dict[str, list[str]]:
        found: dict[str, dict[str, None]] = {}
        for task in self._tasks(1).values():
            for prefix, texts in task.texts(self._cache.query_prefix, self._cache.passage_prefix):
                found.setdefault(prefix, {}).update(dict.fromkeys(texts))
        return {prefix: list(texts) for prefix, texts in found.items()}

    def _make_states(self) -> None:
        total = sum(len(texts) for texts in self._texts.values())
        done = 0
        for prefix, texts in self._texts.items():

            def tell(ready: int, wanted: int, before: int = done, of_all: int = len(texts)) -> None:
                # `wanted` are those that were missing; the others are ready from the start.
                step = before + of_all - wanted + ready
                self._report(TrainingStep("states", step, total, time.monotonic() - self._started))

            self._cache.ensure(texts, prefix=prefix, report=tell, check=self._check)
            done += len(texts)

    def _baseline(self) -> Baseline:
        def tell(step: int, steps: int, loss: float | None) -> None:
            self._report(TrainingStep("baseline", step, steps, time.monotonic() - self._started, loss=loss))

        return measured_baseline(
            self._tasks(self._config.width), self._cache, self._settings, self._device, check=self._check, report=tell
        )

    def _report_step(
        self,
        work: looping.Loop,
        baseline: Baseline,
        seconds: float,
        found: looping.Check | None,
        loss: float | None = None,
    ) -> None:
        position = work.position
        self._report(
            TrainingStep(
                phase="training",
                step=position.step,
                steps=work.steps,
                seconds=seconds,
                epoch=position.step * self._settings.epochs / work.steps,
                loss=loss if found is None else found.loss,
                measure=None if found is None else found.measure,
                measures=None if found is None else found.measures,
                best=position.best.measure,
                baseline=baseline.measure,
            )
        )

    def _result(
        self, work: looping.Loop, baseline: Baseline, seconds: float, module: torch.nn.Module
    ) -> TrainingResult:
        position = work.position
        assert position.stopped is not None
        return TrainingResult(
            weights=work.weights,
            classifiers=work.classifiers,
            baseline_classifiers=dict(baseline.classifiers),
            measure=position.best.measure,
            measures=dict(position.best.measures),
            baseline=baseline.measure,
            baseline_measures=dict(baseline.measures),
            curve=list(position.curve),
            best_step=position.best_step,
            steps=position.step,
            parameters=sum(parameter.numel() for parameter in module.parameters()),
            seconds=round(seconds, 3),
            stopped=position.stopped,
        )


def _load(module: torch.nn.Module, weights: Mapping[str, np.ndarray]) -> None:
    import torch

    try:
        module.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"The first weights are of another head than the one to train ({reason}).") from error


def _digest(weights: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(weights):
        array = weights[name]
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
