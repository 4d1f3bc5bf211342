"""Calibrates an encoder over a frozen model: tries prompts, Token Prepending, demonstrations, layers, post-processing.

The model's passes (`calibration_passes`) are made one after the other; layers and post-processing are arithmetic over
their states (`calibration_scan`). Every other item of the labelled data chooses, the rest is held out and says what the
choice gains over the encoder as it is without a calibration. It knows no file form and no measure: a `Task` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import UsageError
from .backbones.errors import UnusableModel
from .calibration import Calibration, save_calibration
from .calibration_passes import Choices, Passes, Report
from .calibration_scan import Pass, Task
from .errors import PromptTooLong
from .estimates import Estimate, bootstrap
from .postprocessing_steps import NONE
from .spec import EncoderSpec

if TYPE_CHECKING:
    import numpy as np

    from .backbones.store import ModelStore


@dataclass(frozen=True)
class Row:
    """A line of the table: a pass and the best that its states gave.

    Attributes
    ----------
    encoder : str
        A ``tp`` is compared with ``prompteol``, the same without Token Prepending.
    parameters : mapping of str to str
        Of the pass.
    layer : int
        Counted from the end, -1 the last after the final norm.
    chosen, held_out : float
        The measure on the half that chose `layer` and `steps`, and on the other one.
    plain : float
        On the half that chose: the best layer without post-processing.
    texts_per_second : float
        Through all layers; the chosen layer alone takes less.
    """

    encoder: str
    parameters: Mapping[str, str]
    layer: int
    steps: str
    plain: float
    chosen: float
    held_out: float
    seconds: float
    texts_per_second: float


@dataclass(frozen=True)
class Outcome:
    """A finished calibration.

    Attributes
    ----------
    spec : str
        The encoder with what was chosen.
    file : Path or None
        The calibration that `spec` names; None for an encoder that takes none, where `steps` are left to the
        collection (``slotrag rebuild --postprocessing``).
    winner, uncalibrated, gain : Estimate
        On the half held out; `gain` is the difference of the two over the same resampled items.
    others : mapping of str to str
        Specs of the other encoders of the table that got a calibration too.
    left_out : mapping of str to str
        Specs that could not be tried on this backbone, and why.
    """

    spec: str
    file: Path | None
    steps: str
    measure: str
    uncalibrated_spec: str
    winner: Estimate
    uncalibrated: Estimate
    gain: Estimate
    items: tuple[int, int]
    rows: list[Row]
    others: Mapping[str, str]
    left_out: Mapping[str, str]
    seconds: float

    @property
    def recommended(self) -> str:
        """The spec to use: `spec`, unless it is no better than the uncalibrated one on what was held out."""
        return self.spec if self.gain.value > 0 else self.uncalibrated_spec


def calibrate(
    spec: str | EncoderSpec,
    task: Task,
    models: ModelStore,
    *,
    choices: Choices | None = None,
    data: Mapping[str, Any] | None = None,
    device: str = "auto",
    report: Report = lambda done, total, message: None,
) -> Outcome:
    """Find the best settings of an encoder on labelled data and write them into the model cache.

    Parameters
    ----------
    spec : str or EncoderSpec
        One of `ENCODERS`, such as ``tp@smollm2-135m``; its own parameters stay as they are.
    task : Task
    data : mapping, optional
        What the file says of the data beside the task's facts: their licence.
    report : callable
        What it raises stops the work; the passes that are done are remembered.

    Raises
    ------
    slotrag.UsageError
        The encoder has nothing to calibrate, a choice does not exist, or none can be tried on this backbone.
    slotrag.SlotragError
        The encoder cannot be built as its spec stands.
    """
    import numpy as np

    started = time.perf_counter()
    parsed = EncoderSpec.parse(spec) if isinstance(spec, str) else spec
    passes = Passes(parsed, task, models, choices or Choices(), device, report)
    rows, left_out = _table(passes)
    plain = passes.uncalibrated()
    best = max(rows, key=_chosen)
    held = np.asarray(passes.held_out)

    def measured(found: Pass) -> Callable[[np.ndarray], float]:
        outcomes = np.asarray(found.outcomes)
        return lambda places: float(task.score(outcomes, held[places]))

    of_best, of_plain = measured(passes.run(best.encoder, best.parameters)), measured(plain)
    winner, uncalibrated = bootstrap(of_best, len(held)), bootstrap(of_plain, len(held))
    gain = bootstrap(lambda places: of_best(places) - of_plain(places), len(held))
    specs, files = {}, {}
    for name, top in _best_of_each(rows).items():
        specs[name], files[name] = _written(passes, top, plain, models, data or {})
    passes.memory.forget()
    return Outcome(
        spec=specs.pop(best.encoder),
        file=files[best.encoder],
        steps=best.steps,
        measure=task.measure,
        uncalibrated_spec=str(passes.plain_spec),
        winner=winner,
        uncalibrated=uncalibrated,
        gain=gain,
        items=(len(passes.choosing), len(held)),
        rows=sorted(rows, key=_chosen, reverse=True),
        others=specs,
        left_out=left_out,
        seconds=time.perf_counter() - started,
    )


def _table(passes: Passes) -> tuple[list[Row], dict[str, str]]:
    """Every pass: prompts and copying ranges first, then demonstrations with the best of each encoder; and by its spec
    why one could not be tried."""
    first, demonstrations = passes.first(), passes.demonstrations()
    passes.plan(1 + len(first) + len(demonstrations) * len({name for name, _ in first}))
    rows: list[Row] = []
    left_out: dict[str, str] = {}

    def attempt(name: str, parameters: Mapping[str, str]) -> None:
        try:
            rows.append(_row(passes, name, parameters))
        except (PromptTooLong, UnusableModel) as error:
            left_out[str(passes.spec(name, parameters))] = str(error)
            passes.skip()

    for name, parameters in first:
        attempt(name, parameters)
    if not rows:
        reason = next(iter(left_out.values()), "there is none")
        raise UsageError(f"None of the settings can be tried with {passes.backbone}: {reason}")
    best_of_each = _best_of_each(rows)
    passes.plan(1 + len(first) + len(demonstrations) * len(best_of_each))
    for name, best in best_of_each.items():
        for demonstration in demonstrations:
            attempt(name, {**best.parameters, "demonstration": demonstration})
    return rows, left_out


def _row(passes: Passes, name: str, parameters: Mapping[str, str]) -> Row:
    found = passes.run(name, parameters)
    best = found.best
    return Row(
        encoder=name,
        parameters=parameters,
        layer=best.layer - found.layers - 1,
        steps=best.steps,
        plain=max(cell.score for cell in found.cells if cell.steps == NONE),
        chosen=best.score,
        held_out=_held_out(passes, found),
        seconds=found.seconds,
        texts_per_second=len(passes.task.texts) / max(found.seconds, 1e-9),
    )


def _best_of_each(rows: Sequence[Row]) -> dict[str, Row]:
    """The best row of each encoder."""
    names = dict.fromkeys(row.encoder for row in rows)
    return {name: max((row for row in rows if row.encoder == name), key=_chosen) for name in names}


def _chosen(row: Row) -> float:
    return row.chosen


def _held_out(passes: Passes, found: Pass) -> float:
    import numpy as np

    return float(passes.task.score(np.asarray(found.outcomes), passes.held_out))


def _written(
    passes: Passes, row: Row, plain: Pass, models: ModelStore, data: Mapping[str, Any]
) -> tuple[str, Path | None]:
    """The spec that stands for a row, and the file with its calibration."""
    parameters = {**row.parameters, "layer": str(row.layer)}
    if row.encoder == "mean":
        return str(passes.spec(row.encoder, parameters)), None
    calibration = Calibration(
        encoder=row.encoder,
        backbone_weights=passes.weights,
        parameters={key: value for key, value in parameters.items() if key not in passes.given},
        postprocessing=passes.run(row.encoder, row.parameters).postprocessing,
        measured={
            "measure": passes.task.measure,
            "chosen_on": len(passes.choosing),
            "chosen": round(row.chosen, 6),
            "held_out_on": len(passes.held_out),
            "held_out": round(row.held_out, 6),
            "held_out_uncalibrated": round(_held_out(passes, plain), 6),
        },
        data={**passes.task.facts, **data},
    )
    file = save_calibration(calibration, models)
    return str(passes.spec(row.encoder, {}, calibration.hash)), file
