"""One training in its run's folder, and the head that is kept of it; common to labelled files and collections.

It knows neither where examples come from nor how heads are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...encoders.training.run_folder import RunFolder
from ...encoders.training.settings import TrainingSettings
from ..evaluation.running import Run
from .comparing import Comparison, Vectors
from .grounds import Ground
from .outcomes import DataUsed, HeadOutcome

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ...encoders.backbones.store import ModelStore
    from ...encoders.training.examples import Examples
    from ...encoders.training.results import TrainingResult, TrainingStep
    from ...encoders.training.state_cache import StateCache


def trained(
    ground: Ground,
    parts: Sequence[tuple[Examples, Examples]],
    cache: StateCache,
    place: Path | RunFolder,
    settings: TrainingSettings,
    work: Run,
    *,
    limit_seconds: float | None,
) -> tuple[TrainingResult, torch.nn.Module]:
    """Train in the run's folder `place`; the result, and the head with its best weights.

    Parameters
    ----------
    parts : sequence of (Examples, Examples)
        What is trained on, and what is watched meanwhile.
    """
    import torch

    from ...encoders.heads.heads import build_head
    from ...encoders.training.trainer import train_head

    result = train_head(
        ground.config,
        [train for train, _ in parts],
        cache,
        settings=settings,
        run=place if isinstance(place, RunFolder) else RunFolder(place),
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
                f"epoch {step.epoch:.2f}: watched {step.measure:.4f} (best {step.best:.4f}, mean {step.baseline:.4f})"
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
            measured={"against": against, "judged": [asdict(one) for one in comparisons]},
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
