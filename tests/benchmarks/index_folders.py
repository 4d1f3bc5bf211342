"""Indexes folders, each into a new library: counts, seconds, peak memory, share of the time in the forward pass.

Every folder is indexed by a process of its own, whose peak memory the system reports, and then once more unchanged:

    python tests/benchmarks/index_folders.py WORK FOLDER... [--encoder SPEC] [--corpus DATASET] [--mixed]

--corpus writes a BEIR-style folder's documents out as text files under WORK and indexes them too (Cranfield: 1,400
files), --mixed a folder with many formats, Korean names and broken files.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shutil
import time
from pathlib import Path
from typing import Any

from made_folders import write_corpus, write_mixed


def index(folder: Path, library: Path, encoder: str | None) -> dict[str, Any]:
    """Index `folder` in a new process; what the run reported, and its peak memory."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_index, args=(folder, library, encoder, sender))
    process.start()
    sender.close()
    try:
        found = receiver.recv()
    except EOFError:
        raise SystemExit(f"indexing {folder} ended without a report") from None
    finally:
        process.join()
    return found


def _index(folder: Path, library: Path, encoder: str | None, sender: Any) -> None:
    started = time.perf_counter()
    from slotrag import Library

    with Library.open(library) as opened:
        report = opened.index([folder], encoder=encoder)
    seconds = time.perf_counter() - started
    sender.send(
        {
            "folder": folder.name,
            "new": report.new,
            "unchanged": report.unchanged,
            "updated": report.updated,
            "removed": report.removed,
            "skipped": len(report.skipped),
            "failed": sum(file.failed for file in report.skipped),
            "passages": report.passages,
            "encoded": report.encoded,
            "seconds": round(report.seconds, 2),
            "seconds_with_start": round(seconds, 2),
            "cpu_seconds": round(time.process_time(), 2),
            "forward_share": round(report.forward_seconds / report.seconds, 4) if report.seconds else 0.0,
            "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "library_mib": round(sum(file.stat().st_size for file in library.rglob("*") if file.is_file()) / 2**20, 1),
            "reasons": sorted({f"{Path(file.path).name}: {file.reason}" for file in report.skipped})[:30],
        }
    )


def main() -> None:
    """Read the command line, print one line of JSON for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--encoder")
    parser.add_argument("--corpus", type=Path, help="a BEIR-style folder")
    parser.add_argument("--mixed", action="store_true")
    arguments = parser.parse_args()
    folders = list(arguments.folders)
    if arguments.corpus:
        folders.append(arguments.work / f"{arguments.corpus.name}-files")
        write_corpus(arguments.corpus, folders[-1])
    if arguments.mixed:
        folders.append(arguments.work / "mixed")
        write_mixed(folders[-1])
    for number, folder in enumerate(folders):
        library = arguments.work / f"library-{number}"
        shutil.rmtree(library, ignore_errors=True)
        print(json.dumps({"run": "new", **index(folder, library, arguments.encoder)}, ensure_ascii=False), flush=True)
        again = index(folder, library, None)
        print(json.dumps({"run": "again", **again}, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
