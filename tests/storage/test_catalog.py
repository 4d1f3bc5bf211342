"""The catalog's collections, sources, documents and passages."""

from __future__ import annotations

import os
import stat
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from library_parts import (
    DIMENSION,
    FINGERPRINT,
    input_hash,
    new_collection,
    new_document,
    new_passage,
    put,
    vector_of,
)
from slotrag import UsageError
from slotrag.storage import Catalog, removal
from slotrag.storage.errors import LibraryDamaged, LibraryMissing, UnknownCollection
from slotrag.storage.records import CollectionRecord, FileStamp, NewDocument


def test_files_are_for_the_owner_only(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "library") as catalog:
        new_collection(catalog)
        catalog.create_session("a question")
        catalog.put_slots("c", {b"k" * 32: b"slots"})
        assert stat.S_IMODE((tmp_path / "library").stat().st_mode) == 0o700
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "library").iterdir()}
    assert {"library.db", "sessions.db", "slots.db", "library.db-wal"} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_a_folder_with_other_things_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "notes.txt").write_text("mine")
    with Catalog.open(tmp_path):
        pass
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_nothing_is_made_unless_asked(tmp_path: Path) -> None:
    with pytest.raises(LibraryMissing, match="slotrag index"):
        Catalog.open(tmp_path / "library", create=False)
    assert not (tmp_path / "library").exists()


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 8192])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "library.db").write_bytes(content)
    with pytest.raises(LibraryDamaged, match=r"library\.db"):
        Catalog.open(tmp_path)
    assert (tmp_path / "library.db").read_bytes() == content


def test_first_collection_is_the_default_and_passes_it_on(catalog: Catalog) -> None:
    with pytest.raises(UnknownCollection, match="slotrag index"):
        catalog.collection()
    first, second = new_collection(catalog, "first"), new_collection(catalog, "second")
    assert (first.is_default, second.is_default) == (True, False)
    assert catalog.update_collection(second.id, is_default=True).is_default
    assert catalog.collection().name == "second"
    catalog.remove_collection(second.id)
    assert [record.is_default for record in catalog.collections()] == [True]
    with pytest.raises(UnknownCollection, match="first"):
        catalog.collection("second")


def test_collection_fields_and_names(catalog: Catalog, collection: CollectionRecord) -> None:
    other = new_collection(catalog, "other")
    with pytest.raises(UsageError, match="notes"):
        new_collection(catalog, "notes")
    with pytest.raises(UsageError, match="notes"):
        catalog.update_collection(other.id, name="notes")
    with pytest.raises(TypeError, match="colour"):
        catalog.update_collection(other.id, colour="red")
    updated = catalog.update_collection(collection.id, name="notes", noise_level=0.25, splitting={"tokens": 100})
    assert (updated.noise_level, updated.splitting, updated.state) == (0.25, {"tokens": 100}, collection.state)


def test_another_fingerprint_outdates_every_index(catalog: Catalog, collection: CollectionRecord) -> None:
    put(catalog, collection.id, [new_document("a", ["one"])])
    state = catalog.collection().state
    assert catalog.update_collection(collection.id, fingerprint="0" * 64).state > state
    assert catalog.changes_since(collection.id, state) is None
    assert catalog.changes_since(collection.id, catalog.collection().state) is not None


def test_a_source_is_followed_once(catalog: Catalog, collection: CollectionRecord) -> None:
    first = catalog.put_source(collection.id, "/docs", include=["*.md"], exclude=[], hidden=False)
    second = catalog.put_source(collection.id, "/docs", include=[], exclude=["b"], hidden=True)
    assert second.id == first.id
    assert (second.include, second.exclude, second.hidden) == ((), ("b",), True)
    put(catalog, collection.id, [new_document("a", ["one"], source_id=first.id), new_document("b", ["two"])])
    catalog.remove_source(first.id)
    assert catalog.sources() == []
    assert [document.relative_path for document in catalog.documents(collection.id)] == ["b"]


