"""Libraries over the model-free encoder ``hashing``, and what two of them must have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slotrag.rag.library import Library
from slotrag.rag.settings import Settings


def open_library(folder: Path, **settings: Any) -> Library:
    """A library whose new collections get the encoder ``hashing`` (needs the fixture ``hashing_encoder``)."""
    return Library.open(folder, settings=Settings(**{"encoder": "hashing", "decoder": "none-such", **settings}))


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files, folders made as needed; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def passages(library: Library, collection: str | None = None) -> list[tuple[Any, ...]]:
    """Every passage with its place, in an order that does not depend on ids."""
    catalog = library._catalog
    record = catalog.collection(collection)
    rows = catalog.passages(catalog.passage_ids(record.id).tolist())
    return sorted(
        (p.path, p.position, p.text, p.heading, p.lines, p.chars, p.page, p.title, p.input_hash) for p in rows
    )


def documents(library: Library, collection: str | None = None) -> list[tuple[str, str, str]]:
    """Every document with its status."""
    catalog = library._catalog
    return sorted((d.relative_path, d.status, d.reason) for d in catalog.documents(catalog.collection(collection).id))


def results(library: Library, query: str, mode: str, collection: str | None = None) -> list[tuple[Any, ...]]:
    """All results of one side: text, all files that hold it, score."""
    hits = library.search(query, k=10_000, mode=mode, collection=collection).hits
    found = [(hit.text, tuple(sorted({hit.absolute_path, *hit.copies})), round(hit.score, 3)) for hit in hits]
    return sorted(found)


def assert_same(library: Library, other: Library, queries: list[str], *collections: str | None) -> None:
    """Both hold the same documents and passages and find the same."""
    ours, theirs = collections or (None, None)
    assert documents(library, ours) == documents(other, theirs)
    assert passages(library, ours) == passages(other, theirs)
    for query in queries:
        for mode in ("dense", "lexical"):
            assert results(library, query, mode, ours) == results(other, query, mode, theirs)
