"""The passes of a calibration over one frozen model: which there are, the states that each gives, each run once.

One for each prompt, copying range and demonstration. It knows neither what is chosen from them (`calibrating`) nor how
a pass is scored (`calibration_scan`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import UsageError
from . import registry
from .calibration import FOLDER
from .calibration_scan import Memory, Pass, Task, in_chunks, scan
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


class Passes:
    """The passes over the backbone of one spec, on one task.

    Attributes
    ----------
    plain_spec : EncoderSpec
        The encoder as it is without a calibration.
    backbone, weights : str
        Its name, and the sha256 of its weights.
    given : mapping of str to str
        Parameters that the spec itself gives; they are not varied.
    task : Task
    choosing, held_out : int64
        Items of the two halves.
    """

    def __init__(
        self, spec: EncoderSpec, task: Task, models: ModelStore, choices: Choices, device: str, report: Report
    ) -> None:
        import numpy as np

        if spec.name not in ENCODERS:
            raise UsageError(f"There is nothing to calibrate in {spec.name!r}; calibrate {', '.join(ENCODERS)}.")
        self.given = {key: value for key, value in spec.parameters if key != "calibration"}
        self._steps = [str(parse_steps(text)) for text in choices.steps]
        if NONE not in self._steps:
            self._steps.insert(0, NONE)
        self.task, self._models, self._device, self._report = task, models, device, report
        self._choices = choices
        self._total = len(task.texts)
        self._done = 0
        # The encoder as it stands says which backbone is its default one, and refuses what the spec has wrongly.
        self.plain_spec = self._spec(spec.name, spec.backbone, {})
        self._plain = registry.create(self.plain_spec, models, device=device)
        self.backbone = EncoderSpec.parse(self._plain.spec).backbone or ""
        self.plain_spec = self._spec(spec.name, self.backbone, {})
        self.weights = models.weights_sha256(self.backbone)
        self._layers = _layers_of(models.resolve(self.backbone))
        self.choosing, self.held_out = np.arange(task.items)[::2], np.arange(task.items)[1::2]
        facts = {
            "version": _VERSION, "weights": self.weights, "given": self.given, "task": dict(task.facts),
            "steps": self._steps,
        }  # fmt: skip
        self.memory = Memory(models.folder / FOLDER, facts)
        self._found: dict[str, Pass] = {}

    def first(self) -> list[tuple[str, dict[str, str]]]:
        """Encoders and parameters of the passes without a demonstration that the spec does not give: prompts and
        copying ranges."""
        return list(self._first())

    def demonstrations(self) -> list[str]:
        """What is then tried with the best of each encoder."""
        if self.plain_spec.name not in ("tp", "prompteol") or "demonstration" in self.given:
            return []
        return [name for name in dict.fromkeys(self._choices.demonstrations) if name != NONE]

    def plan(self, count: int) -> None:
        """Say how many passes there will be, the one of the plain encoder included."""
        self._total = len(self.task.texts) * count

    def skip(self) -> None:
        """Count a planned pass that cannot be run as done."""
        self._done += len(self.task.texts)

    def run(self, name: str, parameters: Mapping[str, str]) -> Pass:
        """The pass of an encoder with these parameters; the second time it is only looked up."""
        spec = self.spec(name, parameters)
        if str(spec) not in self._found:
            self._found[str(spec)] = self._pass(str(spec), lambda report: self._states(spec, report), self._steps)
        return self._found[str(spec)]

    def uncalibrated(self) -> Pass:
        """The encoder of the spec as it is without a calibration, a pass of its own."""
        encode = self._plain.encode_documents

        def states(report: Callable[[int, int], None]) -> Mapping[int, np.ndarray]:
            return {self._layers: in_chunks(encode, self.task.texts, report)}

        return self._pass(f"plain {self.plain_spec}", states, [NONE])

    def spec(self, name: str, parameters: Mapping[str, str], calibration: str = _PLAIN) -> EncoderSpec:
        """The spec of an encoder on this backbone, with the parameters that the user's spec gives."""
        return self._spec(name, self.backbone, parameters, calibration)

    def _first(self) -> Iterator[tuple[str, dict[str, str]]]:
        name = self.plain_spec.name
        if name == "mean":
            yield name, {}
            return
        for prompt in self._tried("prompt", self._choices.prompts or (ECHO_PROMPTS if name == "echo" else PROMPTS)):
            parameters = {"prompt": prompt}
            if name != "tp":
                yield name, parameters
                continue
            if not {"start", "exit", "placeholder"} & set(self.given):
                yield "prompteol", parameters
            start = int(self.given.get("start", "1"))
            exits = [str(exit) for exit in self._choices.exits if start <= exit <= self._layers]
            for exit in self._tried("exit", exits):
                yield name, {**parameters, "exit": exit}

    def _tried(self, key: str, choices: Sequence[str]) -> list[str]:
        return [self.given[key]] if key in self.given else list(dict.fromkeys(choices))

    def _pass(self, name: str, states: Callable[..., Mapping[int, np.ndarray]], steps: Sequence[str]) -> Pass:
        known = self.memory.get(name)
        if known is None:
            known = scan(
                states, self.task, self.choosing, layers=self._layers, steps=steps, unembedding=self._unembedding(),
                report=lambda done, total: self._report(self._done + done, self._total, name),
            )  # fmt: skip
            self.memory.put(name, known)
        self._done += len(self.task.texts)
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
            states = in_chunks(lambda texts: scan_states(encoder, texts), self.task.texts, report)
            return {layer: states[layer] for layer in layers}
        found = {}
        for number, layer in enumerate(layers):
            parameters = {**dict(spec.parameters), "layer": str(layer)}
            at_layer = EncoderSpec(spec.name, spec.backbone, tuple(parameters.items()))
            encoder = registry.create(at_layer, self._models, device=self._device)

            def partly(done: int, total: int, number: int = number) -> None:
                report((number * total + done) // len(layers), total)

            found[layer] = in_chunks(encoder.encode_documents, self.task.texts, partly)
        return found

    def _looked_at(self) -> list[int]:
        """The upper half of the layers, from the last down: of equal scores the one nearest the end is taken."""
        states = self._layers + 1
        if "layer" in self.given:
            return [int(self.given["layer"]) % states]
        return list(range(states - 1, max(states // 2 - 1, 0), -1))

    def _spec(
        self, name: str, backbone: str | None, parameters: Mapping[str, str], calibration: str = _PLAIN
    ) -> EncoderSpec:
        shared = {key: text for key, text in self.given.items() if name != "prompteol" or key not in ("start", "exit")}
        merged = {**shared, **parameters}
        if name != "mean":  # which takes none
            merged["calibration"] = calibration
        return EncoderSpec(name, backbone, tuple(merged.items()))


def _layers_of(folder: Path) -> int:
    from transformers import AutoConfig

    return int(AutoConfig.from_pretrained(str(folder)).get_text_config().num_hidden_layers)
