"""Kills indexing with SIGKILL at random moments; each time one more run must end with what a fresh build has.

After each kill the library is opened, checked and searched as it is; then the folder is indexed once more, and the
passages (path, place, text) and the results of searches are compared with those of a library built without a kill.

    python tests/benchmarks/kills.py FOLDER WORK [--dataset DATASET] [--kills 20] [--encoder SPEC] [--seed 0]
        [--fork [--window N]]

DATASET is a BEIR-style folder whose queries are searched; without one, words of the passages are. With --fork each run
is a fork of this process, which has imported everything: 200 kills take minutes rather than hours, but an encoder with
threads of its own does not survive it. A plug-in encoder's folder goes on PYTHONPATH. Only runs that the kill ended
count.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from slotrag import Library
from slotrag.rag import indexing
from slotrag.storage import Catalog

MODES = ("hybrid", "dense", "lexical")
TOLERANCE = 1e-3
"""Relative. A vector differs in the last digit with the batch that it was encoded in."""

_INDEX = """
import sys
from slotrag import Library
with Library.open(sys.argv[1]) as library:
    library.index([sys.argv[2]], encoder=sys.argv[3] or None)
"""

Passages = list[tuple[str, tuple[int, int], str]]
Results = dict[tuple[str, str], list[tuple[str, float]]]


class Forked:
    """An indexing run in a fork of this process, with the part of ``Popen`` that is used here."""

    def __init__(self, library: Path, folder: Path, encoder: str) -> None:
        self.pid = os.fork()
        self.returncode: int | None = None
        if self.pid:
            return
        code = 1
        try:
            os.setsid()
            with Library.open(library) as opened:
                opened.index([folder], encoder=encoder or None)
            code = 0
        finally:
            os._exit(code)

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float = math.inf) -> int:
        """Wait for its end; raises ``TimeoutExpired`` as ``Popen`` does."""
        give_up = time.perf_counter() + timeout
        while self.poll() is None:
            left = give_up - time.perf_counter()
            if left <= 0:
                raise subprocess.TimeoutExpired("fork", timeout)
            time.sleep(min(left, 0.001))
        assert self.returncode is not None
        return self.returncode


def start_indexing(library: Path, folder: Path, encoder: str, fork: bool) -> subprocess.Popen[bytes] | Forked:
    """Indexing in a process group of its own, so that helpers die with it."""
    if fork:
        return Forked(library, folder, encoder)
    command = [sys.executable, "-c", _INDEX, str(library), str(folder), encoder]
    return subprocess.Popen(command, start_new_session=True)


def index_to_the_end(library: Path, folder: Path, encoder: str, fork: bool) -> tuple[float, float]:
    """Index; after how many seconds the library's database appeared, and how many it took in all."""
    started = time.perf_counter()
    process = start_indexing(library, folder, encoder, fork)
    while process.poll() is None and not (library / "library.db").exists():
        time.sleep(0.001)
    appeared = time.perf_counter() - started
    if process.wait() != 0:
        raise SystemExit(f"indexing into {library} failed")
    return appeared, time.perf_counter() - started


def passages_of(library: Path) -> Passages:
    """Every passage of the library, in an order that does not depend on ids."""
    with Catalog.open(library, create=False) as catalog:
        collection = catalog.collection()
        records = catalog.passages(catalog.passage_ids(collection.id))
    return sorted((record.path, record.chars, record.text) for record in records)


def results_of(library: Path, queries: list[str]) -> Results:
    """The first ten of each query in each mode."""
    with Library.open(library, create=False) as opened:
        return {
            (mode, query): [
                (f"{hit.path}:{hit.chars}", hit.score) for hit in opened.search(query, k=10, mode=mode).hits
            ]
            for mode in MODES
            for query in queries
        }


def differing(found: Results, wanted: Results) -> list[tuple[str, str]]:
    """The searches whose scores differ, or whose passages differ other than by the order of (nearly) equal scores."""
    return [search for search in wanted if not _same(found[search], wanted[search])]


def _same(found: list[tuple[str, float]], wanted: list[tuple[str, float]]) -> bool:
    if len(found) != len(wanted):
        return False
    if not all(math.isclose(a, b, rel_tol=TOLERANCE) for (_, a), (_, b) in zip(found, wanted, strict=True)):
        return False
    scores = dict(wanted)
    last = wanted[-1][1] if wanted else 0.0
    return all(math.isclose(score, scores.get(name, last), rel_tol=TOLERANCE) for name, score in found)


