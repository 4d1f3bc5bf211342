"""The index file against the stored vectors: lost, broken, foreign, old, or behind another process."""

import pickletools
import shutil

import pytest
from libraries import open_library, passages, results, write

FILES = {f"{n}.txt": f"Note {n} about metal number {n * 13}." for n in range(12)}
QUERY = "note about metal number 39"


@pytest.fixture
def made(tmp_path, hashing_encoder):
    """Folder of documents and a closed library over it, with what a search in it gives."""
    docs = write(tmp_path / "docs", FILES)
    with open_library(tmp_path / "library") as library:
        library.index([docs])
        (path,) = library.folder.glob("*.index")
        return docs, tmp_path / "library", path, results(library, QUERY, "dense")


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbage(path):
    path.write_bytes(b"\x00\xff" * 500)


def flip(path):
    data = bytearray(path.read_bytes())
    data[-40] ^= 0xFF
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


def planted_pickle(path):
    """Loaded, it would call ``pytest.fail``."""
    path.write_bytes(b"cpytest\nfail\n(S'a pickle was loaded'\ntR.")


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), truncate, garbage, flip, empty, planted_pickle])
def test_a_damaged_file_is_rebuilt_and_said_so(made, damage):
    _, folder, path, expected = made
    damage(path)
    with open_library(folder) as library:
        found = library.search(QUERY, k=100, mode="dense")
        assert any("built anew" in notice for notice in found.notices)
        assert results(library, QUERY, "dense") == expected
    with open_library(folder) as library:
        assert library.search(QUERY).notices == []


def test_a_file_from_an_older_state_catches_up(made, tmp_path):
    docs, folder, path, _ = made
    old = tmp_path / "old.index"
    shutil.copy(path, old)
    with open_library(folder) as library:
        (docs / "3.txt").unlink()
        write(docs, {"new.txt": "A new note about metal number 39."})
        library.index()
        expected = results(library, QUERY, "dense")
    shutil.copy(old, path)
    with open_library(folder) as library:
        assert library.collections()[0].index_state == "behind"
        assert results(library, QUERY, "dense") == expected
        library.index()
        assert library.collections()[0].index_state == "current"


def test_a_file_of_a_later_state_does_not_bring_back_what_is_not_there(made, tmp_path):
    docs, folder, path, expected = made
    backup = tmp_path / "backup"
    shutil.copytree(folder, backup)
    with open_library(folder) as library:
        write(docs, {"later.txt": "Later note about metal number 39."})
        library.index()
    shutil.copy(path, backup / path.name)
    with open_library(backup) as library:
        assert results(library, QUERY, "dense") == expected


def test_a_file_of_another_library_with_the_same_ids_is_found_out(made, tmp_path):
    _, folder, path, expected = made
    others = write(tmp_path / "others", {f"{n}.txt": f"Quite other words {n * 7} here and there." for n in range(12)})
    with open_library(tmp_path / "other") as other:
        other.index([others])
    shutil.copy(tmp_path / "other" / path.name, path)
    with open_library(folder) as library:
        found = library.search(QUERY, k=100, mode="dense")
        assert any("vectors of this library" in notice for notice in found.notices)
        assert results(library, QUERY, "dense") == expected


def test_an_open_reader_notices_another_ones_indexing(made):
    docs, folder, _, _ = made
    with open_library(folder) as reader, open_library(folder) as writer:
        reader.search(QUERY)
        write(docs, {"new.txt": "Penguins eat fish."})
        (docs / "3.txt").unlink()
        writer.index()
        assert reader.search("penguins eat fish").hits[0].path == "new.txt"
        for mode in ("hybrid", "dense", "lexical"):
            assert all(hit.path != "3.txt" for hit in reader.search(QUERY, k=100, mode=mode).hits)
        assert passages(reader) == passages(writer)


def test_no_index_file_is_a_pickle(made):
    _, _, path, _ = made
    with pytest.raises(ValueError):  # whatever is no pickle breaks off in its own way
        list(pickletools.genops(path.read_bytes()))  # takes apart, runs nothing


def test_a_full_disk_while_the_index_is_saved(made, monkeypatch):
    import errno

    from slotrag.index.flat import FlatIndex
    from slotrag.rag.errors import IndexNotSaved

    docs, folder, path, _ = made
    before = path.read_bytes()

    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    with open_library(folder) as library:
        write(docs, {"new.txt": "Penguins eat fish."})
        monkeypatch.setattr(FlatIndex, "save", full)
        with pytest.raises(IndexNotSaved, match="No space left"):
            library.index()
        monkeypatch.undo()
        assert path.read_bytes() == before
        assert library.index().unchanged == 13
    with open_library(folder) as library:
        assert library.collections()[0].index_state == "current"
        assert library.search("penguins").hits[0].path == "new.txt"


def test_database_put_back_from_a_copy(tmp_path, hashing_encoder):
    """Ids are given again after that: an index file of the lost states must not answer for the new passages."""
    spec = "hashing:dimension=512"
    docs = write(tmp_path / "docs", {f"{n}.md": f"Note {n} about subject{n}." for n in range(200)})
    with open_library(tmp_path / "library", encoder=spec) as library:
        library.index([docs])
    database = tmp_path / "library" / "library.db"
    copy = database.read_bytes()
    lost = write(docs / "lost", {f"{n}.md": f"Lost {n} about matter{n}." for n in range(20)})
    with open_library(tmp_path / "library") as library:
        library.index([docs])
    shutil.rmtree(lost)
    for path in database.parent.glob("library.db*"):
        path.unlink()
    database.write_bytes(copy)
    write(docs / "new", {f"{n}.md": f"New {n} about affair{n}." for n in range(40)})
    with open_library(tmp_path / "library") as library:
        library.index([docs])
        for n in range(20):
            assert library.search(f"Lost {n} about matter{n}.", mode="dense").hits[0].score < 0.99
            assert library.search(f"New {n} about affair{n}.", mode="dense").hits[0].path == f"new/{n}.md"
        assert not [finding for finding in library.doctor() if finding.severity == "error"]