def test_documents_come_back_as_they_went_in(catalog: Catalog, collection: CollectionRecord) -> None:
    name = os.fsdecode(b"caf\xe9 \xff.txt")
    document = NewDocument(
        None, f"/docs/{name}", name, 12, 2**62, None, "text 1", "failed", "cannot be decoded", "T", "text/plain"
    )
    catalog.put_documents(collection.id, [document])
    (record,) = catalog.documents(collection.id)
    for field in ("path", "relative_path", "size", "mtime_ns", "content_hash", "reader", "status", "reason", "title"):
        assert getattr(record, field) == getattr(document, field)
    assert catalog.documents(collection.id, statuses=["indexed"]) == []
    assert len(catalog.documents(collection.id, statuses=["failed", "indexed"])) == 1


def test_passages_come_in_the_order_asked_for(catalog: Catalog, collection: CollectionRecord) -> None:
    ((a, b), (c,)) = put(catalog, collection.id, [new_document("x", ["one", "two"]), new_document("y", ["three"])])
    records = catalog.passages([c, 999, a, b, a])
    assert [record.text for record in records] == ["three", "one", "two", "one"]
    assert (records[0].path, records[0].absolute_path, records[0].collection) == ("y", "/source/y", "notes")
    assert records[0].text_hash == input_hash("three")
    assert [record.text for record in catalog.neighbours(a)] == ["two"]
    assert [record.text for record in catalog.neighbours(b, before=5, after=0)] == ["one"]
    assert catalog.neighbours(999) == []


def test_copies_are_the_other_documents(catalog: Catalog, collection: CollectionRecord) -> None:
    texts = {"x": ["same", "own", "same"], "y": ["same"], "z": ["other"]}
    ids = put(catalog, collection.id, [new_document(path, passages) for path, passages in texts.items()])
    elsewhere = new_collection(catalog, "elsewhere")
    put(catalog, elsewhere.id, [new_document("w", ["same"])])
    assert catalog.copies([ids[0][0], ids[0][1], ids[1][0]]) == {
        ids[0][0]: ["/source/y"],
        ids[0][1]: [],
        ids[1][0]: ["/source/x"],
    }


def test_replacing_keeps_ids_of_equal_passages_only(catalog: Catalog, collection: CollectionRecord) -> None:
    ((one, two, again),) = put(catalog, collection.id, [new_document("x", ["one", "two", "one"])])
    state = catalog.collection().state
    ((added, kept),) = put(catalog, collection.id, [new_document("x", ["new", "one"])])
    assert kept == one
    assert added > again
    assert [record.text for record in catalog.passages([one, two, again, added])] == ["one", "new"]
    assert catalog.passages([one])[0].position == 1
    changes = catalog.changes_since(collection.id, state)
    assert changes is not None
    assert (changes.added.tolist(), changes.removed.tolist()) == ([added], [two, again])
    assert len(catalog.documents(collection.id)) == 1


def test_ids_are_never_used_again(catalog: Catalog, collection: CollectionRecord, tmp_path: Path) -> None:
    ((first,),) = put(catalog, collection.id, [new_document("x", ["one"])])
    catalog.remove_documents([document.id for document in catalog.documents(collection.id)])
    catalog.close()
    with Catalog.open(tmp_path / "library") as reopened:
        ((second,),) = put(reopened, collection.id, [new_document("x", ["one"])])
    assert second > first


def test_a_batch_is_all_or_nothing(catalog: Catalog, collection: CollectionRecord) -> None:
    bad = NewDocument(9999, "/source/b", "b", 1, 1, None, "text", "indexed", passages=[new_passage("two")])
    with pytest.raises(Exception, match="FOREIGN KEY"):
        catalog.put_documents(collection.id, [new_document("a", ["one"]), bad])
    assert catalog.documents(collection.id) == []
    assert catalog.lexical_search(collection.id, "one two", 5) == []
    assert catalog.collection().state == collection.state
    with pytest.raises(ValueError, match="twice"):
        catalog.put_documents(collection.id, [new_document("a", ["one"]), new_document("a", ["two"])])


