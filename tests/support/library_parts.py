"""Collections, documents and vectors made up for the tests of storage."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from slotrag.storage import Catalog
from slotrag.storage.records import CollectionRecord, NewDocument, NewPassage

FINGERPRINT = "f" * 64
DIMENSION = 8


def input_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def new_passage(text: str, *, heading: str = "", context: str = "") -> NewPassage:
    return NewPassage(text, context, heading, None, (1, 1), (0, len(text)), input_hash(context + text))


def new_document(
    path: str, texts: Sequence[str], *, root: str = "/source", source_id: int | None = None, status: str = "indexed"
) -> NewDocument:
    content = input_hash("\n".join(texts))
    passages = [new_passage(text) for text in texts]
    size = sum(map(len, texts))
    return NewDocument(source_id, f"{root}/{path}", path, size, 1, content, "text", status, passages=passages)


def vector_of(text: str) -> np.ndarray:
    """A unit vector that depends on the text alone."""
    seed = int.from_bytes(input_hash(text)[:4], "little")
    vector = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
    return vector / np.linalg.norm(vector)


def new_collection(catalog: Catalog, name: str = "notes", fingerprint: str = FINGERPRINT) -> CollectionRecord:
    return catalog.create_collection(
        name, encoder="mean", fingerprint=fingerprint, dimension=DIMENSION, splitting={"tokens": 200}
    )


def put(catalog: Catalog, collection_id: int, documents: Sequence[NewDocument]) -> list[list[int]]:
    """Store documents with the vectors of their passages, vectors first."""
    texts = [passage.text for document in documents for passage in document.passages]
    if texts:
        catalog.put_vectors(FINGERPRINT, [input_hash(text) for text in texts], np.stack([vector_of(t) for t in texts]))
    return catalog.put_documents(collection_id, documents)
