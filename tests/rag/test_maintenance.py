"""Status, removal, rebuilding and the doctor."""

import os
import sqlite3

import pytest
from libraries import assert_same, open_library, passages, results, write
from slotrag import UsageError
from slotrag.rag.errors import FingerprintMismatch
from slotrag.rag.events import Cancelled, CancelToken
from slotrag.rag.folders import SourceMissing
from slotrag.rag.locking import LibraryLocked, WriterLock

FILES = {
    "bridges.md": "# Bridges\n\nThe old bridge was built in 1873 by Anna Keller.\n",
    "secret.txt": "The xylophone password is swordfish.\n",
    "metals/copper.txt": "Copper melts at 1085 degrees.\n",
    "metals/tin.txt": "Tin melts at 232 degrees.\n",
}


@pytest.fixture
def docs(tmp_path):
    return write(tmp_path / "docs", FILES)


@pytest.fixture
def library(tmp_path, docs, hashing_encoder):
    with open_library(tmp_path / "library") as library:
        library.index([docs])
        yield library


def bytes_of(folder):
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


def test_status(library, docs):
    status = library.status()
    (collection,) = status.collections
    assert collection.documents == {"indexed": 4} and collection.passages == collection.vectors == 4
    assert collection.index_state == "current" and collection.index_bytes > 0 and collection.vector_bytes == 4 * 64 * 2
    assert [(source.path, source.present) for source in collection.sources] == [(str(docs), True)]
    assert status.file_bytes["library.db"] > 0 and status.file_bytes["index"] == collection.index_bytes
    assert not status.read_only and status.sessions == 0


def test_removing_erases_text_words_and_vectors(library, docs, tmp_path):
    encoder = library._shared().shelf.get("hashing")
    vector = encoder.encode_documents([FILES["secret.txt"].strip()])[0]
    stored = vector.astype("<f2").tobytes()
    assert stored in bytes_of(library.folder) and b"swordfish" in bytes_of(library.folder)
    assert library.remove(docs / "secret.txt") == 1
    library.close()
    left = bytes_of(library.folder)
    assert b"swordfish" not in left and b"xylophone" not in left
    assert stored not in left and vector.astype("<f4").tobytes() not in left


def test_a_removed_file_stays_out_until_it_is_followed_again(library, docs):
    assert library.remove(docs / "secret.txt") == 1
    report = library.index()
    assert report.unchanged == 3 and not report.new
    assert library.remove(docs / "metals") == 2
    assert library.index().unchanged == 1
    library.remove(docs)
    assert library.collections()[0].sources == []
    assert library.index([docs]).new == 4