def test_renaming_swaps_and_replaces(catalog: Catalog, collection: CollectionRecord) -> None:
    put(catalog, collection.id, [new_document(name, [f"text of {name}"]) for name in ("a", "b", "c")])
    a, b, _ = catalog.documents(collection.id)
    ids = catalog.passage_ids(collection.id)
    catalog.rename_documents(
        [
            (a.id, None, b.path, "b", FileStamp(1, 5)),
            (b.id, None, a.path, "a", FileStamp(1, 5)),
            (9999, None, "/source/q", "q", FileStamp(1, 5)),
        ]
    )
    swapped = {document.relative_path: document.id for document in catalog.documents(collection.id)}
    assert (swapped["a"], swapped["b"]) == (b.id, a.id)
    assert catalog.passage_ids(collection.id).tolist() == ids.tolist()
    catalog.rename_documents([(a.id, None, "/source/c", "c", FileStamp(1, 6))])
    assert {d.relative_path: d.id for d in catalog.documents(collection.id)} == {"a": b.id, "c": a.id}
    assert [p.text for p in catalog.passages(catalog.passage_ids(collection.id))] == ["text of a", "text of b"]
    assert catalog.integrity_check() == []


def test_touching_changes_no_state(catalog: Catalog, collection: CollectionRecord) -> None:
    put(catalog, collection.id, [new_document("a", ["one"])])
    (document,) = catalog.documents(collection.id)
    state = catalog.collection().state
    catalog.touch_documents([(document.id, FileStamp(77, 88, 99, 2**63 - 1))])
    (touched,) = catalog.documents(collection.id)
    assert touched.stamp == FileStamp(77, 88, 99, 2**63 - 1) and catalog.collection().state == state


def test_the_log_is_trimmed(catalog: Catalog, collection: CollectionRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "LOG_LIMIT", 5)
    for round_ in range(8):
        put(catalog, collection.id, [new_document("a", [f"text {round_} {at}" for at in range(2)])])
    state = catalog.collection().state
    assert catalog.changes_since(collection.id, 0) is None
    put(catalog, collection.id, [new_document("a", ["last one", "last two"])])
    changes = catalog.changes_since(collection.id, state)
    assert changes is not None
    assert (len(changes.added), len(changes.removed)) == (2, 2)
    state = catalog.collection().state
    assert catalog.changes_since(collection.id, state + 1) is None
    assert catalog.changes_since(9999, 0) is None


def test_paths_are_found_in_either_spelling(catalog: Catalog, collection: CollectionRecord) -> None:
    name = unicodedata.normalize("NFD", "보고서.md")
    put(catalog, collection.id, [new_document(f"2024/{name}", ["하나"]), new_document("b/x.txt", ["둘"])])
    wanted = catalog.passage_ids(collection.id)[:1].tolist()
    for pattern in ("보고서.md", name, "*.md", "2024", "2024/*.md", "/source/2024/**", "**/보고서.*", "./2024/"):
        assert catalog.passage_ids(collection.id, pattern).tolist() == wanted, pattern
    for pattern in ("*.pdf", "sour", "/2024", "보고서"):
        assert catalog.passage_ids(collection.id, pattern).tolist() == [], pattern
    assert catalog.passages(wanted)[0].absolute_path == f"/source/2024/{name}"


def test_statistics_and_integrity(catalog: Catalog, collection: CollectionRecord) -> None:
    put(catalog, collection.id, [new_document("a", ["같은", "same"]), new_document("b", ["same"])])
    put(catalog, collection.id, [new_document("c", [], status="no_text")])
    figures = catalog.statistics(collection.id)
    assert figures.documents == {"indexed": 2, "no_text": 1}
    assert (figures.passages, figures.vectors, figures.vector_bytes) == (3, 2, 2 * 2 * DIMENSION)
    assert figures.text_bytes == len("같은samesame".encode())
    assert catalog.integrity_check(full=True) == []
    catalog.put_documents(collection.id, [new_document("d", ["no vector"])])
    assert catalog.integrity_check() == ["collection notes: 1 passages have no stored vector"]


