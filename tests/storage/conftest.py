"""A fresh catalog with one collection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from library_parts import new_collection
from slotrag.storage import Catalog
from slotrag.storage.records import CollectionRecord


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "library") as catalog:
        yield catalog


@pytest.fixture
def collection(catalog: Catalog) -> CollectionRecord:
    return new_collection(catalog)
