"""Measures what variants bring: Spearman x100 on sentence pairs, seconds a text, and what became of the variants.

    python tests/benchmarks/variants.py sts-dev.csv --pairs 250 --m 0 2 4 8 --encoder mean@minilm-l6

`sts-dev.csv` is STS-B's tab-separated form: score in the fifth column, the sentences in the sixth and seventh. What has
been written lies in the cache file, so that an interrupted run goes on; seconds are of this run's own writing.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np


class FileVariants:
    """A store of variants in a SQLite file."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)
        self._connection.execute("CREATE TABLE IF NOT EXISTS variants(key BLOB PRIMARY KEY, texts TEXT)")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, list[str]]:
        select = "SELECT texts FROM variants WHERE key = ?"
        rows = {key: self._connection.execute(select, (key,)).fetchone() for key in keys}
        return {key: json.loads(row[0]) for key, row in rows.items() if row is not None}

    def put(self, variants: dict[bytes, list[str]], owners: Mapping[bytes, bytes]) -> None:
        with self._connection:
            rows = [(key, json.dumps(texts, ensure_ascii=False)) for key, texts in variants.items()]
            self._connection.executemany("INSERT OR IGNORE INTO variants VALUES (?, ?)", rows)

    def shown(self, most: int) -> list[str]:
        rows = self._connection.execute("SELECT texts FROM variants LIMIT ?", (most,))
        return [" | ".join(json.loads(row[0])) for row in rows]


def pairs(path: Path, most: int) -> list[tuple[float, str, str]]:
    rows = [line.rstrip("\n").split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    found = [(float(row[4]), row[5], row[6]) for row in rows if len(row) >= 7]
    # Spread over the file, whose parts are of different kinds.
    return [found[place] for place in np.linspace(0, len(found) - 1, min(most, len(found))).astype(int)]


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    from scipy.stats import spearmanr

    return 100 * float(spearmanr(one, other).statistic)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pairs_file", type=Path)
    parser.add_argument("--pairs", type=int, default=250)
    parser.add_argument("--m", type=int, nargs="+", default=[0, 2, 4, 8])
    parser.add_argument("--generator", default="smollm2-135m")
    parser.add_argument("--encoder", default="prompteol@smollm2-135m")
    parser.add_argument("--lookup", type=int, default=0)
    parser.add_argument(
        "--options", default="", help="further parameters of the spec, such as form=chat,temperature=0.5"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=Path("variants-cache.db"))
    parser.add_argument("--show", type=int, default=0, help="print so many variants at the end")
    arguments = parser.parse_args()

    from slotrag.encoders import registry
    from slotrag.encoders.backbones.threads import set_threads

    set_threads(arguments.threads)
    scored = pairs(arguments.pairs_file, arguments.pairs)
    scores = np.array([score for score, _, _ in scored])
    texts = list(dict.fromkeys(text for _, *both in scored for text in both))
    place = {text: number for number, text in enumerate(texts)}
    store = FileVariants(arguments.cache)
    print(f"{len(scored)} pairs, {len(texts)} texts; {arguments.generator} writes, {arguments.encoder} embeds")
    for m in arguments.m:
        rest = f",{arguments.options}" if arguments.options else ""
        spec = f"geneol:m={m},generator=({arguments.generator}),encoder=({arguments.encoder}),lookup={arguments.lookup}"
        encoder = registry.create(spec + rest)
        encoder.use_variants(store)
        started = time.perf_counter()
        vectors = encoder.encode_documents(texts)
        took = time.perf_counter() - started
        cosines = np.array([vectors[place[one]] @ vectors[place[other]] for _, one, other in scored])
        written = encoder.variants_written
        line = f"m={m}: Spearman {spearman(scores, cosines):.2f}, {took / len(texts):.3f} s a text"
        line += f" ({written} variants written now)" if written else ""
        total = sum(encoder.reasons.values())
        shares = [f"{name} {100 * count / total:.1f} %" for name, count in Counter(encoder.reasons).most_common()]
        print(", ".join([line, *shares]), flush=True)
    for line in store.shown(arguments.show):
        print(line)


if __name__ == "__main__":
    main()
