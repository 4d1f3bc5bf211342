"""Nothing of a removed document is left in any file."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from library_parts import FINGERPRINT, input_hash, new_collection, new_document, put, vector_of
from slotrag.storage import Catalog
from slotrag.storage.writing import text_hash

MARKER = "zanzibarquux"
VARIANT = "quuxibarzan"
TEXT = f"{MARKER} stands beside {MARKER}x and more words"


def holding(folder: Path, needle: bytes) -> set[str]:
    return {file.name for file in folder.iterdir() if needle in file.read_bytes()}


@pytest.mark.parametrize("way", ["document", "replaced", "source", "collection"])
def test_erased_everywhere(tmp_path: Path, way: str) -> None:
    with Catalog.open(tmp_path) as catalog:
        collection = new_collection(catalog)
        source = catalog.put_source(collection.id, "/source")
        put(catalog, collection.id, [new_document(f"other{at}", [f"text {at} words"] * 3) for at in range(50)])
        put(catalog, collection.id, [new_document("a", [TEXT, "more"], source_id=source.id)])
        catalog.put_slots("c", {text_hash(TEXT): f"slots of {MARKER}".encode()})
        key = b"key of a variant" * 2
        catalog.put_variants({key: [f"beside {VARIANT}", ""]}, {key: input_hash(TEXT)})
        vector = np.asarray(vector_of(TEXT), dtype="<f2").tobytes()
        needles = {"text": MARKER.encode(), "vector": vector, "variant": VARIANT.encode(), "key": key}
        assert all(holding(tmp_path, needle) for needle in needles.values())
        if way == "document":
            last = max(document.id for document in catalog.documents(collection.id))
            catalog.remove_documents([last])
        elif way == "replaced":
            put(catalog, collection.id, [new_document("a", ["other"])])
        elif way == "source":
            catalog.remove_source(source.id)
        else:
            catalog.remove_collection(collection.id)
        catalog.prune_vectors()
        assert catalog.stored_vectors(FINGERPRINT, [input_hash(TEXT)]) == set()
        assert catalog.get_variants([key]) == {}
        for name, needle in needles.items():
            assert holding(tmp_path, needle) == set(), name


def test_a_variant_stays_as_long_as_a_passage_has_its_text(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        collection = new_collection(catalog)
        put(catalog, collection.id, [new_document("a", [TEXT]), new_document("b", [TEXT, "more"])])
        keys = {name: name.encode() * 32 for name in "vwx"}
        catalog.put_variants(
            {key: [name, ""] for name, key in keys.items()},
            {keys["v"]: input_hash(TEXT), keys["w"]: input_hash("more"), keys["x"]: input_hash("never stored")},
        )
        catalog.prune_vectors()
        assert set(catalog.get_variants(list(keys.values()))) == {keys["v"], keys["w"]}
        catalog.put_variants({keys["v"]: ["another", ""]}, {keys["v"]: input_hash(TEXT)})
        catalog.remove_documents([2])
        catalog.prune_vectors()
        assert catalog.get_variants(list(keys.values())) == {keys["v"]: ["v", ""]}
        assert catalog.count_variants() == 1


@pytest.mark.parametrize("way", ["vectors", "replaced", "documents", "source", "collection"])
def test_what_may_be_left_is_known_until_it_is_erased(tmp_path: Path, way: str) -> None:
    """Also when the process is killed in between: another one opens the files."""
    with Catalog.open(tmp_path) as catalog:
        collection = new_collection(catalog)
        assert not catalog.has_leftovers()
        source = catalog.put_source(collection.id, "/source")
        put(catalog, collection.id, [new_document("a", [TEXT], source_id=source.id)])
        catalog.prune_vectors()
        assert not catalog.has_leftovers()
        if way == "vectors":
            catalog.put_vectors(FINGERPRINT, [b"x" * 32], vector_of("never stored")[None])
        elif way == "replaced":
            catalog.put_documents(collection.id, [new_document("a", [])])
        elif way == "documents":
            catalog.remove_documents([1])
        elif way == "source":
            catalog.remove_source(source.id)
        else:
            catalog.remove_collection(collection.id)
    with Catalog.open(tmp_path) as catalog:
        assert catalog.has_leftovers()
        assert catalog.prune_vectors() == 1
        assert not catalog.has_leftovers()


def test_pruning_does_not_wait_long_for_a_reader(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        collection = new_collection(catalog)
        put(catalog, collection.id, [new_document("a", [TEXT])])
        reading = catalog.vectors(collection.id)
        next(reading)
        catalog.remove_documents([1])
        catalog.prune_vectors()
        assert list(reading) == []


def test_slots_of_a_text_that_is_gone_are_not_kept(tmp_path: Path) -> None:
    key, other = text_hash(TEXT), text_hash("more")
    with Catalog.open(tmp_path) as catalog:
        collection = new_collection(catalog)
        put(catalog, collection.id, [new_document("a", [TEXT]), new_document("b", ["more"])])
        catalog.remove_documents([1])
        catalog.prune_vectors()
        catalog.put_slots("c", {key: MARKER.encode()}, only_held=True)
        catalog.put_slots("c", {key: MARKER.encode(), other: b"slots of more"}, only_held=True)
        assert catalog.get_slots("c", [key, other]) == {other: b"slots of more"}
        assert holding(tmp_path, MARKER.encode()) == set()


def test_a_text_removed_while_its_slots_are_being_stored_is_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removal ends between the look at the passages and the writing of the slots."""
    key = text_hash(TEXT)
    with Catalog.open(tmp_path) as catalog:
        collection = new_collection(catalog)
        put(catalog, collection.id, [new_document("a", [TEXT])])
        catalog.put_slots("c", {text_hash("more"): b"the file is there"})
        held = catalog._held_texts
        removed = threading.Event()

        def remove() -> None:
            catalog.remove_documents([1])
            removed.set()
            catalog.prune_vectors()

        removing = threading.Thread(target=remove)

        def looking(hashes: Sequence[bytes]) -> set[bytes]:
            found = held(hashes)
            if threading.current_thread() is not removing:
                removing.start()
                assert removed.wait(10)
            return found

        monkeypatch.setattr(catalog, "_held_texts", looking)
        catalog.put_slots("c", {key: MARKER.encode()}, only_held=True)
        removing.join(30)
        assert not removing.is_alive()
        assert catalog.get_slots("c", [key]) == {}
        assert holding(tmp_path, MARKER.encode()) == set()
