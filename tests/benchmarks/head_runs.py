"""What the measurements of heads share: states in memory, one training of a head, rows on the disk, a table.

It knows no data set. `head_classification.py` and `head_dilution.py` use all of it, `head_retrieval.py` the rows.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.bare_text import TextSettings
from slotrag.encoders.heads.configuration import HeadConfig
from slotrag.encoders.heads.heads import build_head
from slotrag.encoders.heads.inputs import config_for
from slotrag.encoders.spec import EncoderSpec
from slotrag.encoders.training.loop import Loop
from slotrag.encoders.training.mean_pooling import MeanPooling
from slotrag.encoders.training.settings import TrainingSettings
from slotrag.encoders.training.sources import TextVectors
from slotrag.encoders.training.state_cache import StateCache
from slotrag.encoders.training.tasks import task_for

HEADS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "last-layer": ("layer", {}),
    "best-layer": ("layer", {}),
    "mean": ("mean", {}),
    "max": ("max", {}),
    "first": ("first", {}),
    "last": ("last", {}),
    "mix": ("mix", {}),
    "attention": ("attention", {}),
    "dwatt": ("dwatt", {}),
    "mlp": ("mlp", {}),
    "glot": ("glot", {}),
    "cayley": ("ilse", {"graph": "cayley"}),
    "fc": ("ilse", {"graph": "fc"}),
    "set": ("ilse", {"graph": "set"}),
    "cayley-glot": ("ilse", {"graph": "cayley", "over": "glot"}),
}
"""Method and parameters by the name that a row has."""

TITLES: Mapping[str, str] = {
    **{name: name for name in HEADS},
    "last-layer": "last layer (mean)", "best-layer": "best single layer", "first": "first token", "last": "last token",
    "mix": "scalar mix", "attention": "attention (AdaPool)", "dwatt": "DWAtt", "mlp": "MLP on the last layer",
    "glot": "GLOT", "cayley": "ILSE cayley", "fc": "ILSE fc", "set": "ILSE set", "cayley-glot": "ILSE cayley over GLOT",
}  # fmt: skip

_READ = 256


class Backbone:
    """A frozen model and the states that it gives texts, kept below a folder and, while they are used, in memory."""

    def __init__(self, name: str, folder: Path, *, max_length: int) -> None:
        models = ModelStore()
        reader = EncoderSpec.parse(f"pooled@{name}:max_length={max_length}").reader()
        settings = TextSettings.read(reader, name)
        self.name, self.max_length = name, max_length
        self._folder = folder
        self.model: FrozenLM = settings.load(models, "cpu")
        self._facts = settings.facts(models, settings.length(self.model))

    def config(self, head: str) -> HeadConfig:
        """The configuration that a row's name stands for; token pooling leaves out what a causal model's first is."""
        method, parameters = HEADS[head]
        return config_for(self.model, method, **parameters)

    def states(self, config: HeadConfig, texts: Sequence[str]) -> InMemory:
        """The inputs of a head for all of the texts; they go through the model once."""
        cache = StateCache.open(self._folder, self.model, config, facts=self._facts)
        cache.ensure(texts, prefix=cache.passage_prefix, report=_every(2000, f"{self.name} {config.inputs}"))
        return InMemory(cache, list(dict.fromkeys(texts)))


class InMemory:
    """The states of some texts, read from a cache once: a step then takes as long as the head does.

    A `StateSource`. The texts are passages; nothing has the queries' prefix.
    """

    def __init__(self, cache: StateCache, texts: Sequence[str]) -> None:
        self.key, self.query_prefix, self.passage_prefix = cache.key, cache.query_prefix, cache.passage_prefix
        self._places = {text: place for place, text in enumerate(texts)}
        groups = [
            cache.batch(texts[at : at + _READ], prefix=cache.passage_prefix) for at in range(0, len(texts), _READ)
        ]
        self._layers: torch.Tensor | None = None
        if groups[0][1] is None:
            self._layers = layers = torch.cat([states for states, _ in groups])
            self._lengths = torch.full((len(texts),), layers.shape[1])
            return
        # Tokens stand first, so that ragged texts of many layers lie one after the other too.
        rows = [
            (states if states.dim() == 3 else states.transpose(1, 2))[mask]
            for states, mask in groups
            if mask is not None
        ]
        # One row of zeros at the end is what padding points at.
        self._rows = torch.cat([*rows, torch.zeros_like(rows[0][:1])])
        self._lengths = torch.cat([mask.sum(dim=1) for _, mask in groups if mask is not None])
        self._starts = self._lengths.cumsum(0) - self._lengths

    def ensure(self, texts: Sequence[str], *, prefix: str = "", report: Any = None, check: Any = None) -> None:
        pass

    def batch(self, texts: Sequence[str], *, prefix: str = "") -> tuple[torch.Tensor, torch.Tensor | None]:
        places = self._at(texts)
        if self._layers is not None:
            return self._layers[places], None
        lengths = self._lengths[places]
        steps = torch.arange(int(lengths.max()))
        mask = steps < lengths[:, None]
        wanted = torch.where(mask, self._starts[places][:, None] + steps, len(self._rows) - 1)
        states = self._rows[wanted]
        return (states if states.dim() == 3 else states.transpose(1, 2)), mask

    def lengths(self, texts: Sequence[str], *, prefix: str = "") -> list[int]:
        return self._lengths[self._at(texts)].tolist()

    def layer(self, number: int) -> InMemory:
        """One layer's means as the only ones, of a source of layers."""
        assert self._layers is not None
        one = object.__new__(InMemory)
        one.__dict__ = {**self.__dict__, "_layers": self._layers[:, number : number + 1].contiguous()}
        return one

    def _at(self, texts: Sequence[str]) -> torch.Tensor:
        return torch.tensor([self._places[text] for text in texts])


