"""Several processes at one library: killed at any moment, two writers at once, readers meanwhile."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from libraries import assert_same, open_library, passages, write

SUPPORT = Path(__file__).parents[1] / "support"
QUERIES = ["note about topic 21", "penguins and copper"]

INDEX = """
import sys
from pathlib import Path
from libraries import open_library
from slotrag.rag import indexing
indexing.BATCH_TEXTS = indexing.TRANSACTION_PASSAGES = 4
indexing.WINDOW_PASSAGES = 16
with open_library(Path(sys.argv[1])) as library:
    print("open", flush=True)
    report = library.index([Path(sys.argv[2])], wait=sys.argv[3:] != ["--no-wait"],
                           progress=lambda event: event.stage == "wait" and print("waiting", flush=True))
    print("done", report.new, report.unchanged, report.encoded, flush=True)
"""


@pytest.fixture
def docs(tmp_path):
    files = {f"{n:03}.md": f"Note {n} about topic {n * 7}.\n\n# Part\n\nMore of {n} and copper." for n in range(120)}
    return write(tmp_path / "docs", files)


@pytest.fixture
def indexing(tmp_path, plugin_path):
    """Starts another process that indexes."""
    root = Path(__file__).parents[2]
    path = os.pathsep.join(map(str, (SUPPORT, plugin_path, *filter(None, [os.environ.get("PYTHONPATH")]))))
    environment = os.environ | {"PYTHONPATH": path, "SLOTRAG_CONFIG": str(tmp_path / "none.toml")}
    started = []

    def start(folder, docs, *options):
        command = [sys.executable, "-c", INDEX, str(folder), str(docs), *options]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=root.parent
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def kill_rounds(rounds, tmp_path, docs, indexing, seed):
    """Kill a run after a random time, `rounds` times over; then one more run must end with a fresh library."""
    folder, generator = tmp_path / "library", random.Random(seed)
    held = 0
    for _ in range(rounds):
        process = indexing(folder, docs)
        assert process.stdout.readline() == "open\n", process.stderr.read()
        time.sleep(generator.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        with open_library(folder) as library:
            collections = library.collections()
            now = collections[0].passages if collections else 0
            assert now >= held, "what was committed is lost"
            held = now
            if collections:
                (status,) = collections
                assert status.passages == 2 * status.documents.get("indexed", 0), "half a document"
                for hit in library.search(QUERIES[0], k=5).hits:
                    assert hit.text in Path(hit.absolute_path).read_text()
    with open_library(folder) as library:
        report = library.index([docs])
        assert report.new + report.unchanged == 120
        assert library.collections()[0].pending == 0
        assert not [f for f in library.doctor() if f.severity == "error"]
        with open_library(tmp_path / "fresh") as fresh:
            fresh.index([docs])
            assert_same(library, fresh, QUERIES)


def test_killed_a_few_times(tmp_path, docs, indexing, hashing_encoder):
    kill_rounds(3, tmp_path, docs, indexing, seed=7)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_many_times(tmp_path, docs, indexing, hashing_encoder):
    kill_rounds(20, tmp_path, docs, indexing, seed=8)


@pytest.mark.parametrize(
    "step", ["put_vectors", "put_documents", "touch_documents", "update_collection", "prune_vectors"]
)
def test_an_error_after_any_write_leaves_what_a_next_run_completes(tmp_path, docs, hashing_encoder, monkeypatch, step):
    from slotrag.storage import Catalog

    real = getattr(Catalog, step)

    def die(*args, **kwargs):
        real(*args, **kwargs)
        raise KeyboardInterrupt

    with open_library(tmp_path / "library") as library:
        monkeypatch.setattr(Catalog, step, die)
        with pytest.raises(KeyboardInterrupt):
            library.index([docs])
        monkeypatch.undo()
    with open_library(tmp_path / "library") as library:
        library.index([docs])
        with open_library(tmp_path / "fresh") as fresh:
            fresh.index([docs])
            assert_same(library, fresh, QUERIES)


def test_the_next_run_erases_what_a_killed_one_left(tmp_path, docs, hashing_encoder, monkeypatch):
    from slotrag.storage import Catalog

    def die(*_):
        raise KeyboardInterrupt

    with open_library(tmp_path / "library") as library:
        library.index([docs])
        (docs / "007.md").write_text("Something else entirely.")
        monkeypatch.setattr(Catalog, "prune_vectors", die)
        with pytest.raises(KeyboardInterrupt):
            library.index()
        monkeypatch.undo()
    with open_library(tmp_path / "library") as library:
        report = library.index()
        assert not (report.new or report.updated or report.encoded)
        (figures,) = library.collections()
        held = library._catalog.stored_vectors(figures.fingerprint, every_hash(library))
        assert len(held) == figures.vectors == len(every_hash(library)) == 239


def every_hash(library):
    with library._catalog._library.reading() as connection:
        return [row[0] for row in connection.exec_driver_sql("SELECT input_hash FROM vectors")]


def test_two_runs_at_once(tmp_path, docs, indexing, hashing_encoder):
    first, second = (indexing(tmp_path / "library", docs) for _ in range(2))
    outputs = [process.communicate(timeout=120) for process in (first, second)]
    assert all(process.returncode == 0 for process in (first, second)), outputs
    lines = sorted(output.splitlines()[-1] for output, _ in outputs)
    assert lines == ["done 0 120 0", "done 120 0 240"], outputs
    with open_library(tmp_path / "library") as library:
        assert len(passages(library)) == 240


def test_a_reader_meanwhile_sees_whole_documents(tmp_path, docs, indexing, hashing_encoder):
    with open_library(tmp_path / "library") as reader:
        write(tmp_path / "first", {"note.txt": "Penguins eat fish."})
        reader.index([tmp_path / "first"])
        process = indexing(tmp_path / "library", docs)
        seen = []
        while process.poll() is None:
            hits = reader.search("penguins eat fish", k=3).hits
            assert hits[0].path == "note.txt"
            status = reader.collections()[0]
            assert status.passages == 2 * status.documents.get("indexed", 0) - 1
            seen.append(status.passages)
        assert process.returncode == 0, process.stderr.read()
        assert seen == sorted(seen)
        assert len(reader.search("note topic", k=1000, mode="dense").hits) == 241
