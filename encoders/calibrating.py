"""Calibrates an encoder over a frozen model: tries prompts, Token Prepending, demonstrations, layers, post-processing.

One pass through the model for each prompt, copying range and demonstration; layers and post-processing are arithmetic
over its states (`calibration_scan`). Every other item of the labelled data chooses, the rest is held out and says what
the choice gains over the encoder as it is without a calibration. It knows no file form and no measure: a `Task` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import UsageError
from . import registry
from .calibration import FOLDER, Calibration, save_calibration
from .calibration_scan import Memory, Pass, Task, in_chunks, scan
from .estimates import Estimate, bootstrap
from .postprocessing_steps import NONE, parse_steps
from .spec import EncoderSpec

if TYPE_CHECKING:
    import numpy as np

    from .backbones.store import ModelStore

ENCODERS = ("tp", "prompteol", "echo", "mean")
"""What can be calibrated."""

STEPS = (
    NONE, "mean", "top=1", "mean+top=1", "mean+top=3", "mean+top=8", "whiten=64", "whiten=128", "whiten=256",
    "embedfilter",
)  # fmt: skip
PROMPTS = ("eol", "cot", "knowledge")
ECHO_PROMPTS = ("rewrite", "repeat")
EXITS = (1, 3, 5, 7)
"""Tried for ``tp``, whose copying starts at 1: an exit of 1 copies nothing."""

DEMONSTRATIONS = ("orchard", "turbine", "moons", "puppy")

_VERSION = 1
_PLAIN = "none"

Report = Callable[[int, int, str], None]
"""Told (texts done, texts of all passes that are planned, what is tried); it may raise to cancel."""


@dataclass(frozen=True)
class Choices:
    """What is tried; a parameter that the spec itself gives is not varied."""

    prompts: Sequence[str] = ()
    exits: Sequence[int] = EXITS
    demonstrations: Sequence[str] = DEMONSTRATIONS
    steps: Sequence[str] = STEPS


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
        The encoder to use from now on.
    file : Path or None
        The calibration that `spec` names; None for an encoder that takes none, where `steps` are left to the
        collection (``slotrag rebuild --postprocessing``).
    winner, uncalibrated, gain : Estimate
        On the half held out; `gain` is the difference of the two over the same resampled items.
    others : mapping of str to str
        Specs of the other encoders of the table that got a calibration too.
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
    seconds: float


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
        The encoder has nothing to calibrate, or a choice does not exist.
    """
    import numpy as np

    started = time.perf_counter()
    parsed = EncoderSpec.parse(spec) if isinstance(spec, str) else spec
    run = _Run(parsed, task, models, choices or Choices(), device, report)
    rows = run.table()
    plain = run.uncalibrated()
    best = max(rows, key=lambda row: row.chosen)
    held = np.asarray(run.held_out)

    def measured(outcomes: Sequence[float]) -> Callable[[np.ndarray], float]:
        found = np.asarray(outcomes)
        return lambda places: float(task.score(found, held[places]))

    of_best, of_plain = measured(run.pass_of(best).outcomes), measured(plain.outcomes)
    winner, uncalibrated = bootstrap(of_best, len(held)), bootstrap(of_plain, len(held))
    gain = bootstrap(lambda places: of_best(places) - of_plain(places), len(held))
    specs, files = {}, {}
    for name in dict.fromkeys(row.encoder for row in rows):
        top = max((row for row in rows if row.encoder == name), key=lambda row: row.chosen)
        specs[name], files[name] = run.written(top, plain, dict(data or {}))
    run.memory.forget()
    return Outcome(
        spec=specs.pop(best.encoder),
        file=files[best.encoder],
        steps=best.steps,
        measure=task.measure,
        uncalibrated_spec=str(run.plain_spec),
        winner=winner,
        uncalibrated=uncalibrated,
        gain=gain,
        items=(len(run.choosing), len(held)),
        rows=sorted(rows, key=lambda row: -row.chosen),
        others=specs,
        seconds=time.perf_counter() - started,
    )


