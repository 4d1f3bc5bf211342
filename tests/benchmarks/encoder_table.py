"""Retrieval with one encoder after another: nDCG@10 by vectors, by words and fused, with each post-processing.

    python tests/benchmarks/encoder_table.py WORK --dataset DIR [--dataset DIR] --encoder SPEC [--encoder SPEC]
        [--postprocessing own] [--postprocessing mean+top=1]

Data sets have BEIR's form (`beir_folders.py` writes such). Each text is encoded once per encoder, its vectors are kept
under WORK, and every post-processing is arithmetic over them; a run that was stopped goes on with the next encoder.
A variant that ``geneol`` has written is kept there too. ``own`` is what the encoder brings along, if anything.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from slotrag.encoders import registry
from slotrag.encoders.backbones.threads import set_threads
from slotrag.encoders.base import Encoder
from slotrag.rag.evaluation.retrieval import evaluate_retrieval
from variants import FileVariants

OWN = "own"


class Remembered:
    """An encoder whose vectors are looked up in a file first."""

    def __init__(self, encoder: Encoder, folder: Path, name: str) -> None:
        self._encoder = encoder
        self._file = folder / f"{name}-{encoder.fingerprint[:16]}.npz"
        self._known: dict[str, np.ndarray] = {}
        self.seconds, self.texts = 0.0, 0
        if self._file.exists():
            with np.load(self._file) as stored:
                self._known = dict(zip(stored["keys"].tolist(), stored["rows"], strict=True))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        return self._rows("passage", texts, self._encoder.encode_documents)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._rows("query", texts, self._encoder.encode_queries)

    def keep(self) -> None:
        """Write what has been encoded."""
        np.savez(self._file, keys=np.array(list(self._known)), rows=np.stack(list(self._known.values())))

    def _rows(self, side: str, texts: Sequence[str], encode: Callable[[Sequence[str]], np.ndarray]) -> np.ndarray:
        keys = [f"{side} {hashlib.sha256(text.encode()).hexdigest()}" for text in texts]
        lacking = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if lacking:
            started = time.perf_counter()
            self._known.update(zip(lacking, encode(list(lacking.values())), strict=True))
            if side == "passage":
                self.seconds += time.perf_counter() - started
                self.texts += len(lacking)
        return np.stack([self._known[key] for key in keys])


def measure(dataset: Path, spec: str, steps: Sequence[str], work: Path) -> None:
    encoder = registry.create(spec)
    if hasattr(encoder, "use_variants"):
        encoder.use_variants(FileVariants(work / "variants.db"))
    remembered = Remembered(encoder, work, dataset.name)
    for one in steps:
        found = evaluate_retrieval(dataset, encoder=remembered, postprocessing=None if one == OWN else one)  # type: ignore[arg-type]
        remembered.keep()
        scores = {mode: round(values["ndcg@10"], 4) for mode, values in found.scores.items()}
        rate = f"{remembered.texts / remembered.seconds:.2f} passages/s" if remembered.texts else "vectors from before"
        print(f"{dataset.name:10} {spec:60} {one:12} {json.dumps(scores)} {rate}", flush=True)
        with (work / "table.jsonl").open("a", encoding="utf-8") as file:
            row = {
                "dataset": dataset.name,
                "encoder": encoder.spec,
                "postprocessing": found.postprocessing,
                "scores": found.scores,
                "passages": found.passages,
                "seconds": remembered.seconds if remembered.texts else None,
            }
            file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--dataset", type=Path, action="append", required=True)
    parser.add_argument("--encoder", action="append", required=True)
    parser.add_argument("--postprocessing", action="append", help="default: own, none, mean+top=1, mean+top=3")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    set_threads(arguments.threads)
    arguments.work.mkdir(parents=True, exist_ok=True)
    steps = arguments.postprocessing or [OWN, "none", "mean+top=1", "mean+top=3"]
    for spec in arguments.encoder:
        for dataset in arguments.dataset:
            measure(dataset, spec, steps, arguments.work)


if __name__ == "__main__":
    main()