@dataclass(frozen=True)
class Trained:
    """A head at its best check on the held-out part, with its classifier's weights (none where it has no labels), and
    what there is to tell of the training."""

    module: torch.nn.Module
    classifier: Mapping[str, np.ndarray]
    held_out: float
    facts: dict[str, Any]


def train(
    module: torch.nn.Module,
    dimension: int,
    parts: tuple[Any, Any],
    source: InMemory,
    settings: TrainingSettings,
) -> Trained:
    """As `train_head`, but without a folder, and without measuring mean pooling beside it."""
    task = task_for(*parts, dimension=dimension, settings=settings)
    work = Loop(module, {"task": task}, source, settings, torch.device("cpu"))
    started = time.perf_counter()
    work.run(check=lambda: None)
    module.load_state_dict(_tensors(work.weights))
    position = work.position
    return Trained(
        module.eval(), {name.removeprefix("0."): array for name, array in work.classifiers.items()},
        position.best.measure,
        {
            "held_out": round(position.best.measure, 5), "best_step": position.best_step, "last_step": position.step,
            "stopped": position.stopped, "parameters": sum(weights.numel() for weights in module.parameters()),
            "seconds": round(time.perf_counter() - started, 1),
        },
    )  # fmt: skip


def measured(
    trained: Trained, dimension: int, train: Any, test: Any, source: InMemory, settings: TrainingSettings
) -> float:
    """Accuracy or Spearman's correlation on the test part."""
    task = task_for(train, test, dimension=dimension, settings=settings)
    if task.classifier is not None:
        task.classifier.load_state_dict(_tensors(trained.classifier))
    vectors = TextVectors(trained.module, source, torch.device("cpu"))
    return task.measured(vectors, lambda: None)[task.measure]


