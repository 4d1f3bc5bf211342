"""Trains the heads that ship with the package, on sets that may be trained on, and says what they are worth held out.

    python tests/benchmarks/shipped_heads.py WORK --data DATA --model minilm-l6 --head glot --head ilse
        [--dictionary foldoc.dict.dz] [--documents NAME DIR LICENCE]... [--sts] [--most 2500] [--ship]

DATA holds ``qa_en/*.jsonl``, ``prose_en/prose.jsonl`` and ``stsb/sts-train.csv``. All heads of a model share the frozen
states under WORK. A run that was stopped goes on. ``--ship`` puts a head that is better than mean pooling on what was
held out into the package, in place of the one of its kind. Measure it on other sets with `head_retrieval.py`.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

from head_data import definitions, documents, prose, questions, sentence_pairs, with_negatives
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.backbones.threads import set_threads
from slotrag.encoders.heads import checkpoint as checkpoints
from slotrag.encoders.heads.checkpoint import HeadCheckpoint, write_head
from slotrag.encoders.training.examples import Examples, Queries
from slotrag.encoders.training.results import TrainingStep
from slotrag.encoders.training.run_folder import RunFolder
from slotrag.encoders.training.settings import TrainingSettings
from slotrag.encoders.training.trainer import train_head
from slotrag.rag.training.grounds import Ground

SHIPPED = Path(checkpoints.__file__).parent / "shipped"


def examples(arguments: argparse.Namespace) -> list[Examples]:
    """All sets, those of queries with hard negatives."""
    data, work, most = arguments.data, arguments.work, arguments.most
    found: list[Queries] = []
    if not arguments.without_english:
        found += [*questions(data / "qa_en", most), prose(data / "prose_en" / "prose.jsonl", work, most)]
    if arguments.dictionary:
        found.append(definitions(arguments.dictionary, most))
    found += [documents(Path(place), name, licence, work, most) for name, place, licence in arguments.documents]
    others = [sentence_pairs(data / "stsb" / "sts-train.csv")] if arguments.sts else []
    return [*map(with_negatives, found), *others]


def told(step: TrainingStep) -> None:
    """Print every check, and the states now and then."""
    if step.measure is not None:
        measures = {name: round(value, 4) for name, value in (step.measures or {}).items() if "mrr" not in name}
        print(f"{step.seconds:7.0f} s  epoch {step.epoch:.2f}  {step.measure:.4f}  {json.dumps(measures)}", flush=True)
    elif step.phase == "states" and step.step % 1000 < 32:
        print(f"states {step.step} of {step.steps}, {step.seconds:.0f} s", flush=True)


def trained(spec: str, sets: list[Examples], settings: TrainingSettings, work: Path) -> HeadCheckpoint:
    """One head, with all that it was trained on and what it is worth."""
    ground = Ground.of(spec, ModelStore(offline=True), device="cpu")
    cache = ground.cache(work / "states")
    name = spec.replace(":", "-").replace("@", "-").replace(",", "-").replace("=", "-")
    result = train_head(
        ground.config, sets, cache, settings=settings, run=RunFolder(work / "runs" / name), report=told,
        start=ground.start,
    )  # fmt: skip
    print(f"{spec}: held out {result.measure:.4f}, mean pooling {result.baseline:.4f}, {result.seconds:.0f} s")
    data = [
        {"name": one.name, "kind": type(one).__name__, "sha256": one.sha256, "licence": one.licence, "items": len(one)}
        for one in sets
    ]
    return ground.checkpoint(
        result.weights,
        training={
            "data": data,
            "settings": asdict(settings),
            "steps": result.best_step,
            "parameters": result.parameters,
        },
        measured={
            "against": "mean pooling",
            "held_out": [
                {"name": measure, "before": round(result.baseline_measures[measure], 5), "after": round(value, 5)}
                for measure, value in result.measures.items()
            ],
        },
    )


def ship(checkpoint: HeadCheckpoint, folder: Path) -> Path:
    """Put a head into `folder` in place of the one of its kind there."""
    old = checkpoints.shipped_head(
        checkpoint.config.method, checkpoint.backbone_weights, checkpoint.config.parameters.get("graph")  # type: ignore[arg-type]
    )  # fmt: skip
    if old is not None and old != checkpoint.hash:
        for path in folder.glob(f"{old}.*"):
            path.unlink()
    return write_head(checkpoint, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="minilm-l6")
    parser.add_argument("--head", action="append", required=True, help="glot, ilse, glot:layer=..., without a model")
    parser.add_argument("--dictionary", type=Path)
    parser.add_argument("--documents", nargs=3, action="append", default=[], metavar=("NAME", "DIR", "LICENCE"))
    parser.add_argument("--without-english", action="store_true", help="leave out DATA's questions and paragraphs")
    parser.add_argument("--sts", action="store_true", help="also the scored sentence pairs")
    parser.add_argument("--most", type=int, default=2500, help="examples of one set")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ship", action="store_true")
    arguments = parser.parse_args()
    set_threads(arguments.threads)
    arguments.work.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    sets = examples(arguments)
    for one in sets:
        print(f"{one.name}: {len(one)} {type(one).__name__}, {one.licence}")
    settings = TrainingSettings(
        epochs=arguments.epochs, learning_rate=arguments.learning_rate, patience=6, held_out=0.1, most_held_out=200,
        candidates=1000,
    )  # fmt: skip
    for head in arguments.head:
        name, _, parameters = head.partition(":")
        made = trained(f"{name}@{arguments.model}" + (f":{parameters}" if parameters else ""), sets, settings,
                       arguments.work)  # fmt: skip
        path = write_head(made, arguments.work / "heads")
        print(f"{made.hash}: {path}, after {time.monotonic() - started:.0f} s", flush=True)
        if arguments.ship:
            print(ship(made, SHIPPED), flush=True)


if __name__ == "__main__":
    main()