class _Run:
    """One calibration: its passes, each run once."""

    def __init__(
        self, spec: EncoderSpec, task: Task, models: ModelStore, choices: Choices, device: str, report: Report
    ) -> None:
        import numpy as np

        if spec.name not in ENCODERS:
            raise UsageError(f"There is nothing to calibrate in {spec.name!r}; calibrate {', '.join(ENCODERS)}.")
        self._given = {key: value for key, value in spec.parameters if key != "calibration"}
        self._steps = [str(parse_steps(text)) for text in choices.steps]
        if NONE not in self._steps:
            self._steps.insert(0, NONE)
        self._task, self._models, self._device, self._report = task, models, device, report
        self._choices = choices
        self._total = len(task.texts)
        self._done = 0
        # The encoder as it stands says which backbone is its default one, and refuses what the spec has wrongly.
        self.plain_spec = self._spec(spec.name, spec.backbone, {})
        self._plain = registry.create(self.plain_spec, models, device=device)
        self._backbone = EncoderSpec.parse(self._plain.spec).backbone or ""
        self.plain_spec = self._spec(spec.name, self._backbone, {})
        self._weights = models.weights_sha256(self._backbone)
        self._layers = _layers_of(models.resolve(self._backbone))
        self.choosing, self.held_out = np.arange(task.items)[::2], np.arange(task.items)[1::2]
        facts = {
            "version": _VERSION, "weights": self._weights, "given": self._given, "task": dict(task.facts),
            "steps": self._steps,
        }  # fmt: skip
        self.memory = Memory(models.folder / FOLDER, facts)
        self._found: dict[str, Pass] = {}

    def table(self) -> list[Row]:
        """Every pass: prompts and copying ranges first, then demonstrations with the best of each encoder."""
        first = list(self._first_passes())
        demonstrations = self._demonstrations()
        names = list(dict.fromkeys(name for name, _ in first))
        self._total = len(self._task.texts) * (1 + len(first) + len(demonstrations) * len(names))
        rows = [self._row(name, parameters) for name, parameters in first]
        for name in names if demonstrations else ():
            best = max((row for row in rows if row.encoder == name), key=lambda row: row.chosen)
            rows += [self._row(name, {**best.parameters, "demonstration": text}) for text in demonstrations]
        return rows

    def uncalibrated(self) -> Pass:
        """The encoder of the spec as it is without a calibration, a pass of its own."""
        encode = self._plain.encode_documents

        def states(report: Callable[[int, int], None]) -> Mapping[int, np.ndarray]:
            return {self._layers: in_chunks(encode, self._task.texts, report)}

        return self._pass(f"plain {self.plain_spec}", states, [NONE])

    def pass_of(self, row: Row) -> Pass:
        return self._found[str(self._spec(row.encoder, self._backbone, row.parameters))]

    def written(self, row: Row, plain: Pass, data: Mapping[str, Any]) -> tuple[str, Path | None]:
        """The spec that stands for a row, and the file with its calibration."""
        parameters = {**row.parameters, "layer": str(row.layer)}
        if row.encoder == "mean":
            return str(self._spec(row.encoder, self._backbone, parameters, calibration=None)), None
        held = [int(place) for place in self.held_out]
        calibration = Calibration(
            encoder=row.encoder,
            backbone_weights=self._weights,
            parameters={key: value for key, value in parameters.items() if key not in self._given},
            postprocessing=self.pass_of(row).postprocessing,
            measured={
                "measure": self._task.measure,
                "chosen_on": len(self.choosing),
                "chosen": round(row.chosen, 6),
                "held_out_on": len(held),
                "held_out": round(row.held_out, 6),
                "held_out_uncalibrated": round(self._score(plain, self.held_out), 6),
            },
            data={**self._task.facts, **data},
        )
        file = save_calibration(calibration, self._models)
        return str(self._spec(row.encoder, self._backbone, {}, calibration=calibration.hash)), file

    def _first_passes(self) -> Iterator[tuple[str, dict[str, str]]]:
        name = self.plain_spec.name
        if name == "mean":
            yield name, {}
            return
        for prompt in self._tried("prompt", self._choices.prompts or (ECHO_PROMPTS if name == "echo" else PROMPTS)):
            parameters = {"prompt": prompt}
            if name != "tp":
                yield name, parameters
                continue
            if not {"start", "exit", "placeholder"} & set(self._given):
                yield "prompteol", parameters
            start = int(self._given.get("start", "1"))
            exits = [str(exit) for exit in self._choices.exits if start <= exit <= self._layers]
            for exit in self._tried("exit", exits):
                yield name, {**parameters, "exit": exit}

    def _demonstrations(self) -> list[str]:
        if self.plain_spec.name not in ("tp", "prompteol") or "demonstration" in self._given:
            return []
        return [name for name in self._choices.demonstrations if name != NONE]

    def _tried(self, key: str, choices: Sequence[str]) -> list[str]:
        return [self._given[key]] if key in self._given else list(dict.fromkeys(choices))

    def _row(self, name: str, parameters: Mapping[str, str]) -> Row:
        spec = self._spec(name, self._backbone, parameters)
        found = self._pass(str(spec), lambda report: self._states(spec, report), self._steps)
        self._found[str(spec)] = found
        best = found.best
        return Row(
            encoder=name,
            parameters=parameters,
            layer=best.layer - found.layers - 1,
            steps=best.steps,
            plain=max(cell.score for cell in found.cells if cell.steps == NONE),
            chosen=best.score,
            held_out=self._score(found, self.held_out),
            seconds=found.seconds,
            texts_per_second=len(self._task.texts) / max(found.seconds, 1e-9),
        )

    def _pass(self, name: str, states: Callable[..., Mapping[int, np.ndarray]], steps: Sequence[str]) -> Pass:
        known = self.memory.get(name)
        if known is None:
            known = scan(
                states, self._task, self.choosing, layers=self._layers, steps=steps, unembedding=self._unembedding(),
                report=lambda done, total: self._report(self._done + done, self._total, name),
            )  # fmt: skip
            self.memory.put(name, known)
        self._done += len(self._task.texts)
        self._report(self._done, max(self._total, self._done), name)
        return known

    def _unembedding(self) -> Callable[[], np.ndarray] | None:
        """Where there is one: not for a model that predicts no next word."""
        from .errors import EncoderUnavailable

        get = getattr(self._plain, "unembedding", None)
        try:
            return get if get is not None and get() is not None else None
        except (EncoderUnavailable, UsageError):
            return None

    def _states(self, spec: EncoderSpec, report: Callable[[int, int], None]) -> Mapping[int, np.ndarray]:
        """States by layer: of one full pass for the one-word prompts, of one for each layer otherwise."""
        layers = self._looked_at()
        if spec.name in ("tp", "prompteol"):
            from .one_word import OneWordEncoder, scan_states

            encoder = registry.create(spec, self._models, device=self._device)
            assert isinstance(encoder, OneWordEncoder)
            states = in_chunks(lambda texts: scan_states(encoder, texts), self._task.texts, report)
            return {layer: states[layer] for layer in layers}
        found = {}
        for number, layer in enumerate(layers):
            parameters = {**dict(spec.parameters), "layer": str(layer)}
            at_layer = EncoderSpec(spec.name, spec.backbone, tuple(parameters.items()))
            encoder = registry.create(at_layer, self._models, device=self._device)

            def partly(done: int, total: int, number: int = number) -> None:
                report((number * total + done) // len(layers), total)

            found[layer] = in_chunks(encoder.encode_documents, self._task.texts, partly)
        return found

    def _looked_at(self) -> list[int]:
        """The upper half of the layers, from the last down: of equal scores the one nearest the end is taken."""
        states = self._layers + 1
        if "layer" in self._given:
            return [int(self._given["layer"]) % states]
        return list(range(states - 1, max(states // 2 - 1, 0), -1))

    def _spec(
        self, name: str, backbone: str | None, parameters: Mapping[str, str], calibration: str | None = _PLAIN
    ) -> EncoderSpec:
        shared = {key: text for key, text in self._given.items() if name != "prompteol" or key not in ("start", "exit")}
        merged = {**shared, **parameters}
        if calibration is not None and name != "mean":
            merged["calibration"] = calibration
        return EncoderSpec(name, backbone, tuple(merged.items()))

    def _score(self, found: Pass, items: np.ndarray) -> float:
        import numpy as np

        return float(self._task.score(np.asarray(found.outcomes), items))


def _layers_of(folder: Path) -> int:
    from transformers import AutoConfig

    return int(AutoConfig.from_pretrained(str(folder)).get_text_config().num_hidden_layers)
