"""Heads in retrieval: nDCG@10 on a whole test collection, by query folds and zero-shot, alone and fused with words.

    python tests/benchmarks/head_retrieval.py WORK --dataset DIR [--dataset DIR] [--row glot] [--backbone minilm-l6]
    python tests/benchmarks/head_retrieval.py WORK --dataset DIR --zero-shot glot@minilm-l6:head=HASH [--zero-shot SPEC]
    python tests/benchmarks/head_retrieval.py WORK --dataset DIR --rate 1e-3 --rate 3e-4 --rate 1e-4

Data sets have BEIR's form (`beir_folders.py` writes such). The first form trains each head on the judgements of four
folds of the queries and asks those of the fifth among all documents, until each query was asked once: relevant
documents are the positives, each with one negative of the highest ranked by words that are not judged relevant. When to
stop is decided by a part of the four folds (the start counts too, so that a head that learned nothing stays mean
pooling). The second asks all queries under encoders as they are. The third tries learning rates on the first fold and
tells what that part held out of its training says; nothing is tested.

A document is one passage, cut at the backbone's length, as `slotrag eval retrieval` has it; corpus, words and fusion
are the product's. Gains are over mean pooling under the same backbone, with the 95 % interval of a bootstrap over
queries.
States are kept in WORK/states, trainings in WORK/runs, and what is measured is a line of WORK/measured.jsonl, so that a
killed run goes on.

All heads are trained under the same settings (`SETTINGS`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from slotrag.encoders import registry
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.backbones.threads import set_threads
from slotrag.encoders.base import Encoder
from slotrag.encoders.estimates import bootstrap
from slotrag.encoders.spec import EncoderSpec
from slotrag.encoders.training.examples import Queries
from slotrag.encoders.training.folds import query_folds
from slotrag.encoders.training.settings import TrainingSettings
from slotrag.rag.evaluation.beir import Dataset, read_dataset
from slotrag.rag.evaluation.corpus import CorpusSearch, DocumentScores
from slotrag.rag.evaluation.measures import scores_by_query
from slotrag.rag.evaluation.retrieval import DEPTH
from slotrag.rag.evaluation.running import Run
from slotrag.rag.training.grounds import NAMES, Ground
from slotrag.rag.training.heads import trained

if TYPE_CHECKING:
    import torch
    from slotrag.encoders.training.state_cache import StateCache

MEAN, WORDS = "mean", "words alone"
ROWS = {
    "attention": "pooled@{}:pooling=attention",
    "glot": "glot@{}",
    "ilse cayley": "ilse@{}:graph=cayley",
    "ilse fc": "ilse@{}:graph=fc",
    "ilse set": "ilse@{}:graph=set",
}
"""Heads that are trained, by the name of their row."""

SETTINGS = TrainingSettings(
    epochs=2, batch=32, learning_rate=1e-3, patience=2, held_out=0.2, scale=20.0, check_every=16
)

SIDES = ("alone", "fused")
_MEASURE = "ndcg@10"
_NEGATIVES = 10
"""A query's pairs take turns among so many hard negatives."""


class CachedEncoder:
    """A head over the states of a cache, as `CorpusSearch` wants an encoder."""

    def __init__(self, module: torch.nn.Module, cache: StateCache, dimension: int, name: str) -> None:
        import torch
        from slotrag.encoders.training.sources import TextVectors

        self.spec, self.dimension = name, dimension
        self.fingerprint = hashlib.sha256(name.encode()).hexdigest()
        self._cache, self._vectors = cache, TextVectors(module, cache, torch.device("cpu"))

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, self._cache.passage_prefix)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, self._cache.query_prefix)

    def _encode(self, texts: Sequence[str], prefix: str) -> np.ndarray:
        self._cache.ensure(texts, prefix=prefix)
        return self._vectors.looked_at(texts, prefix)