def run(
    name: str, config: HeadConfig, parts: tuple[Any, Any], test: Any, source: InMemory, settings: TrainingSettings
) -> dict[str, Any]:
    """Train a head and measure it, for ``best-layer`` each layer, the best on the held-out part. What the row tells."""
    if config.method != "layer":
        trained = train(build_head(config, seed=settings.seed), config.dimension, parts, source, settings)
        return {"measure": measured(trained, config.dimension, parts[0], test, source, settings), **trained.facts}
    found = []
    for number in range(config.layers + 1) if name == "best-layer" else (config.layers,):
        one = source.layer(number)
        found.append((train(MeanPooling(), config.width, parts, one, settings), number, one))
    trained, number, one = max(found, key=lambda each: each[0].held_out)
    value = measured(trained, config.width, parts[0], test, one, settings)
    seconds = round(sum(each.facts["seconds"] for each, *_ in found), 1)
    return {"measure": value, **trained.facts, "layer": number, "seconds": seconds}


def settings_for(size: int, arguments: Any, seed: int, learning_rate: float) -> TrainingSettings:
    """The budget of `add_budget`'s arguments for `size` examples."""
    an_epoch = -(-size // arguments.batch)
    return TrainingSettings(
        epochs=max(1, -(-arguments.steps // an_epoch)), batch=arguments.batch, learning_rate=learning_rate,
        patience=arguments.patience, check_every=arguments.check_every, seed=seed,
    )  # fmt: skip


def add_budget(parser: Any) -> None:
    """The options of a budget, the same for every head."""
    parser.add_argument("--steps", type=int, default=3000, help="batches at most, to the end of the epoch")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument(
        "--learning-rates", type=float, nargs="+", default=[1e-3, 3e-3],
        help="of which each run's best on the held-out part counts",
    )  # fmt: skip
    parser.add_argument("--check-every", type=int, default=100, help="batches between two checks on the held-out part")
    parser.add_argument("--patience", type=int, default=6, help="checks without a better one that end a training")


def budget(arguments: Any) -> dict[str, Any]:
    """The same as values of a row, without the learning rate."""
    return {name: vars(arguments)[name] for name in ("steps", "batch", "check_every", "patience")}


class Rows:
    """Rows of finished runs, one JSON line each; a run that is there is not made again.

    Examples
    --------
    >>> rows = Rows(Path("/nowhere/rows.jsonl"))
    >>> rows.find({"head": "glot", "seed": 1})
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        # A killed run may have left half a line.
        self._rows = [json.loads(line) for line in lines if line.endswith("\n")]
        if lines and not lines[-1].endswith("\n"):
            path.write_text("".join(lines[:-1]), encoding="utf-8")

    def find(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """The row with all of these values."""
        return next((row for row in self._rows if all(row.get(name) == key[name] for name in key)), None)

    def made(self, key: Mapping[str, Any], make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """The row with the values of `key`, made where there is none."""
        row = self.find(key)
        if row is None:
            found = make()
            if clash := key.keys() & found.keys():
                raise ValueError(f"a run's outcome and its key both have {', '.join(clash)}")
            row = {**key, **found}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            self._rows.append(row)
            print(json.dumps(row), flush=True)
        return row


def best_of(
    rows: Rows, key: Mapping[str, Any], make: Callable[[float], Mapping[str, Any]], learning_rates: Sequence[float]
) -> float:
    """The measure of the run whose learning rate is best on the held-out part, the first of equal ones."""
    found = [rows.made({**key, "learning_rate": rate}, lambda rate=rate: make(rate)) for rate in learning_rates]
    return max(found, key=lambda row: row["held_out"])["measure"]


def table(first: str, columns: Sequence[str], cells: Mapping[tuple[str, str], Sequence[float]]) -> str:
    """A Markdown table of mean and standard deviation, times 100, by (row, column)."""
    rows = list(dict.fromkeys(row for row, _ in cells))
    lines = [f"| {first} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for row in rows:
        lines.append(f"| {row} | " + " | ".join(_cell(cells.get((row, column), ())) for column in columns) + " |")
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.1f}{spread}"


def _tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _every(count: int, what: str) -> Callable[[int, int], None]:
    told = [0]

    def report(done: int, total: int) -> None:
        if done - told[0] >= count or done == total:
            told[0] = done
            print(f"{what}: {done} of {total} texts", flush=True)

    return report
