"""Heads in retrieval: nDCG@10 on a whole test collection, by query folds and zero-shot, alone and fused with words.

    python tests/benchmarks/head_retrieval.py WORK --dataset DIR [--dataset DIR] [--head glot] [--backbone minilm-l6]
    python tests/benchmarks/head_retrieval.py WORK --dataset DIR --zero-shot glot@minilm-l6:head=HASH [--zero-shot SPEC]
    python tests/benchmarks/head_retrieval.py WORK --dataset DIR --rate 1e-3 --rate 3e-4 --rate 1e-4

Data sets have BEIR's form (`beir_folders.py` writes such). The first form trains each head on the judgements of four
folds of the queries and asks those of the fifth among all documents, until each query was asked once: relevant
documents are the positives, each with one of the highest ranked by words that are not judged relevant. When to stop is
decided by a part of the four folds (the start counts too, so that a head that learned nothing stays mean pooling). The
second asks all queries under encoders as they are. The third tries learning rates on the first fold and tells what the
part held out of its training says; nothing is tested.

A document is one passage, cut at the backbone's length, as in `slotrag eval retrieval`; corpus, words and fusion are
the product's. Gains are over mean pooling under the same backbone, with the 95 % interval of a bootstrap over queries.
States lie in WORK/states, trainings in WORK/runs, what was measured is a line of WORK/retrieval.jsonl: a killed run
goes on. All heads are trained under the same settings, `SETTINGS`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from head_runs import Rows
from judged_collection import SIDES, JudgedCollection
from slotrag.encoders import registry
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.backbones.threads import set_threads
from slotrag.encoders.estimates import bootstrap
from slotrag.encoders.heads.checkpoint import find_head, load_module
from slotrag.encoders.heads.heads import build_head
from slotrag.encoders.spec import EncoderSpec
from slotrag.encoders.training.examples import Queries
from slotrag.encoders.training.mean_pooling import MeanPooling
from slotrag.encoders.training.run_folder import RunFolder
from slotrag.encoders.training.settings import TrainingSettings
from slotrag.encoders.training.sources import TextVectors
from slotrag.encoders.training.trainer import train_head
from slotrag.rag.training.grounds import NAMES, Ground

if TYPE_CHECKING:
    from slotrag.encoders.training.state_cache import StateCache

MEAN, WORDS = "mean", "words alone"
HEADS = {
    "attention": "pooled@{}:pooling=attention",
    "glot": "glot@{}",
    "ilse cayley": "ilse@{}:graph=cayley",
    "ilse fc": "ilse@{}:graph=fc",
    "ilse set": "ilse@{}:graph=set",
}
"""What is trained, by the name of its row."""

SETTINGS = TrainingSettings(
    epochs=2, batch=32, learning_rate=1e-3, patience=2, held_out=0.2, scale=20.0, check_every=16
)

Row = dict[str, Any]


class CachedEncoder:
    """A head over the states of a cache, as `CorpusSearch` wants an encoder."""

    def __init__(self, module: torch.nn.Module, ground: Ground, cache: StateCache, dimension: int) -> None:
        self.spec, self.fingerprint, self.dimension = "cached", "0" * 64, dimension
        self._cache, self._vectors = cache, TextVectors(module, cache, torch.device(ground.device))

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, self._cache.passage_prefix)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, self._cache.query_prefix)

    def _encode(self, texts: Sequence[str], prefix: str) -> np.ndarray:
        self._cache.ensure(texts, prefix=prefix)
        return self._vectors.looked_at(texts, prefix)


class Bench:
    """What has been measured, and the measuring of what has not."""

    def __init__(self, work: Path) -> None:
        self._work, self._models = work, ModelStore(offline=True)
        self._rows = Rows(work / "retrieval.jsonl")
        self._grounds: dict[str, tuple[Ground, StateCache]] = {}

    def words(self, collection: JudgedCollection) -> Row:
        """Words alone, on both sides."""
        return self._made(collection, WORDS, {}, lambda: dict.fromkeys(SIDES, collection.by_words()))

    def mean(self, collection: JudgedCollection, backbone: str) -> Row:
        """Mean pooling."""
        ground, cache = self._ground(f"glot@{backbone}")
        encoder = CachedEncoder(MeanPooling(), ground, cache, ground.config.width)
        everyone = list(collection.queries)
        return self._made(collection, MEAN, {"inputs": cache.key}, lambda: collection.tested(encoder, everyone))

    def zero_shot(self, collection: JudgedCollection, spec: str) -> Row:
        """An encoder as it is; where it has a trained head, over the states of the cache."""
        encoder: Any = registry.create(spec, self._models, device="cpu")
        facts, name, everyone = {"fingerprint": encoder.fingerprint}, encoder.spec, list(collection.queries)
        parsed = EncoderSpec.parse(name)
        hash = dict(parsed.parameters).get("head", "none")
        if parsed.name in NAMES and hash != "none":
            ground, cache = self._ground(name)
            module = load_module(find_head(hash, self._models))
            encoder = CachedEncoder(module, ground, cache, ground.config.dimension)
        return self._made(collection, name, facts, lambda: collection.tested(encoder, everyone))

    def fold(
        self, collection: JudgedCollection, name: str, backbone: str, number: int, train: Queries, tested: Sequence[str]
    ) -> Row:
        """The head `name` trained on `train` and tested on the others."""
        spec = HEADS[name].format(backbone)
        ground, cache = self._ground(spec)

        def make() -> Row:
            head, told = self._trained(spec, train, SETTINGS)
            encoder = CachedEncoder(head, ground, cache, ground.config.dimension)
            return {**told, **collection.tested(encoder, tested)}

        return self._made(collection, name, self._facts(spec, train, SETTINGS), make, fold=number)

    def tried(
        self, collection: JudgedCollection, name: str, backbone: str, train: Queries, settings: TrainingSettings
    ) -> Row:
        """What the part of `train` that is held out says of `settings`."""
        spec = HEADS[name].format(backbone)
        return self._made(
            collection,
            name,
            self._facts(spec, train, settings),
            lambda: self._trained(spec, train, settings)[1],
            rate=settings.learning_rate,
        )

    def _made(
        self, collection: JudgedCollection, name: str, facts: Mapping[str, Any], make: Callable[[], Row], **where: Any
    ) -> Row:
        def timed() -> Row:
            started = time.perf_counter()
            found = make()
            return {**found, "seconds": round(time.perf_counter() - started, 1)}

        facts = {"dataset": collection.sha256, **facts}
        return self._rows.made({"dataset": collection.name, "row": name, **where, "facts": _digest(facts)}, timed)

    def _ground(self, spec: str) -> tuple[Ground, StateCache]:
        """A head's backbone and configuration, and the cache of its states, loaded once."""
        if spec not in self._grounds:
            ground = Ground.of(spec, self._models, device="cpu")
            self._grounds[spec] = ground, ground.cache(self._work / "states")
        return self._grounds[spec]

    def _facts(self, spec: str, train: Queries, settings: TrainingSettings) -> dict[str, Any]:
        ground, cache = self._ground(spec)
        return {
            "head": ground.config.to_json(),
            "inputs": cache.key,
            "trained_on": train.content_sha256(),
            "settings": asdict(settings),
        }

    def _trained(self, spec: str, train: Queries, settings: TrainingSettings) -> tuple[torch.nn.Module, Row]:
        """A trained head, and what its training told; one that was trained before is looked up."""
        ground, cache = self._ground(spec)
        part, held_out = train.split(settings.held_out, settings.seed)
        run = RunFolder(self._work / "runs" / _digest(self._facts(spec, train, settings)))
        result = train_head(ground.config, part, cache, settings=settings, run=run, held_out=held_out)
        head = build_head(ground.config)
        head.load_state_dict({name: torch.tensor(array) for name, array in result.weights.items()})
        return head.eval(), {
            "pairs": [len(part), len(held_out)],
            "curve": [round(check.measure, 4) for check in result.curve],
            "baseline": round(result.baseline, 4),
            "measure": round(result.measure, 4),
            "best_step": result.best_step,
            "steps": result.steps,
            "parameters": result.parameters,
        }