class Collection:
    """A test collection with its ranking by words."""

    def __init__(self, folder: Path) -> None:
        self.data: Dataset = read_dataset(folder)
        self.name = self.data.name
        with tempfile.TemporaryDirectory() as place:
            corpus = CorpusSearch(Path(place), self.data.documents, None)
            self._words = {query: corpus.lexical(text, DEPTH) for query, text in self.data.queries.items()}
            corpus.close()
        digest = hashlib.sha256(json.dumps([asdict(document) for document in self.data.documents]).encode())
        digest.update(json.dumps([self.data.queries, self.data.judgements]).encode())
        self.sha256 = digest.hexdigest()

    def by_words(self) -> dict[str, float]:
        """nDCG@10 of each query by words alone."""
        return self._scores(self._words)

    def tested(self, encoder: Encoder, queries: Sequence[str]) -> dict[str, dict[str, float]]:
        """nDCG@10 of `queries`, given by id, by each of `SIDES`."""
        texts = [self.data.queries[query] for query in queries]
        found: dict[str, dict[str, DocumentScores]] = {side: {} for side in SIDES}
        with tempfile.TemporaryDirectory() as place:
            corpus = CorpusSearch(Path(place), self.data.documents, encoder)
            for query, vector in zip(queries, encoder.encode_queries(texts), strict=True):
                dense = corpus.dense(vector, DEPTH)
                found["alone"][query] = dense
                found["fused"][query] = corpus.hybrid(dense, self._words[query])[:DEPTH]
            corpus.close()
        return {side: self._scores(rankings) for side, rankings in found.items()}

    def pairs(self) -> Queries:
        """Each query with each of its relevant documents and a hard negative."""
        texts = {document.id: document.whole for document in self.data.documents}
        right: dict[str, dict[str, None]] = defaultdict(dict)
        for query, text in self.data.queries.items():
            judged = self.data.judgements[query]
            right[text] |= dict.fromkeys(texts[document] for document, gain in judged.items() if gain > 0)
        rows: list[tuple[str, str, str | None]] = []
        for query, text in self.data.queries.items():
            positives = [positive for positive in right.pop(text, {}) if positive.strip()]
            ranked = [self.data.documents[place].whole for place, _ in self._words[query]]
            wrong = [one for one in dict.fromkeys(ranked) if one not in positives and one.strip()][:_NEGATIVES]
            rows += [
                (text, positive, wrong[number % len(wrong)] if wrong else None)
                for number, positive in enumerate(positives)
            ]
        queries, positives, negatives = (list(column) for column in zip(*rows, strict=True))
        return Queries(queries, positives, negatives, name=self.name)

    def folds(self) -> list[tuple[Queries, list[str]]]:
        """For each fold what to train on, and the ids of the queries to test."""
        return [
            (train, [query for query, text in self.data.queries.items() if text in set(test.queries)])
            for train, test in query_folds(self.pairs())
        ]

    def _scores(self, rankings: Mapping[str, DocumentScores]) -> dict[str, float]:
        documents = self.data.documents
        names = {query: [documents[place].id for place, _ in ranked] for query, ranked in rankings.items()}
        return scores_by_query({query: self.data.judgements[query] for query in rankings}, names, _MEASURE)


class Measured:
    """The lines of a file: each what was measured under some facts."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: list[dict[str, Any]] = []
        if file.exists():
            # A killed run may have left a torn last line.
            whole = [line for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
            file.write_text("".join(whole), encoding="utf-8")
            self._known = [json.loads(line) for line in whole]

    def get(self, facts: dict[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What is known under `facts`; made and written where nothing is."""
        facts = json.loads(json.dumps(facts))
        found = next((line for line in self._known if line["facts"] == facts), None)
        if found is None:
            started = time.perf_counter()
            found = {"facts": facts, **make(), "seconds": round(time.perf_counter() - started, 1)}
            self._known.append(found)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
            told = {name: value for name, value in found.items() if name not in ("facts", *SIDES)}
            means = {side: round(float(np.mean(list(found[side].values()))), 4) for side in SIDES if side in found}
            print(f"{facts['dataset']:10} {facts['row']:14} {facts.get('fold', '')!s:3} {means} {told}", flush=True)
        return found


