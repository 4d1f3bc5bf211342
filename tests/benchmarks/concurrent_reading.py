"""Searches from several processes while another indexes: errors, and the readers' times with and without the indexer.

    python tests/benchmarks/concurrent_reading.py WORK [--encoder SPEC] [--files 2000] [--readers 4] [--rate 10]
        [--seconds 20]

The readers search a library of half of the files at RATE queries a second in all; then the same while another process
indexes the other half with one thread and low priority. Printed: searches, errors, and percentiles of their times in
milliseconds, measured from the moment at which each was due. A plug-in encoder's folder goes on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
from mixed_folder import write_folder

_CONTEXT = multiprocessing.get_context("spawn")
_LOW_PRIORITY = 10


def read(library: Path, queries: list[str], interval: float, pipe: Any) -> None:
    """Search at a steady rate between the two words that come through the pipe, then send the times and errors."""
    from slotrag import Library

    with Library.open(library, create=False) as opened:
        opened.search(queries[0])
        pipe.send("ready")
        pipe.recv()
        times, errors, due = [], [], time.perf_counter()
        for query in queries * 1000:
            time.sleep(max(0.0, due - time.perf_counter()))
            if pipe.poll():
                break
            try:
                if not opened.search(query).hits:
                    errors.append("nothing found")
            except Exception as error:
                errors.append(repr(error))
            times.append(1000 * (time.perf_counter() - due))
            due += interval
        pipe.send((times, errors))


def write(library: Path, folder: Path, pipe: Any) -> None:
    """Index a folder with low priority; sends its seconds."""
    from slotrag import Library

    os.nice(_LOW_PRIORITY)
    with Library.open(library, create=False) as opened:
        pipe.send("ready")
        pipe.recv()
        report = opened.index([folder])
        pipe.send((report.new, report.seconds))


def started(work: Any, *arguments: Any) -> tuple[Any, Any]:
    """A process that is ready to begin, and its pipe."""
    ours, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=work, args=(*arguments, theirs))
    process.start()
    assert ours.recv() == "ready"
    return process, ours


def measured(library: Path, queries: list[str], arguments: argparse.Namespace, folder: Path | None) -> dict[str, Any]:
    """Let the readers search, beside an indexer of `folder` where one is given, until it has ended."""
    interval = arguments.readers / arguments.rate
    chance = random.Random(1)
    readers = [started(read, library, chance.sample(queries, len(queries)), interval) for _ in range(arguments.readers)]
    indexer = started(write, library, folder) if folder is not None else None
    for _, pipe in readers:
        pipe.send("go")
        time.sleep(interval / arguments.readers)
    indexed: tuple[int, float] | None = None
    if indexer is not None:
        indexer[1].send("go")
        indexed = indexer[1].recv()
        indexer[0].join()
    else:
        time.sleep(arguments.seconds)
    times: list[float] = []
    errors: list[str] = []
    for process, pipe in readers:
        pipe.send("stop")
        found = pipe.recv()
        process.join()
        times += found[0]
        errors += found[1]
    shown = {f"p{share}_ms": round(float(np.percentile(times, share)), 1) for share in (50, 95, 99)}
    result = {"searches": len(times), "errors": len(errors), **shown}
    if indexed is not None:
        result |= {"indexed": indexed[0], "seconds": round(indexed[1], 1)}
    return result | ({"first_errors": errors[:5]} if errors else {})


def main() -> None:
    """Read the command line, print one line of JSON for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--encoder")
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=10.0, help="searches a second of all readers together")
    parser.add_argument("--seconds", type=float, default=20.0, help="of the measurement without an indexer")
    arguments = parser.parse_args()
    library, folders = arguments.work / "library", [arguments.work / name for name in ("first", "second")]
    for place in (library, *folders):
        shutil.rmtree(place, ignore_errors=True)
    for seed, folder in enumerate(folders):
        write_folder(folder, arguments.files // 2, seed)
    from slotrag import Library

    with Library.open(library) as opened:
        opened.index([folders[0]], encoder=arguments.encoder)
        catalog = opened._catalog
        ids = catalog.passage_ids(catalog.collection().id)
        texts = [record.text for record in catalog.passages(ids[:: max(1, len(ids) // 50)].tolist())]
    queries = [" ".join(text.split()[:5]) for text in texts if len(text.split()) > 5]
    for name, folder in (("without", None), ("with", folders[1]), ("without again", None)):
        print(json.dumps({"indexer": name, **measured(library, queries, arguments, folder)}), flush=True)


if __name__ == "__main__":
    main()
