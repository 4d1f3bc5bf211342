"""Nothing of a removed document is left in any file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from library_parts import FINGERPRINT, input_hash, new_collection, new_document, put, vector_of
from slotrag.storage import Catalog
from slotrag.storage.writing import text_hash

MARKER = "zanzibarquux"
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
        vector = np.asarray(vector_of(TEXT), dtype="<f2").tobytes()
        needles = {"text": MARKER.encode(), "vector": vector}
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
        for name, needle in needles.items():
            assert holding(tmp_path, needle) == set(), name


def test_pruning_does_not_wait_long_for_a_reader(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        collection = new_collection(catalog)
        put(catalog, collection.id, [new_document("a", [TEXT])])
        reading = catalog.vectors(collection.id)
        next(reading)
        catalog.remove_documents([1])
        catalog.prune_vectors()
        assert list(reading) == []
