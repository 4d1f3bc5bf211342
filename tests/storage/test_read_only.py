"""A library on a read-only disk: a real mount, where the machine lets us make one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from library_parts import FINGERPRINT, new_collection, new_document, put
from slotrag.storage import Catalog
from slotrag.storage.errors import LibraryMissing, LibraryReadOnly, LibraryTooNew

Mount = Callable[[Path], Path]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a folder a second time, read-only; the second place."""
    places: list[Path] = []

    def mount(folder: Path) -> Path:
        place = tmp_path / f"mounted{len(places)}"
        place.mkdir()
        if shutil.which("mount") is None:
            pytest.skip("needs the mount command")
        commands = (["mount", "--bind", str(folder), str(place)], ["mount", "-o", "remount,ro,bind", str(place)])
        for command in commands:
            if subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip("needs the right to mount a folder read-only")
            if not places or places[-1] != place:
                places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", str(place)], check=True)


def fill(folder: Path) -> None:
    with Catalog.open(folder) as catalog:
        collection = new_collection(catalog)
        put(catalog, collection.id, [new_document("a", ["wing flow"]), new_document("b", ["heat"])])
        session = catalog.create_session("a question")
        catalog.add_message(session, "user", "what?", citations=[], details={})
        catalog.put_slots("c", {b"k" * 32: b"slots"})


def read_everything(catalog: Catalog) -> None:
    collection = catalog.collection()
    assert len(catalog.documents(collection.id)) == 2
    assert [record.text for record in catalog.passages([1, 2])] == ["wing flow", "heat"]
    assert [found for found, _ in catalog.lexical_search(collection.id, "wing", 5)] == [1]
    assert sum(len(ids) for ids, _ in catalog.vectors(collection.id)) == 2
    assert catalog.integrity_check(full=True) == []
    assert catalog.sessions()[0].message_count == 1
    assert catalog.get_slots("c", [b"k" * 32]) == {b"k" * 32: b"slots"}


def test_closed_library(tmp_path: Path, mounted: Mount) -> None:
    fill(tmp_path / "library")
    place = mounted(tmp_path / "library")
    before = sorted(file.name for file in place.iterdir())
    with Catalog.open(place, create=False) as catalog:
        assert catalog.read_only and catalog.read_only_reason == "its disk is read-only"
        read_everything(catalog)
        for write in (
            lambda: catalog.create_session("x"),
            lambda: put(catalog, 1, [new_document("c", ["more"])]),
            lambda: catalog.remove_documents([1]),
            lambda: catalog.prune_vectors(),
            lambda: catalog.put_slots("c", {b"z" * 32: b"x"}),
            lambda: new_collection(catalog, "other", FINGERPRINT),
        ):
            with pytest.raises(LibraryReadOnly, match="read-only"):
                write()
    assert sorted(file.name for file in place.iterdir()) == before


@pytest.mark.parametrize("kept", [("-wal", "-shm"), ("-wal",), ()])
def test_library_of_a_killed_process(tmp_path: Path, mounted: Mount, kept: tuple[str, ...]) -> None:
    """What was committed stands in the write-ahead log only; with its companion, alone, or not yet."""
    folder = tmp_path / "library"
    killed = subprocess.run([sys.executable, "-c", _FILL_AND_DIE, str(folder), str(Path(__file__).parent)], check=False)
    assert killed.returncode == 9
    assert (folder / "library.db-wal").stat().st_size > 0
    if "-shm" not in kept:
        for file in folder.glob("*-shm"):
            file.unlink()
    if not kept:
        with Catalog.open(folder):
            pass
    place = mounted(folder)
    with Catalog.open(place) as catalog:
        assert catalog.read_only
        collection = catalog.collection()
        assert [record.text for record in catalog.passages(catalog.passage_ids(collection.id))] == ["wing flow", "heat"]
        assert [found for found, _ in catalog.lexical_search(collection.id, "wing", 5)] == [1]


def test_beside_a_writer(tmp_path: Path, mounted: Mount) -> None:
    """Another process, for which the disk is not read-only, goes on writing."""
    folder = tmp_path / "library"
    with Catalog.open(folder) as writer:
        collection = new_collection(writer)
        put(writer, collection.id, [new_document("a", ["wing flow"])])
        with Catalog.open(mounted(folder)) as reader:
            put(writer, collection.id, [new_document("b", ["heat"])])
            assert len(reader.passage_ids(collection.id)) == 2


def test_empty_and_unusable_places(tmp_path: Path, mounted: Mount) -> None:
    (tmp_path / "empty").mkdir()
    place = mounted(tmp_path / "empty")
    with pytest.raises(LibraryMissing):
        Catalog.open(place)
    with pytest.raises(LibraryMissing):
        Catalog.open(place / "below")


def test_sessions_and_slots_that_are_not_there(tmp_path: Path, mounted: Mount) -> None:
    with Catalog.open(tmp_path / "library") as catalog:
        new_collection(catalog)
    with Catalog.open(mounted(tmp_path / "library")) as catalog:
        assert catalog.sessions() == []
        assert catalog.get_slots("c", [b"k" * 32]) == {}
        assert catalog.slots_bytes() == 0


@pytest.mark.parametrize("revision", ["from_the_future", None])
def test_another_version_cannot_be_migrated(tmp_path: Path, mounted: Mount, revision: str | None) -> None:
    import sqlite3

    fill(tmp_path / "library")
    connection = sqlite3.connect(tmp_path / "library" / "library.db")
    with connection:
        connection.execute("DELETE FROM alembic_version")
        if revision:
            connection.execute("INSERT INTO alembic_version VALUES (?)", (revision,))
    connection.close()
    with pytest.raises(LibraryTooNew if revision else LibraryReadOnly):
        Catalog.open(mounted(tmp_path / "library"))


_FILL_AND_DIE = """
import os, sys
from pathlib import Path
sys.path.append(str(Path(sys.argv[2]).parent / "support"))
from library_parts import new_collection, new_document, put
from slotrag.storage import Catalog
catalog = Catalog.open(Path(sys.argv[1]))
put(catalog, new_collection(catalog).id, [new_document("a", ["wing flow"]), new_document("b", ["heat"])])
os._exit(9)
"""