def joined(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """The queries of several rows together; each query is in one of them."""
    found: dict[str, dict[str, float]] = {side: {} for side in SIDES}
    for side in SIDES:
        for row in rows:
            assert not found[side].keys() & row[side].keys(), "a query is tested once"
            found[side] |= row[side]
    return found


def table(title: str, rows: Sequence[tuple[str, Mapping[str, Any], str]], mean: Row) -> None:
    """Print Markdown: a name, its values by side and a remark in each row."""
    print(f"\n{title}\n\n| head | alone | gain over mean | fused | gain over mean | |\n|---|---|---|---|---|---|")
    for name, values, remark in rows:
        columns = [cell for side in SIDES for cell in cells(values[side], mean[side])]
        print("| " + " | ".join([name, *columns, remark]) + " |", flush=True)


def cells(values: Mapping[str, float], mean: Mapping[str, float]) -> tuple[str, str]:
    """The mean over queries, and its gain over mean pooling with the 95 % interval."""
    assert values.keys() == mean.keys(), "every query is tested"
    average = short(float(np.mean(list(values.values()))))
    gains = np.array([values[query] - mean[query] for query in mean])
    if not gains.any():
        return average, "0"
    gain = bootstrap(lambda rows: float(gains[rows].mean()), len(gains))
    return average, f"{short(gain.value, '+')} [{short(gain.low, '+')}, {short(gain.high, '+')}]"


def short(value: float, sign: str = "-") -> str:
    """Three digits without the leading zero."""
    return format(value, f"{sign}.3f").replace("0.", ".", 1)


def measure_folds(bench: Bench, collection: JudgedCollection, heads: Sequence[str], backbone: str) -> None:
    """Every head by folds."""
    mean = bench.mean(collection, backbone)
    rows = [(WORDS, bench.words(collection), ""), (MEAN, mean, "")]
    folds = collection.folds()
    for name in heads:
        found = [bench.fold(collection, name, backbone, number, *fold) for number, fold in enumerate(folds, start=1)]
        learned = Counter(row["best_step"] > 0 for row in found)[True]
        rows.append((name, joined(found), f"learned in {learned} of {len(found)} folds"))
    table(f"{collection.name}, {backbone}, {len(collection.queries)} queries in folds, nDCG@10", rows, mean)


def measure_zero_shot(bench: Bench, collection: JudgedCollection, specs: Sequence[str]) -> None:
    """Every encoder as it is, a table for each backbone."""
    by_backbone: dict[str, list[Row]] = defaultdict(list)
    for spec in specs:
        row = bench.zero_shot(collection, spec)
        by_backbone[EncoderSpec.parse(row["row"]).backbone or ""].append(row)
    for backbone, found in by_backbone.items():
        mean = bench.mean(collection, backbone)
        rows = [(WORDS, bench.words(collection), ""), (MEAN, mean, "")]
        rows += [(f"`{row['row']}`", row, "") for row in found]
        table(f"{collection.name}, {backbone}, {len(collection.queries)} queries, zero-shot, nDCG@10", rows, mean)


def try_rates(
    bench: Bench, collection: JudgedCollection, heads: Sequence[str], backbone: str, rates: Sequence[float]
) -> None:
    """Every head under every learning rate, by what is held out of the first fold's training."""
    train, _ = collection.folds()[0]
    settings = [replace(SETTINGS, learning_rate=rate) for rate in rates]
    found = [bench.tried(collection, name, backbone, train, each) for name in heads for each in settings]
    print(f"\n{collection.name}, {backbone}, held out of the first fold's training, nDCG@10\n")
    print("| head | rate | mean | best | its step | all checks |\n|---|---|---|---|---|---|")
    for row in found:
        columns = [row["row"], f"{row['rate']:g}", short(row["baseline"]), short(row["measure"]), str(row["best_step"])]
        print("| " + " | ".join([*columns, " ".join(map(short, row["curve"]))]) + " |", flush=True)


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--dataset", type=Path, action="append", required=True)
    parser.add_argument("--head", choices=list(HEADS), action="append", help="of those that are trained; default: all")
    parser.add_argument("--backbone", default="minilm-l6")
    parser.add_argument("--zero-shot", action="append", metavar="SPEC")
    parser.add_argument("--rate", type=float, action="append")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    set_threads(arguments.threads)
    arguments.work.mkdir(parents=True, exist_ok=True)
    bench, heads = Bench(arguments.work), arguments.head or list(HEADS)
    for folder in arguments.dataset:
        collection = JudgedCollection(folder)
        if arguments.zero_shot:
            measure_zero_shot(bench, collection, arguments.zero_shot)
        elif arguments.rate:
            try_rates(bench, collection, heads, arguments.backbone, arguments.rate)
        else:
            measure_folds(bench, collection, heads, arguments.backbone)


if __name__ == "__main__":
    main()
