"""Speed of searching a large library: a warm search by its parts, and the commands' cold starts.

    python tests/benchmarks/speed.py DATASET LIBRARY [--passages 50000] [--perturb] [--queries 225] [--encoder SPEC]

builds LIBRARY, if it is not there, from a BEIR-style folder's documents: first the documents themselves through
`Library.index`, then copies with about 3 % of their words replaced, until there are so many passages. The copies are
encoded like any text, which takes hours for 50,000; --perturb gives each copy its original's vector with noise added
(cosine with the original about 0.95) instead. That leaves the time of a search as it is, but such a library says
nothing about the quality of its results.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from made_folders import edited, read_corpus, write_corpus
from slotrag import Library
from slotrag.rag.passages import encoder_input, input_hash
from slotrag.storage import Catalog
from slotrag.storage.records import NewDocument, NewPassage, PassageRecord

NOISE = 0.33
"""Length of the noise added to a unit vector."""

PARTS = ("encode", "faiss", "lexical", "database", "total")
_GROUP = 500


def build(dataset: Path, library: Path, passages: int, perturb: bool, encoder_spec: str | None) -> None:
    """Make the library."""
    with tempfile.TemporaryDirectory() as folder, Library.open(library) as opened:
        write_corpus(dataset, Path(folder))
        opened.index([folder], encoder=encoder_spec)
    words = sorted({word for _, _, text in read_corpus(dataset) for word in text.split()})
    with Catalog.open(library) as catalog:
        collection = catalog.collection()
        ids = catalog.passage_ids(collection.id)
        originals = catalog.passages(ids)
        found = {
            key: row
            for keys, rows in catalog.vectors(collection.id, ids)
            for key, row in zip(keys.tolist(), rows, strict=True)
        }
        vectors = np.stack([found[key] for key in ids.tolist()])
        encoder = None if perturb else _encoder(library)
        present, seed = len(ids), 0
        while present < passages:
            start = seed % len(originals)
            group = originals[start : start + min(_GROUP, passages - present)]
            new = [_copy(record, seed + offset, words) for offset, record in enumerate(group)]
            texts = [document.passages[0].text for document in new]
            rows = (
                encoder.encode_documents([encoder_input("", text) for text in texts])
                if encoder is not None
                else _noisy(vectors[start : start + len(group)], seed)
            )
            catalog.put_vectors(collection.fingerprint, [document.passages[0].input_hash for document in new], rows)
            catalog.put_documents(collection.id, new)
            present, seed = present + len(new), seed + len(new)
            print(f"\r{present:,} passages", end="", file=sys.stderr)
    print(file=sys.stderr)
    with Library.open(library) as opened:
        opened.search(originals[0].text[:80])


def _encoder(library: Path):
    from slotrag.encoders.registry import create

    with Catalog.open(library) as catalog:
        return create(catalog.collection().encoder)


def _copy(record: PassageRecord, seed: int, words: list[str]) -> NewDocument:
    text = edited(record.text, seed, words)
    passage = NewPassage(text, "", record.heading, None, (1, 1), (0, len(text)), input_hash(encoder_input("", text)))
    path = f"/copies/{seed:06}.txt"
    return NewDocument(None, path, path[1:], len(text), 0, None, "copy", "indexed", passages=[passage])


def _noisy(vectors: np.ndarray, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(vectors.shape).astype(np.float32)
    noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
    moved = vectors + noise
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def warm(library: Path, queries: list[str], mode: str) -> dict[str, dict[str, float]]:
    """Milliseconds of the parts of a search in a library that is open, p50 and p95."""
    with Library.open(library) as opened:
        for query in queries[:3]:
            opened.search(query, mode=mode)
        timings = [opened.search(query, mode=mode).timings_ms for query in queries]
    return {
        part: {
            "p50": round(float(np.percentile([timing[part] for timing in timings], 50)), 2),
            "p95": round(float(np.percentile([timing[part] for timing in timings], 95)), 2),
        }
        for part in PARTS
    }


def cold(arguments: list[str], library: Path, times: int = 5) -> float:
    """Seconds of a command from start to end, the median of several runs after one that does not count."""
    command = [str(Path(sys.executable).with_name("slotrag")), *arguments]
    environment = {**os.environ, "SLOTRAG_LIBRARY": str(library)}
    seconds = []
    for _ in range(times + 1):
        started = time.perf_counter()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        seconds.append(time.perf_counter() - started)
    return round(float(np.median(seconds[1:])), 3)


def main() -> None:
    """Read the command line, build the library where it is missing, print one line of JSON for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("library", type=Path)
    parser.add_argument("--passages", type=int, default=50_000)
    parser.add_argument("--perturb", action="store_true")
    parser.add_argument("--queries", type=int, default=225)
    parser.add_argument("--encoder", help="for a library that is built")
    arguments = parser.parse_args()
    if not arguments.library.exists():
        build(arguments.dataset, arguments.library, arguments.passages, arguments.perturb, arguments.encoder)
    lines = (arguments.dataset / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    queries = [json.loads(line)["text"] for line in lines[: arguments.queries]]
    with Catalog.open(arguments.library) as catalog:
        passages = catalog.statistics(catalog.collection().id).passages
    for mode in ("hybrid", "dense", "lexical"):
        print(json.dumps({"passages": passages, "mode": mode, "warm_ms": warm(arguments.library, queries, mode)}))
    print(json.dumps({"cold_search_seconds": cold(["search", queries[0]], arguments.library)}))
    print(json.dumps({"help_seconds": cold(["--help"], arguments.library)}))


if __name__ == "__main__":
    main()
