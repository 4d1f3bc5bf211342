"""Heads over one frozen model on labelled texts and on scored pairs, all under the same budget.

    python tests/benchmarks/head_classification.py WORK --train banking77/train.csv --test banking77/test.csv \\
        [--sts-train sts-train.csv --sts-dev sts-dev.csv] [--backbone minilm-l6] [--shots 0 32] [--seeds 0 1 2]

Labels: of each seed's training texts (`--shots` of each label, drawn by the seed; 0 for all of them) an eighth is held
out. A head and a linear classifier over its unit vectors are trained together on the rest: the same batches, the same
Adam, at most the same number of steps for every head; what has nothing to learn has its classifier trained. The check
with the best accuracy on the held-out part gives head and classifier, and these are measured on the test file. Every
head is trained with each of `--learning-rates` (a classifier alone learns faster with the larger one, which drives some
heads to one vector for all texts); the one that is best on the held-out part counts.
The best single layer is the one whose classifier is best on the held-out part. So the test file chooses nothing, and a
head's accuracy is that of the classifier it was trained with, as in the papers of GLOT and ILSE.

Pairs: a head is trained on the cosines of pairs, an eighth of the training pairs being held out in the same way, and
Spearman's correlation is reported on the other file. A method without anything to learn has the same value for every
seed.

The states of a model are computed once and lie in WORK/states; a finished run is a line of WORK/heads.jsonl, and is not
made again. At the end: mean and standard deviation over the seeds, times 100, as a table.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from head_runs import HEADS, TITLES, Backbone, InMemory, Rows, add_budget, best_of, budget, run, settings_for, table
from slotrag.encoders.backbones.threads import set_threads
from slotrag.encoders.heads.configuration import HeadConfig
from slotrag.encoders.training.examples import Labelled, ScoredPairs
from slotrag.rag.training.labelled import read_examples

HELD_OUT = 0.125

_ORDER = ("layers", "tokens", "layer-tokens")
_BY_DEFAULT = [name for name in HEADS if name not in ("mean", "cayley-glot")]


def drawn(examples: Labelled, shots: int, seed: int) -> Labelled:
    """`shots` texts of each label, all of them for 0."""
    if not shots:
        return examples
    by_label: dict[str, list[int]] = defaultdict(list)
    for row, label in enumerate(examples.labels):
        by_label[label].append(row)
    chance = random.Random(seed)
    chosen = [
        row for label in sorted(by_label) for row in chance.sample(by_label[label], min(shots, len(by_label[label])))
    ]
    return examples.chosen(sorted(chosen))


def texts_of(*parts: Labelled | ScoredPairs) -> list[str]:
    """All texts, each once."""
    found: dict[str, None] = {}
    for part in parts:
        for side in (part.texts,) if isinstance(part, Labelled) else (part.first, part.second):
            found.update(dict.fromkeys(side))
    return list(found)


def heads_for(names: Iterable[str], backbone: Backbone) -> list[str]:
    """The heads without the token that says nothing in this kind of model."""
    pointless = "first" if backbone.model.decoder else "last"
    return [name for name in names if name != pointless]


class Study:
    """All heads and seeds on one training file and one test file; a column is a number of texts a label."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        backbone: Backbone,
        rows: Rows,
        train: Any,
        test: Any,
        columns: Mapping[str, int],
    ) -> None:
        self._arguments, self._backbone, self._rows = arguments, backbone, rows
        self._train, self._test = train, test
        self._data = f"{train.content_sha256()[:12]} {test.content_sha256()[:12]}"
        self._columns = columns
        self._source: tuple[str, InMemory] | None = None

    def cells(self) -> dict[tuple[str, str], list[float]]:
        """The measures by head and column."""
        names = heads_for(self._arguments.heads, self._backbone)
        found: dict[tuple[str, str], list[float]] = {(TITLES[name], ""): [] for name in names}
        # The heads with the same inputs one after the other: memory holds one kind of states at a time.
        for name in sorted(names, key=lambda name: _ORDER.index(self._backbone.config(name).inputs)):
            for column, shots in self._columns.items():
                found[TITLES[name], column] = [self._measure(name, shots, seed) for seed in self._arguments.seeds]
        return found

    def _measure(self, name: str, shots: int, seed: int) -> float:
        key = {
            "task": type(self._train).__name__, "data": self._data, "backbone": self._backbone.name,
            "max_length": self._backbone.max_length, "shots": shots, "head": name, "seed": seed,
            **budget(self._arguments),
        }  # fmt: skip
        return best_of(self._rows, key, lambda rate: self._run(name, shots, seed, rate), self._arguments.learning_rates)

    def _run(self, name: str, shots: int, seed: int, learning_rate: float) -> dict[str, Any]:
        config = self._backbone.config(name)
        parts = self._drawn(shots, seed).split(HELD_OUT, seed)
        settings = settings_for(len(parts[0]), self._arguments, seed, learning_rate)
        return run(name, config, parts, self._test, self._states(config), settings)

    def _states(self, config: HeadConfig) -> InMemory:
        if self._source is None or self._source[0] != config.inputs:
            self._source = None
            parts = [self._drawn(shots, seed) for shots in self._columns.values() for seed in self._arguments.seeds]
            self._source = (config.inputs, self._backbone.states(config, texts_of(*parts, self._test)))
        return self._source[1]

    def _drawn(self, shots: int, seed: int) -> Any:
        return drawn(self._train, shots, seed) if isinstance(self._train, Labelled) else self._train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--train", type=Path, help="texts with labels")
    parser.add_argument("--test", type=Path)
    parser.add_argument("--sts-train", type=Path, help="pairs with scores")
    parser.add_argument("--sts-dev", type=Path)
    parser.add_argument("--backbone", default="minilm-l6")
    parser.add_argument("--shots", type=int, nargs="+", default=[0, 32], help="texts of each label; 0 for all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--heads", nargs="+", choices=list(HEADS), default=_BY_DEFAULT)
    parser.add_argument("--max-length", type=int, default=64, help="tokens of a text at most")
    parser.add_argument("--most", type=int, help="examples of each file at most, evenly spread, to try the script")
    add_budget(parser)
    arguments = parser.parse_args()
    set_threads(1)
    backbone = Backbone(arguments.backbone, arguments.work / "states", max_length=arguments.max_length)
    rows = Rows(arguments.work / "heads.jsonl")
    tables = []

    def read(path: Path) -> Any:
        examples = read_examples(path)
        step = max(1, len(examples) // arguments.most) if arguments.most else 1
        return examples.chosen(range(0, len(examples), step))

    if arguments.train:
        columns = {"all" if not shots else f"{shots} a label": shots for shots in arguments.shots}
        study = Study(arguments, backbone, rows, read(arguments.train), read(arguments.test), columns)
        tables.append((f"{arguments.backbone}, accuracy", list(columns), study.cells()))
    if arguments.sts_train:
        study = Study(arguments, backbone, rows, read(arguments.sts_train), read(arguments.sts_dev), {"pairs": 0})
        tables.append((f"{arguments.backbone}, Spearman", ["pairs"], study.cells()))
    for first, names, cells in tables:
        print("\n" + table(first, names, cells))


if __name__ == "__main__":
    main()
