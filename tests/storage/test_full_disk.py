"""A library on a disk without a free byte: a small file system in memory, where the machine lets us make one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from library_parts import new_collection, new_document, put
from slotrag.storage import Catalog
from slotrag.storage.errors import DiskFull


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("needs the mount command")
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system in memory")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill_up(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return


def read_everything(folder: Path) -> None:
    with Catalog.open(folder, create=False) as catalog:
        collection = catalog.collection()
        assert [record.text for record in catalog.passages([1, 2])] == ["wing flow", "heat"]
        assert [found for found, _ in catalog.lexical_search(collection.id, "wing", 5)] == [1]
        assert sum(len(ids) for ids, _ in catalog.vectors(collection.id)) == 2
        assert [session.title for session in catalog.sessions()] == ["a question"]
        assert catalog.integrity_check(full=True) == []
        assert catalog.read_only and catalog.read_only_reason == "its disk is full"
        with pytest.raises(DiskFull, match="make room"):
            catalog.remove_documents([1])


_FILL = """
import os, sys
from pathlib import Path
sys.path.append(sys.argv[2])
from library_parts import new_collection, new_document, put
from slotrag.storage import Catalog
with Catalog.open(Path(sys.argv[1])) as catalog:
    put(catalog, new_collection(catalog).id, [new_document("a", ["wing flow"]), new_document("b", ["heat"])])
    catalog.create_session("a question")
    if sys.argv[3] == "killed":
        os._exit(9)
"""


@pytest.mark.parametrize("ended", ["closed", "killed"])
def test_what_is_there_can_be_read(small_disk: Path, ended: str) -> None:
    """Closed properly, or killed with all that was committed in the log only, whose companion is gone."""
    folder, support = small_disk / "library", Path(__file__).parent.parent / "support"
    subprocess.run([sys.executable, "-c", _FILL, str(folder), str(support), ended], check=False)
    for file in folder.glob("*-shm"):
        file.unlink()
    fill_up(small_disk)
    read_everything(folder)
    read_everything(folder)
    (small_disk / "filler").unlink()
    with Catalog.open(folder) as catalog:
        assert not catalog.read_only and not catalog.read_only_reason
        put(catalog, catalog.collection().id, [new_document("c", ["more"])])
        assert len(catalog.passage_ids(catalog.collection().id)) == 3


def test_no_library_can_be_made(small_disk: Path) -> None:
    fill_up(small_disk)
    with pytest.raises(DiskFull, match="make room"), Catalog.open(small_disk / "library") as catalog:
        new_collection(catalog)