def check_as_it_is(library: Path, queries: list[str], wanted: Passages) -> dict[str, object]:
    """Open the library that a kill left behind: sound, searchable, and nothing in it that a fresh build has not."""
    if not (library / "library.db").exists():
        return {"documents": {}, "passages": 0, "unwanted": 0, "problems": []}
    with Catalog.open(library, create=False) as catalog:
        problems = catalog.integrity_check(full=True)
        collections = catalog.collections()
        documents = catalog.statistics(collections[0].id).documents if collections else {}
    if not collections:
        return {"documents": {}, "passages": 0, "unwanted": 0, "problems": problems}
    results_of(library, queries[:3])
    present = passages_of(library)
    return {
        "documents": documents,
        "passages": len(present),
        "unwanted": sum((Counter(present) - Counter(wanted)).values()),
        "problems": problems,
    }


def one_kill(
    library: Path,
    folder: Path,
    encoder: str,
    fork: bool,
    after: float,
    queries: list[str],
    wanted: tuple[Passages, Results],
) -> dict[str, object]:
    """Kill an indexing run after so many seconds, look at what is left, finish it and compare."""
    shutil.rmtree(library, ignore_errors=True)
    process = start_indexing(library, folder, encoder, fork)
    try:
        process.wait(timeout=after)
        killed = False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        killed = process.wait() == -signal.SIGKILL  # it may just have ended
    left = check_as_it_is(library, queries, wanted[0])
    _, seconds = index_to_the_end(library, folder, encoder, fork)
    passages, results = passages_of(library), results_of(library, queries)
    with Catalog.open(library, create=False) as catalog:
        problems = catalog.integrity_check(full=True)
    wrong = differing(results, wanted[1])
    good = passages == wanted[0] and not wrong and not problems and not left["problems"]
    return {
        "after": round(after, 2),
        "killed": killed,
        "left": left,
        "rest_seconds": round(seconds, 2),
        "same_passages": passages == wanted[0],
        "differing_searches": len(wrong),
        "problems": problems,
        "ok": good and not left["unwanted"],
    }


def chosen_queries(dataset: Path | None, count: int, passages: Passages) -> list[str]:
    """Queries of a data set, or a few words of passages."""
    if dataset is not None:
        lines = (dataset / "queries.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["text"] for line in lines[:count]]
    step = max(1, len(passages) // count)
    return [" ".join(text.split()[2:8]) for _, _, text in passages[::step] if len(text.split()) > 4][:count]


def main() -> None:
    """Read the command line, print one line of JSON for each kill; exit status 1 where one went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--fork", action="store_true")
    parser.add_argument("--window", type=int, default=0, help="with --fork: passages that are stored at once")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--encoder", default="")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder, encoder, fork = arguments.folder, arguments.encoder, arguments.fork
    fresh = arguments.work / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    if fork and arguments.window:  # a small folder is stored in many steps, as a large one is
        indexing.WINDOW_PASSAGES = indexing.TRANSACTION_PASSAGES = arguments.window
        indexing.BATCH_TEXTS = max(1, arguments.window // 2)
    if fork:  # whatever a run imports is imported here
        with Library.open(fresh) as opened:
            opened.index([folder], encoder=encoder or None)
        shutil.rmtree(fresh)
    appeared, seconds = index_to_the_end(fresh, folder, encoder, fork)
    queries = chosen_queries(arguments.dataset, arguments.queries, passages_of(fresh))
    wanted = passages_of(fresh), results_of(fresh, queries)
    print(json.dumps({"fresh_seconds": round(seconds, 2), "passages": len(wanted[0])}), flush=True)
    chance = random.Random(arguments.seed)
    good = 0
    kills = ended_before = 0
    while kills < arguments.kills:
        after = chance.uniform(appeared, seconds)
        found = one_kill(arguments.work / "killed", folder, encoder, fork, after, queries, wanted)
        if not found["killed"] and found["ok"]:
            ended_before += 1
            continue
        kills += 1
        good += bool(found["ok"])
        print(json.dumps({"kill": kills, **found}), flush=True)
    print(json.dumps({"kills": arguments.kills, "ok": good, "ended_before": ended_before}), flush=True)
    sys.exit(good < arguments.kills)


if __name__ == "__main__":
    main()