def test_removing_by_the_path_that_is_shown(library, docs, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert library.remove("metals/tin.txt") == 1
    assert [h.path for h in library.search("melts", mode="lexical").hits] == ["metals/copper.txt"]


def test_removing_what_is_gone_from_the_disk(library, docs, tmp_path):
    docs.rename(tmp_path / "away")
    assert library.remove(docs) == 4
    assert library.collections()[0].passages == 0


def test_removing_nothing_is_said(library, tmp_path):
    with pytest.raises(UsageError, match="status"):
        library.remove(tmp_path / "never")


def test_removing_takes_names_with_pattern_characters_literally(library, docs):
    write(docs, {"a[1]*.txt": "First odd name.", "a1x.txt": "Second odd name.", "#x !y.txt": "Third odd name."})
    library.index()
    library.remove(docs / "a[1]*.txt")
    library.remove(docs / "#x !y.txt")
    report = library.index()
    assert report.unchanged == 5 and not report.new
    assert {h.path for h in library.search("odd name", mode="lexical").hits} == {"a1x.txt"}


def test_removing_from_one_collection_only(library, docs):
    library.index([docs], collection="second")
    library.remove(docs / "secret.txt", collection="second")
    assert library.search("swordfish", mode="lexical", collection="default").hits
    assert not library.search("swordfish", mode="lexical", collection="second").hits


def test_rebuilding_with_another_encoder(library, docs, tmp_path):
    report = library.rebuild(encoder="hashing:dimension=32")
    assert report.collection == "default" and report.new == 4 and report.encoded == 4
    (status,) = library.collections()
    assert (status.encoder, status.dimension, status.is_default) == ("hashing:dimension=32", 32, True)
    assert status.rebuilding is None and len(list(library.folder.glob("*.index"))) == 1
    assert library.index().unchanged == 4
    with open_library(tmp_path / "fresh", encoder="hashing:dimension=32") as fresh:
        fresh.index([docs])
        assert_same(library, fresh, ["old bridge", "copper melts"])


def test_rebuilding_with_the_same_encoder_encodes_nothing(library, tmp_path):
    before = passages(library)
    report = library.rebuild()
    assert report.encoded == 0 and passages(library) == before


def test_rebuilding_keeps_rules_and_the_other_collections(library, docs):
    library.index([docs], exclude=["metals"], collection="other")
    library.rebuild("other", encoder="hashing:seed=3")
    names = [(c.name, c.is_default, c.encoder, c.passages) for c in library.collections()]
    assert names == [("default", True, "hashing", 4), ("other", False, "hashing:seed=3", 2)]
    assert library.index(collection="other").unchanged == 2


def test_while_rebuilding_the_old_one_answers_and_an_interrupted_one_goes_on(library, docs, monkeypatch):
    from slotrag.rag import indexing

    for name in ("BATCH_TEXTS", "WINDOW_PASSAGES"):
        monkeypatch.setattr(indexing, name, 1)
    cancel = CancelToken()
    answers = []

    def listener(event):
        if event.stage == "encode":
            answers.append(library.search("swordfish").hits[0].path)
            if len(answers) == 2:
                cancel.cancel()

    with pytest.raises(Cancelled):
        library.rebuild(encoder="hashing:seed=5", progress=listener, cancel=cancel)
    assert answers == ["secret.txt", "secret.txt"]
    (status,) = library.collections()
    assert status.encoder == "hashing" and status.rebuilding == "hashing:seed=5"
    library.index()  # must not throw away what the interrupted rebuild has encoded
    report = library.rebuild(encoder="hashing:seed=5")
    assert report.encoded == 2
    assert library.collections()[0].encoder == "hashing:seed=5"


@pytest.mark.parametrize("way", ["remove", "delete", "edit"])
def test_what_goes_does_not_stay_in_an_interrupted_rebuild(library, docs, monkeypatch, way):
    from slotrag.rag import indexing

    for name in ("BATCH_TEXTS", "WINDOW_PASSAGES"):
        monkeypatch.setattr(indexing, name, 1)
    cancel = CancelToken()

    def late(event):
        if event.stage == "encode" and event.done >= 3:
            cancel.cancel()

    with pytest.raises(Cancelled):
        library.rebuild(encoder="hashing:seed=5", progress=late, cancel=cancel)
    kept = bytes_of(library.folder).count(b"swordfish")
    assert kept > 1, "the interrupted rebuild has not come to it"
    if way == "remove":
        library.remove(docs / "secret.txt")
    else:
        (docs / "secret.txt").unlink() if way == "delete" else (docs / "secret.txt").write_text("Nothing.")
        library.index()
    assert library.collections()[0].rebuilding == "hashing:seed=5"
    assert b"swordfish" not in bytes_of(library.folder)
    library.rebuild(encoder="hashing:seed=5")
    assert library.collections()[0].passages == (4 if way == "edit" else 3)
    assert b"swordfish" not in bytes_of(library.folder)


def test_another_rebuild_drops_an_interrupted_one(library, monkeypatch):
    cancel = CancelToken()
    with pytest.raises(Cancelled):
        library.rebuild(encoder="hashing:seed=5", progress=lambda event: cancel.cancel(), cancel=cancel)
    library.rebuild(encoder="hashing:seed=6")
    (status,) = library.collections()
    assert status.encoder == "hashing:seed=6" and status.passages == 4
    assert len(library._catalog.collections()) == 1


def test_rebuilding_without_the_documents_is_declined(library, docs, tmp_path):
    docs.rename(tmp_path / "away")
    with pytest.raises(SourceMissing, match="slotrag remove"):
        library.rebuild(encoder="hashing:seed=2")
    assert library.search("swordfish").hits[0].path == "secret.txt"


def test_rebuild_is_what_a_mismatch_asks_for(library, docs):
    with pytest.raises(FingerprintMismatch) as caught:
        library.index([docs], encoder="hashing:seed=9")
    assert caught.value.command == "slotrag rebuild --collection default --encoder hashing:seed=9"
    library.rebuild("default", encoder="hashing:seed=9")
    assert library.index([docs], encoder="hashing:seed=9").unchanged == 4


def test_a_healthy_library(library):
    assert {f.severity for f in library.doctor() if f.check != "models"} == {"ok"}


def test_doctor_finds_and_mends_the_index(library):
    expected = results(library, "old bridge", "dense")
    (path,) = library.folder.glob("*.index")
    path.write_bytes(b"broken")
    (library.folder / "collection-99.index").write_bytes(b"left over")
    (library.folder / "collection-1.index.abc.part").write_bytes(b"left over")
    os.utime(library.folder / "collection-1.index.abc.part", (1, 1))
    found = [f for f in library.doctor() if f.severity != "ok" and f.check != "models"]
    assert {f.check for f in found} == {"index", "files"} and all("--fix" in f.command for f in found)
    assert all(f.fixed for f in library.doctor(fix=True) if f.check in ("index", "files") and f.severity != "ok")
    assert {f.severity for f in library.doctor() if f.check != "models"} == {"ok"}
    assert results(library, "old bridge", "dense") == expected
    assert sorted(p.name for p in library.folder.glob("collection*")) == [path.name]


def test_doctor_encodes_again_what_lost_its_vector(library, tmp_path):
    expected = results(library, "old bridge", "dense")
    library.close()
    with sqlite3.connect(library.folder / "library.db") as connection:
        connection.execute("DELETE FROM vectors WHERE id IN (SELECT id FROM vectors LIMIT 2)")
    connection.close()
    with open_library(library.folder) as damaged:
        assert any(f.check == "vectors" and f.severity == "error" for f in damaged.doctor())
        assert any(f.check == "vectors" and f.fixed for f in damaged.doctor(fix=True))
        assert results(damaged, "old bridge", "dense") == expected
        assert {f.severity for f in damaged.doctor() if f.check != "models"} == {"ok"}


def test_doctor_erases_vectors_that_nothing_needs(library):
    import numpy as np

    fingerprint = library.collections()[0].fingerprint
    library._catalog.put_vectors(fingerprint, [b"x" * 32], np.ones((1, 64), np.float32))
    assert any("1 vectors" in f.message and f.fixed for f in library.doctor(fix=True))


def test_doctor_tells_of_missing_folders_models_and_encoders(library, docs, tmp_path, monkeypatch):
    docs.rename(tmp_path / "away")
    monkeypatch.setattr(library._shared().shelf.get("hashing"), "fingerprint", "e" * 64)
    found = {f.check: f for f in library.doctor() if f.severity != "ok"}
    assert found["sources"].command == f"slotrag remove {docs}"
    assert "slotrag rebuild" in found["encoder"].message
    assert found["models"].command == "slotrag models pull none-such"


@pytest.mark.parametrize(
    "work",
    [
        lambda library, docs: library.index([docs], wait=False),
        lambda library, docs: library.rebuild(wait=False),
        lambda library, docs: library.remove(docs, wait=False),
        lambda library, docs: library.doctor(fix=True, wait=False),
    ],
)
def test_writers_decline_beside_another_and_readers_do_not_care(library, docs, work):
    with WriterLock(library.folder):
        with pytest.raises(LibraryLocked):
            work(library, docs)
        assert library.search("swordfish").hits and library.status() and library.doctor()
        assert library.index([docs], dry_run=True).unchanged == 4


def test_a_library_that_cannot_be_written_is_searched(library, docs, monkeypatch):
    library.close()
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **k: False if mode & os.W_OK else real(path, mode, **k))
    before = {path.name: path.read_bytes() for path in library.folder.iterdir()}
    with open_library(library.folder) as read_only:
        assert read_only.read_only and read_only.status().read_only
        assert read_only.status().read_only_reason == "you may not write to its folder and files"
        assert read_only.search("swordfish").hits[0].path == "secret.txt"
        assert read_only.doctor()
    assert all((library.folder / name).read_bytes() == data for name, data in before.items())


def test_a_full_disk_is_said_and_leaves_the_library_whole(library, docs, monkeypatch):
    from slotrag.storage import Catalog
    from slotrag.storage.errors import DiskFull

    def full(*args):
        raise DiskFull("the disk is full")

    before = passages(library)
    write(docs, {"new.txt": "Something new."})
    monkeypatch.setattr(Catalog, "put_vectors", full)
    with pytest.raises(DiskFull):
        library.index()
    monkeypatch.undo()
    assert passages(library) == before
    assert library.index().new == 1