class Bench:
    """All that the measurements have in common."""

    def __init__(self, work: Path) -> None:
        self.work, self.models = work, ModelStore(offline=True)
        self.measured = Measured(work / "measured.jsonl")
        self._grounds: dict[str, Ground] = {}

    def ground(self, spec: str) -> Ground:
        """A head's backbone and configuration, loaded once."""
        if spec not in self._grounds:
            self._grounds[spec] = Ground.of(spec, self.models, device="cpu")
        return self._grounds[spec]

    def cache(self, spec: str) -> StateCache:
        """The states under the head of `spec`."""
        return self.ground(spec).cache(self.work / "states")

    def words(self, collection: Collection) -> dict[str, Any]:
        """The line of words alone, which are on both sides."""
        facts = {"dataset": collection.name, "sha256": collection.sha256, "row": WORDS}
        return self.measured.get(facts, lambda: dict.fromkeys(SIDES, collection.by_words()))

    def mean(self, collection: Collection, backbone: str) -> dict[str, Any]:
        """The line of mean pooling."""
        from slotrag.encoders.training.mean_pooling import MeanPooling

        spec = f"glot@{backbone}:head=none"
        cache, width = self.cache(spec), self.ground(spec).config.width
        facts = {"dataset": collection.name, "sha256": collection.sha256, "row": MEAN, "inputs": cache.key}
        encoder: Any = CachedEncoder(MeanPooling(), cache, width, f"mean@{backbone}")
        return self.measured.get(facts, lambda: collection.tested(encoder, list(collection.data.queries)))

    def zero_shot(self, collection: Collection, spec: str) -> dict[str, Any]:
        """The line of an encoder as it is; states come from the cache where it has a trained head."""
        encoder: Any = registry.create(spec, self.models, device="cpu")
        facts = {
            "dataset": collection.name,
            "sha256": collection.sha256,
            "row": encoder.spec,
            "fingerprint": encoder.fingerprint,
        }
        if self._head(encoder.spec) is not None:
            encoder = self._headed(encoder.spec)
        return self.measured.get(facts, lambda: collection.tested(encoder, list(collection.data.queries)))

    def fold(
        self, collection: Collection, row: str, backbone: str, number: int, settings: TrainingSettings
    ) -> dict[str, Any]:
        """The line of a head trained without the queries of fold `number`, counted from 1, and tested on them."""
        spec = ROWS[row].format(backbone)
        ground, cache = self.ground(spec), self.cache(spec)
        train, tested = collection.folds()[number - 1]
        facts = {
            "dataset": collection.name,
            "sha256": collection.sha256,
            "row": row,
            "fold": number,
            "head": ground.config.to_json(),
            "inputs": cache.key,
            "trained_on": train.content_sha256(),
            "settings": asdict(settings),
        }

        def make() -> dict[str, Any]:
            module, told = self._trained(ground, cache, train, facts, settings)
            encoder: Any = CachedEncoder(module, cache, ground.config.dimension, f"{spec} fold {number}")
            return {**told, **collection.tested(encoder, tested)}

        return self.measured.get(facts, make)

    def rate(
        self, collection: Collection, row: str, backbone: str, settings: TrainingSettings
    ) -> tuple[dict[str, Any], TrainingSettings]:
        """What the part held out of the first fold's training says of `settings`."""
        spec = ROWS[row].format(backbone)
        ground, cache = self.ground(spec), self.cache(spec)
        train, _ = collection.folds()[0]
        facts = {
            "dataset": collection.name,
            "row": row,
            "tried": True,
            "head": ground.config.to_json(),
            "inputs": cache.key,
            "trained_on": train.content_sha256(),
            "settings": asdict(settings),
        }
        found = self.measured.get(facts, lambda: self._trained(ground, cache, train, facts, settings)[1])
        return found, settings

    def _trained(
        self, ground: Ground, cache: StateCache, train: Queries, facts: Mapping[str, Any], settings: TrainingSettings
    ) -> tuple[torch.nn.Module, dict[str, Any]]:
        parts = [train.split(settings.held_out, settings.seed)]
        # One folder for a training, whether it is tested or only tried.
        names = ("head", "inputs", "trained_on", "settings")
        digest = hashlib.sha256(json.dumps([facts[name] for name in names], sort_keys=True).encode()).hexdigest()
        place = self.work / "runs" / digest[:16]
        result, head = trained(ground, parts, cache, place, settings, Run(), limit_seconds=None)
        told = {
            "pairs": [len(part) for part in parts[0]],
            "held_out": {"mean": result.baseline, "head": result.measure},
            "curve": [round(check.measure, 4) for check in result.curve],
            "best_step": result.best_step,
            "steps": result.steps,
            "parameters": result.parameters,
        }
        return head, told

    def _head(self, spec: str) -> str | None:
        parsed = EncoderSpec.parse(spec)
        hash = dict(parsed.parameters).get("head", "none")
        return hash if parsed.name in NAMES and hash != "none" else None

    def _headed(self, spec: str) -> CachedEncoder:
        from slotrag.encoders.heads.checkpoint import find_head, load_module

        ground, hash = self.ground(spec), self._head(spec)
        assert hash is not None, "of a spec with a head only"
        module = load_module(find_head(hash, self.models))
        return CachedEncoder(module, self.cache(spec), ground.config.dimension, spec)


