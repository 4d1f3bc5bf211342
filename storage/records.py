"""The plain values that go into the catalog and come out of it. They know no SQL.

Paths are ``str`` as the operating system gives them (undecodable bytes as surrogate escapes).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class CollectionRecord:
    """A collection.

    Attributes
    ----------
    state : int
        Grows by one with each transaction that changes the collection's documents.
    splitting : dict
        How its documents are split, as given at creation.
    noise_level : float or None
        Cosine that random passage pairs stay below; None until measured.
    postprocessing : int
        Number of the post-processing setting of its vectors, 0 for none.
    """

    id: int
    name: str
    encoder: str
    fingerprint: str
    dimension: int
    splitting: dict[str, Any]
    noise_level: float | None
    postprocessing: int
    is_default: bool
    state: int
    created_at: float


@dataclass(frozen=True, slots=True)
class NewPostprocessing:
    """A post-processing setting to store.

    Attributes
    ----------
    steps : str
        What is done with a vector, such as ``mean+top=3``.
    origin : str
        Whose vectors the statistics come from: ``collection``, or ``encoder`` for those that it brings along.
    fitted_on : int
        Number of those vectors.
    statistics : bytes
        Sums over them; no single vector or text is in it.
    """

    steps: str
    origin: str
    fitted_on: int
    statistics: bytes


@dataclass(frozen=True, slots=True)
class PostprocessingRecord:
    """A stored post-processing setting; as `NewPostprocessing`, with its number in the collection."""

    number: int
    steps: str
    origin: str
    fitted_on: int
    statistics: bytes


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A folder or file that a collection follows."""

    id: int
    collection_id: int
    path: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    hidden: bool


@dataclass(frozen=True, slots=True)
class NewPassage:
    """A passage to store.

    Attributes
    ----------
    text : str
        What is shown.
    context : str
        The line put before `text` for the encoder; may be empty.
    lines : (int, int)
        First and last line, from 1.
    chars : (int, int)
        Characters ``[start, end)`` of the document's text.
    input_hash : bytes
        sha256 of exactly what the encoder gets.
    """

    text: str
    context: str
    heading: str
    page: int | None
    lines: tuple[int, int]
    chars: tuple[int, int]
    input_hash: bytes


@dataclass(frozen=True, slots=True)
class FileStamp:
    """By what a change of a file is told without opening it.

    Attributes
    ----------
    size : int
        Bytes.
    mtime_ns, ctime_ns : int or None
        Times of the last change of its content and of its status, nanoseconds.
    inode : int or None
        Its number on its disk, below 2**63. None or 0 stands for what is not known, here as in `ctime_ns`.
    """

    size: int
    mtime_ns: int
    ctime_ns: int | None = None
    inode: int | None = None

    def same(self, other: FileStamp) -> bool:
        """Whether nothing tells the two apart. What one of them does not know does not count."""
        return (self.size, self.mtime_ns) == (other.size, other.mtime_ns) and all(
            mine == theirs or not mine or not theirs
            for mine, theirs in ((self.ctime_ns, other.ctime_ns), (self.inode, other.inode))
        )


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to store in place of whatever was at its path.

    Attributes
    ----------
    content_hash : bytes or None
        Hash of the file's bytes; None where they could not be read.
    reader : str
        Name and version of what read it.
    status : str
        ``indexed``, ``partial_text``, ``no_text``, ``failed`` or ``skipped``.
    reason : str
        Why the status is not ``indexed``; may be empty.
    """

    source_id: int | None
    path: str
    relative_path: str
    size: int
    mtime_ns: int
    content_hash: bytes | None
    reader: str
    status: str
    reason: str = ""
    title: str = ""
    media_type: str = ""
    passages: list[NewPassage] = field(default_factory=list)
    ctime_ns: int | None = None
    inode: int | None = None


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """A stored document; `passage_count` is the number of its passages."""

    id: int
    collection_id: int
    source_id: int | None
    path: str
    relative_path: str
    size: int
    mtime_ns: int
    content_hash: bytes | None
    reader: str
    status: str
    reason: str
    title: str
    media_type: str
    passage_count: int
    ctime_ns: int | None
    inode: int | None

    @property
    def stamp(self) -> FileStamp:
        return FileStamp(self.size, self.mtime_ns, self.ctime_ns, self.inode)


@dataclass(frozen=True, slots=True)
class PassageRecord:
    """A stored passage with the document it comes from.

    Attributes
    ----------
    path, absolute_path : str
        The document's path relative to its source, and the one that opens it.
    position : int
        Its place among the document's passages, from 0.
    text_hash : bytes
        sha256 of `text` in UTF-8.
    """

    id: int
    collection_id: int
    collection: str
    document_id: int
    position: int
    path: str
    absolute_path: str
    title: str
    text: str
    context: str
    heading: str
    page: int | None
    lines: tuple[int, int]
    chars: tuple[int, int]
    input_hash: bytes
    text_hash: bytes


@dataclass(frozen=True, slots=True)
class Changes:
    """Passage ids that came and went since a state; both int64, ascending, without a common id."""

    added: np.ndarray
    removed: np.ndarray


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """Sizes of a collection.

    Attributes
    ----------
    documents : dict of str to int
        Documents by status.
    vector_bytes : int
        Bytes of the stored vectors that its passages refer to, each counted once.
    text_bytes : int
        Bytes of its passages' text in UTF-8.
    """

    documents: dict[str, int]
    passages: int
    sources: int
    vectors: int
    vector_bytes: int
    text_bytes: int


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """One message of a conversation, with copies of what it cited."""

    role: str
    text: str
    citations: list[dict[str, Any]]
    details: dict[str, Any]
    created_at: float


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A conversation; `messages` is empty where only the list was asked for."""

    id: str
    title: str
    created_at: float
    updated_at: float
    message_count: int
    messages: list[MessageRecord] = field(default_factory=list)