def test_lone_surrogates_do_not_stop_a_document(catalog: Catalog, collection: CollectionRecord) -> None:
    passage = new_passage("text")
    broken = NewDocument(
        None, "/a", "a", 1, 1, None, "text", "indexed", title="\ud800", passages=[
            type(passage)("bro\udc80ken \0 words", "", "", None, (1, 1), (0, 13), b"h" * 32)
        ],
    )  # fmt: skip
    ((passage_id,),) = catalog.put_documents(collection.id, [broken])
    assert catalog.passages([passage_id])[0].text == "bro\ufffdken \0 words"
    assert [found for found, _ in catalog.lexical_search(collection.id, "words", 3)] == [passage_id]


class TestVectors:
    def test_rounded_to_half_precision_and_kept_once(self, catalog: Catalog, collection: CollectionRecord) -> None:
        texts = [f"text {number}" for number in range(20)]
        put(catalog, collection.id, [new_document("a", texts), new_document("b", texts[:5])])
        chunks = list(catalog.vectors(collection.id))
        ids = np.concatenate([found for found, _ in chunks])
        vectors = np.concatenate([found for _, found in chunks])
        assert ids.tolist() == catalog.passage_ids(collection.id).tolist()
        by_id = {record.id: record.text for record in catalog.passages(ids)}
        expected = np.stack([vector_of(by_id[passage_id]) for passage_id in ids.tolist()])
        np.testing.assert_allclose(vectors, expected, atol=5e-4)
        assert vectors.dtype == np.float32
        assert catalog.statistics(collection.id).vectors == 20

    def test_of_some_passages(self, catalog: Catalog, collection: CollectionRecord) -> None:
        ((a, b),) = put(catalog, collection.id, [new_document("a", ["one", "two"])])
        ((ids, vectors),) = list(catalog.vectors(collection.id, np.array([b, 999, b])))
        assert ids.tolist() == [b]
        np.testing.assert_allclose(vectors[0], vector_of("two"), atol=5e-4)
        assert list(catalog.vectors(collection.id, np.array([], dtype=np.int64))) == []
        assert a != b

    def test_under_another_encoder_are_others(self, catalog: Catalog, collection: CollectionRecord) -> None:
        put(catalog, collection.id, [new_document("a", ["one"])])
        assert catalog.stored_vectors(FINGERPRINT, [input_hash("one"), input_hash("two")]) == {input_hash("one")}
        assert catalog.stored_vectors("0" * 64, [input_hash("one")]) == set()

    @pytest.mark.parametrize("number", [np.nan, np.inf, 1e6])
    def test_refused_unless_finite(self, catalog: Catalog, number: float) -> None:
        with pytest.raises(ValueError, match="finite"):
            catalog.put_vectors(FINGERPRINT, [b"h" * 32], np.full((1, DIMENSION), number, dtype=np.float32))
        with pytest.raises(ValueError, match="shape"):
            catalog.put_vectors(FINGERPRINT, [b"h" * 32], np.zeros((2, DIMENSION), dtype=np.float32))

    def test_pruned_when_nothing_refers_to_them(self, catalog: Catalog, collection: CollectionRecord) -> None:
        put(catalog, collection.id, [new_document("a", ["one", "two"]), new_document("b", ["two"])])
        catalog.put_vectors("0" * 64, [input_hash("two")], np.zeros((1, DIMENSION), dtype=np.float32))
        assert catalog.prune_vectors() == 1
        first = catalog.documents(collection.id)[0]
        assert catalog.remove_documents([first.id, first.id + 100]) == 1
        assert catalog.prune_vectors() == 1
        assert catalog.stored_vectors(FINGERPRINT, [input_hash("one"), input_hash("two")]) == {input_hash("two")}


@pytest.mark.parametrize("glob", ["[", "a[b", "[]", "[!]", "[a][", "[z-a]"])
def test_a_glob_that_is_none_is_refused(catalog: Catalog, collection: CollectionRecord, glob: str) -> None:
    with pytest.raises(UsageError, match="is no pattern"):
        catalog.passage_ids(collection.id, glob)
    for fine in ("[[]", "[]]", "[!]]", "a[!bc]d", "]"):
        assert catalog.passage_ids(collection.id, fine).tolist() == []
