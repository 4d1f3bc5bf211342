"""Threads and processes at once, and processes that are killed."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from library_parts import new_collection, new_document, put
from slotrag.storage import Catalog
from slotrag.storage.errors import DiskFull
from slotrag.storage.records import CollectionRecord

SUPPORT = Path(__file__).parents[1] / "support"
WRITE_FOREVER = """
import sys
from itertools import count
from pathlib import Path
sys.path.append(sys.argv[2])
from library_parts import new_document, put
from slotrag.storage import Catalog
with Catalog.open(Path(sys.argv[1])) as catalog:
    collection = catalog.collection().id
    print("ready", flush=True)
    for number in count(int(sys.argv[3])):
        documents = [new_document(f"{at}", [f"text {number} {at} {part}" for part in range(20)]) for at in range(10)]
        put(catalog, collection, documents)
        if number % 7 == 3:
            catalog.remove_documents([document.id for document in catalog.documents(collection)[::2]])
        if number % 11 == 5:
            catalog.prune_vectors()
        print(number, flush=True)
"""


def writer(folder: Path, start: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITE_FOREVER, str(folder), str(SUPPORT), str(start)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: subprocess.Popen[str]) -> list[int]:
    """Kill a writer; the numbers of the rounds that it told to be done."""
    process.send_signal(signal.SIGKILL)
    output, _ = process.communicate()
    return [int(line) for line in output.split() if line]


def check_whole_documents(catalog: Catalog, collection_id: int) -> int:
    """Each document has the passages of one round, with their vectors and words; the latest round seen."""
    latest = -1
    for document in catalog.documents(collection_id):
        ids = catalog.passage_ids(collection_id, document.path)
        numbers = {record.text.split()[1] for record in catalog.passages(ids)}
        assert (len(ids), len(numbers)) == (20, 1), document
        latest = max(latest, *map(int, numbers))
    assert catalog.integrity_check(full=True) == []
    return latest


def kill_in_rounds(folder: Path, rounds: int) -> None:
    with Catalog.open(folder) as catalog:
        collection = new_collection(catalog).id
    chance, start, state, index = random.Random(3), 0, 0, set[int]()
    for _ in range(rounds):
        process = writer(folder, start)
        time.sleep(chance.uniform(0.0, 0.4))
        done = kill(process)
        with Catalog.open(folder) as catalog:
            latest = check_whole_documents(catalog, collection)
            assert latest >= max(done, default=latest), "a committed round is lost"
            changes = catalog.changes_since(collection, state)
            assert changes is not None
            index = (index | set(changes.added.tolist())) - set(changes.removed.tolist())
            assert index == set(catalog.passage_ids(collection).tolist())
            state = catalog.collection().state
        start = max(start, latest) + 1


def test_killed_in_the_middle_of_writing(tmp_path: Path) -> None:
    kill_in_rounds(tmp_path, 4)


@pytest.mark.slow
def test_killed_many_times_in_the_middle_of_writing(tmp_path: Path) -> None:
    kill_in_rounds(tmp_path, 60)


def test_readers_see_whole_transactions_while_another_process_writes(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        collection = new_collection(catalog).id
        process = writer(tmp_path)
        failures: list[BaseException] = []
        reads = [0] * 4

        def read(number: int) -> None:
            try:
                while time.monotonic() < end:
                    for ids, _ in catalog.vectors(collection):
                        assert len(ids) % 20 == 0
                    catalog.lexical_search(collection, "text 3", 5)
                    reads[number] += 1
            except BaseException as error:
                failures.append(error)

        end = time.monotonic() + 1.5
        threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        written = kill(process)
        assert failures == []
        assert min(reads) > 0
        assert len(written) > 1
        check_whole_documents(catalog, collection)


def test_threads_write_one_after_the_other(catalog: Catalog, collection: CollectionRecord) -> None:
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for round_ in range(10):
                put(catalog, collection.id, [new_document(f"{number}", [f"text {number} {round_}"])])
                session = catalog.create_session(f"{number} {round_}")
                catalog.add_message(session, "user", "x", citations=[], details={})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(catalog.passage_ids(collection.id)) == 6
    assert catalog.collection().state >= 60
    assert len(catalog.sessions()) == 60


def test_two_processes_write_in_turn(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        collection = new_collection(catalog).id
        process = writer(tmp_path)
        for number in range(10):
            put(catalog, collection, [new_document("mine", [f"text {number} mine {part}" for part in range(20)])])
        kill(process)
        check_whole_documents(catalog, collection)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_said_and_loses_nothing(small_disk: Path) -> None:
    committed = 0
    (small_disk / "ballast").write_bytes(bytes(400_000))
    with Catalog.open(small_disk / "library") as catalog:
        collection = new_collection(catalog).id
        with pytest.raises(DiskFull, match="make room"):
            for number in range(200):
                put(
                    catalog,
                    collection,
                    [new_document(f"{number}", [f"text {number} {part}" * 20 for part in range(20)])],
                )
                committed = number + 1
    assert committed > 0
    with Catalog.open(small_disk / "library") as catalog:
        assert len(catalog.documents(collection)) == committed
        assert catalog.integrity_check(full=True) == []
        (small_disk / "ballast").unlink()
        put(catalog, collection, [new_document("more", ["room again"])])
        assert len(catalog.documents(collection)) == committed + 1


CREATE = """
import sys
from pathlib import Path
sys.path.append(sys.argv[2])
from library_parts import new_collection
from slotrag.storage import Catalog
sys.stdin.read()
with Catalog.open(Path(sys.argv[1])) as catalog:
    new_collection(catalog, sys.argv[3])
    catalog.create_session(sys.argv[3])
    catalog.put_slots("c", {b"k" * 32: sys.argv[3].encode()})
"""


def test_several_processes_make_the_same_library(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CREATE, str(tmp_path / "library"), str(SUPPORT)]
    processes = [
        subprocess.Popen([*command, f"c{number}"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in range(5)
    ]
    time.sleep(1.5)
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    errors = [process.communicate()[1] for process in processes]
    assert errors == [""] * 5
    with Catalog.open(tmp_path / "library") as catalog:
        assert sorted(record.name for record in catalog.collections()) == [f"c{number}" for number in range(5)]
        assert sum(record.is_default for record in catalog.collections()) == 1
        assert len(catalog.sessions()) == 5
