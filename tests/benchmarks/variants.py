"""Measures what variants bring: Spearman x100 on sentence pairs, seconds a text, and what became of the variants.

    python tests/benchmarks/variants.py sts-dev.csv --pairs 250 --m 0 2 4 8 --encoder mean@minilm-l6

The file is one that ``slotrag eval sts`` reads; the pairs are evenly spread over it, since its parts are of different
kinds. What has been written lies in the cache file, so that an interrupted run goes on; seconds are of this run's own
writing.
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
    from slotrag.rag.evaluation.correlation import spearman
    from slotrag.rag.evaluation.pairs import read_pairs

    set_threads(arguments.threads)
    pairs = read_pairs(arguments.pairs_file).sample(arguments.pairs)
    texts = list(dict.fromkeys([*pairs.first, *pairs.second]))
    place = {text: number for number, text in enumerate(texts)}
    store = FileVariants(arguments.cache)
    print(f"{len(pairs)} pairs, {len(texts)} texts; {arguments.generator} writes, {arguments.encoder} embeds")
    for m in arguments.m:
        rest = f",{arguments.options}" if arguments.options else ""
        spec = f"geneol:m={m},generator=({arguments.generator}),encoder=({arguments.encoder}),lookup={arguments.lookup}"
        encoder = registry.create(spec + rest)
        encoder.use_variants(store)
        started = time.perf_counter()
        vectors = encoder.encode_documents(texts)
        took = time.perf_counter() - started
        cosines = np.array(
            [vectors[place[one]] @ vectors[place[other]] for one, other in zip(pairs.first, pairs.second, strict=True)]
        )
        written = encoder.variants_written
        line = (
            f"m={m}: Spearman {100 * spearman(cosines, np.asarray(pairs.gold)):.2f}, {took / len(texts):.3f} s a text"
        )
        line += f" ({written} variants written now)" if written else ""
        total = sum(encoder.reasons.values())
        shares = [f"{name} {100 * count / total:.1f} %" for name, count in Counter(encoder.reasons).most_common()]
        print(", ".join([line, *shares]), flush=True)
    for line in store.shown(arguments.show):
        print(line)


if __name__ == "__main__":
    main()