def joined(lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """The queries of several lines together; each query is in one of them."""
    found: dict[str, dict[str, float]] = {side: {} for side in SIDES}
    for side in SIDES:
        for line in lines:
            assert not found[side].keys() & line[side].keys(), "a query is tested once"
            found[side] |= line[side]
    return found


def cells(values: Mapping[str, float], mean: Mapping[str, float]) -> list[str]:
    """Mean over queries, and the gain over `mean` with its interval."""
    assert values.keys() == mean.keys(), "every query is tested"
    gains = np.array([values[query] - mean[query] for query in mean])
    gain = bootstrap(lambda rows: float(gains[rows].mean()), len(gains))
    if not gains.any():
        return [short(float(np.mean(list(values.values())))), "0"]
    bounds = f"[{short(gain.low, '+')}, {short(gain.high, '+')}]"
    return [short(float(np.mean(list(values.values())))), f"{short(gain.value, '+')} {bounds}"]


def short(value: float, sign: str = "-") -> str:
    """Three digits without the leading zero."""
    return format(value, f"{sign}.3f").replace("0.", ".", 1)


def table(title: str, rows: Iterable[tuple[str, Mapping[str, Any], str]], mean: Mapping[str, Any]) -> None:
    """Print Markdown: a name, its values by side and a remark in each row."""
    print(f"\n{title}\n\n| head | alone | gain over mean | fused | gain over mean | |\n|---|---|---|---|---|---|")
    for name, values, remark in rows:
        columns = [cell for side in SIDES for cell in cells(values[side], mean[side])]
        print("| " + " | ".join([name, *columns, remark]) + " |")


def measure_folds(bench: Bench, collection: Collection, rows: Sequence[str], backbone: str) -> None:
    words, mean = bench.words(collection), bench.mean(collection, backbone)
    listed = [(WORDS, words, ""), (MEAN, mean, "")]
    for row in rows:
        lines = [
            bench.fold(collection, row, backbone, number + 1, SETTINGS) for number in range(len(collection.folds()))
        ]
        learned = Counter(line["best_step"] > 0 for line in lines)[True]
        listed.append((row, joined(lines), f"learned in {learned} of {len(lines)} folds"))
    queries = len(collection.data.queries)
    table(f"{collection.name}, {backbone}, {queries} queries in folds, nDCG@10", listed, mean)


def measure_zero_shot(bench: Bench, collection: Collection, specs: Sequence[str]) -> None:
    by_backbone: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for spec in specs:
        line = bench.zero_shot(collection, spec)
        by_backbone[EncoderSpec.parse(line["facts"]["row"]).backbone or ""].append(line)
    for backbone, lines in by_backbone.items():
        mean = bench.mean(collection, backbone)
        listed = [(WORDS, bench.words(collection), ""), (MEAN, mean, "")]
        listed += [(f"`{line['facts']['row']}`", line, "") for line in lines]
        table(f"{collection.name}, {backbone}, {len(mean['alone'])} queries, zero-shot, nDCG@10", listed, mean)


def try_rates(bench: Bench, collection: Collection, rows: Sequence[str], backbone: str, rates: Sequence[float]) -> None:
    found = [
        (row, *bench.rate(collection, row, backbone, replace(SETTINGS, learning_rate=rate)))
        for row in rows
        for rate in rates
    ]
    print(f"\n{collection.name}, {backbone}, held out of the first fold's training, nDCG@10\n")
    print("| head | rate | mean | head | best step | all checks |\n|---|---|---|---|---|---|")
    for row, line, settings in found:
        mean, head = (short(line["held_out"][name]) for name in ("mean", "head"))
        curve = " ".join(map(short, line["curve"]))
        print(f"| {row} | {settings.learning_rate:g} | {mean} | {head} | {line['best_step']} | {curve} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--dataset", type=Path, action="append", required=True)
    parser.add_argument("--row", choices=list(ROWS), action="append", help="of the heads to train; default: all")
    parser.add_argument("--backbone", default="minilm-l6")
    parser.add_argument("--zero-shot", action="append", metavar="SPEC")
    parser.add_argument("--rate", type=float, action="append")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    set_threads(arguments.threads)
    arguments.work.mkdir(parents=True, exist_ok=True)
    bench, rows = Bench(arguments.work), arguments.row or list(ROWS)
    for folder in arguments.dataset:
        collection = Collection(folder)
        if arguments.zero_shot:
            measure_zero_shot(bench, collection, arguments.zero_shot)
        elif arguments.rate:
            try_rates(bench, collection, rows, arguments.backbone, arguments.rate)
        else:
            measure_folds(bench, collection, rows, arguments.backbone)


if __name__ == "__main__":
    main()
