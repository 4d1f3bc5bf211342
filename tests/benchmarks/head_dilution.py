"""Whether a head finds one relation between two words among 20 to 90 % distractors: the signal-dilution test.

    python tests/benchmarks/head_dilution.py WORK [--backbone minilm-l6] [--levels 20 50 80 90] [--seeds 0 1 2]

`dilution_texts.py` makes the texts and says why neither length nor words give the label away; two baselines show it, a
logistic regression on a text's numbers of words and of characters, and one on how often each word occurs. Each seed has
texts of its own to train on, to hold out and to test on, whole twins. Every head is trained with its linear classifier
under the same budget with each of `--learning-rates`, the check and the rate with the best accuracy on the held-out
texts are kept, and the accuracy on the test texts is reported (chance: 50). States lie in WORK/states, finished runs in
WORK/dilution.jsonl, as of `head_classification.py`. Needs ``slotrag[eval]`` for the baselines.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dilution_texts import diluted_texts
from head_runs import TITLES, Backbone, InMemory, Rows, add_budget, best_of, budget, run, settings_for, table
from slotrag.encoders.backbones.threads import set_threads
from slotrag.encoders.training.examples import Labelled

BASELINES = {"length": "length only", "words": "words only"}
HEADS_OVER_TOKENS = ["mean", "max", "first", "last", "attention", "glot"]


def made(twins: int, level: int, seed: int) -> dict[str, Labelled]:
    """The parts of one seed, each of whole twins."""
    found = {}
    for number, (name, share) in enumerate({"train": 1, "held out": 4, "test": 2}.items()):
        some = diluted_texts(twins // share, level / 100, 10 * seed + number)
        found[name] = Labelled(some.texts, some.labels, name=f"{level} % {name}")
    return found


def baseline(kind: str, parts: Mapping[str, Labelled]) -> dict[str, Any]:
    """Accuracy of a logistic regression that sees no more than length or words."""
    import numpy as np
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    def lengths(texts: list[str]) -> Any:
        return np.array([[len(text.split()), len(text)] for text in texts], dtype=float)

    steps = [FunctionTransformer(lengths), StandardScaler()] if kind == "length" else [CountVectorizer()]
    model = make_pipeline(*steps, LogisticRegression(max_iter=1000))
    model.fit(parts["train"].texts, parts["train"].labels)
    return {"measure": float(np.mean(model.predict(parts["test"].texts) == np.array(parts["test"].labels)))}


class Study:
    """All heads over one backbone, on the texts of one level and seed."""

    def __init__(self, arguments: argparse.Namespace, backbone: Backbone, rows: Rows, level: int, seed: int) -> None:
        self._arguments, self._backbone, self._rows, self._seed = arguments, backbone, rows, seed
        self._parts = made(arguments.twins, level, seed)
        self._key = {"level": level, "seed": seed, "data": self._parts["train"].content_sha256()[:12]}
        self._states: InMemory | None = None

    def measures(self) -> dict[str, float]:
        """Accuracies by head and baseline."""
        found = {
            title: self._rows.made({**self._key, "head": kind}, lambda kind=kind: baseline(kind, self._parts))[
                "measure"
            ]
            for kind, title in BASELINES.items()
        }
        own = {"backbone": self._backbone.name, "max_length": self._backbone.max_length, **budget(self._arguments)}
        for name in self._arguments.heads:
            found[TITLES[name]] = best_of(
                self._rows, {**self._key, "head": name, **own}, lambda rate, name=name: self._run(name, rate),
                self._arguments.learning_rates,
            )  # fmt: skip
        return found

    def _run(self, name: str, learning_rate: float) -> dict[str, Any]:
        config, parts = self._backbone.config(name), self._parts
        if self._states is None:
            self._states = self._backbone.states(config, [text for part in parts.values() for text in part.texts])
        settings = settings_for(len(parts["train"]), self._arguments, self._seed, learning_rate)
        return run(name, config, (parts["train"], parts["held out"]), parts["test"], self._states, settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--backbone", default="minilm-l6")
    parser.add_argument("--levels", type=int, nargs="+", default=[20, 50, 80, 90], help="per cent of distractor words")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--heads", nargs="+", choices=HEADS_OVER_TOKENS, default=["mean", "attention", "glot"])
    parser.add_argument("--twins", type=int, default=600, help="to train on; a quarter held out, half to test on")
    parser.add_argument("--max-length", type=int, default=160, help="tokens of a text at most")
    add_budget(parser)
    arguments = parser.parse_args()
    set_threads(1)
    backbone = Backbone(arguments.backbone, arguments.work / "states", max_length=arguments.max_length)
    rows = Rows(arguments.work / "dilution.jsonl")
    cells: dict[tuple[str, str], list[float]] = {}
    for level in arguments.levels:
        for seed in arguments.seeds:
            for title, value in Study(arguments, backbone, rows, level, seed).measures().items():
                cells.setdefault((title, f"{level} %"), []).append(value)
    print("\n" + table(f"{arguments.backbone}, accuracy", [f"{level} %" for level in arguments.levels], cells))


if __name__ == "__main__":
    main()
