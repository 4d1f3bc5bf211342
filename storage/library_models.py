"""Tables of ``library.db``, the truth: collections, sources, documents, passages, vectors. They know no query."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, Integer, LargeBinary, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

_CASCADE = "CASCADE"


class LibraryBase(DeclarativeBase):
    type_annotation_map = {bytes: LargeBinary, dict[str, Any]: JSON, list[str]: JSON}  # noqa: RUF012


class Collection(LibraryBase):
    """Documents under one encoder; see `slotrag.storage.records.CollectionRecord`."""

    __tablename__ = "collections"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    encoder: Mapped[str]
    fingerprint: Mapped[str]
    dimension: Mapped[int]
    splitting: Mapped[dict[str, Any]]
    noise_level: Mapped[float | None]
    postprocessing: Mapped[int]
    is_default: Mapped[bool]
    state: Mapped[int]
    log_start: Mapped[int]
    """Removals up to this state are no longer in the log."""
    lexical_version: Mapped[str]
    """Tokeniser that the lexical index was built with."""
    created_at: Mapped[float]


class Source(LibraryBase):
    """A folder or file that a collection follows."""

    __tablename__ = "sources"
    __table_args__ = (UniqueConstraint("collection_id", "path"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete=_CASCADE))
    path: Mapped[bytes]
    display_path: Mapped[str]
    include: Mapped[list[str]]
    exclude: Mapped[list[str]]
    hidden: Mapped[bool]


class Document(LibraryBase):
    """A file as it was when last read."""

    __tablename__ = "documents"
    __table_args__ = (UniqueConstraint("collection_id", "path"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete=_CASCADE))
    source_id: Mapped[int | None] = mapped_column(ForeignKey("sources.id"), index=True)
    path: Mapped[bytes]
    relative_path: Mapped[bytes]
    display_path: Mapped[str]
    display_relative_path: Mapped[str]
    size: Mapped[int]
    mtime_ns: Mapped[int]
    content_hash: Mapped[bytes | None]
    reader: Mapped[str]
    status: Mapped[str]
    reason: Mapped[str]
    title: Mapped[str]
    media_type: Mapped[str]
    passage_count: Mapped[int]
    ctime_ns: Mapped[int | None]
    inode: Mapped[int | None]


class Passage(LibraryBase):
    """A piece of a document. ``added_state`` is the collection's state with which it came."""

    __tablename__ = "passages"
    __table_args__ = (
        Index("ix_passages_document", "document_id", "position"),
        Index("ix_passages_state", "collection_id", "added_state"),
        Index("ix_passages_text_hash", "text_hash"),
        Index("ix_passages_input_hash", "input_hash"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete=_CASCADE))
    document_id: Mapped[int] = mapped_column(ForeignKey("documents.id", ondelete=_CASCADE))
    added_state: Mapped[int]
    position: Mapped[int]
    text: Mapped[str]
    context: Mapped[str]
    heading: Mapped[str]
    page: Mapped[int | None]
    line_start: Mapped[int]
    line_end: Mapped[int]
    char_start: Mapped[int]
    char_end: Mapped[int]
    input_hash: Mapped[bytes]
    text_hash: Mapped[bytes]


class RemovedPassage(LibraryBase):
    """The log of removed passages, by which an index file catches up."""

    __tablename__ = "removed_passages"
    __table_args__ = (Index("ix_removed_passages_state", "collection_id", "state"),)

    passage_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete=_CASCADE))
    state: Mapped[int]
    added_state: Mapped[int]


class EncoderFingerprint(LibraryBase):
    """A small number for an encoder's fingerprint, so that a vector's key is short."""

    __tablename__ = "encoder_fingerprints"

    id: Mapped[int] = mapped_column(primary_key=True)
    fingerprint: Mapped[str] = mapped_column(unique=True)


class Vector(LibraryBase):
    """A raw vector, float16 little-endian, by encoder and hash of what the encoder got."""

    __tablename__ = "vectors"
    __table_args__ = (UniqueConstraint("encoder_id", "input_hash"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    encoder_id: Mapped[int] = mapped_column(Integer, ForeignKey("encoder_fingerprints.id", ondelete=_CASCADE))
    input_hash: Mapped[bytes]
    data: Mapped[bytes]


class Postprocessing(LibraryBase):
    """A numbered setting of a collection's post-processing; see `slotrag.storage.postprocessings`."""

    __tablename__ = "postprocessings"

    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete=_CASCADE), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    steps: Mapped[str]
    origin: Mapped[str]
    fitted_on: Mapped[int]
    statistics: Mapped[bytes]


class Variant(LibraryBase):
    """What a generator wrote of a text, by the key of all that decides it; goes with the passages of `input_hash`."""

    __tablename__ = "variants"
    __table_args__ = (UniqueConstraint("key"), Index("ix_variants_input_hash", "input_hash"))

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[bytes]
    input_hash: Mapped[bytes]
    texts: Mapped[list[str]]


class LexicalPostings(LibraryBase):
    """Where one word stands in one segment of a collection; see `slotrag.storage.lexical`."""

    __tablename__ = "lexical_postings"
    __table_args__ = ({"sqlite_with_rowid": False},)

    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete=_CASCADE), primary_key=True)
    segment: Mapped[int] = mapped_column(primary_key=True)
    term: Mapped[str] = mapped_column(primary_key=True)
    data: Mapped[bytes]


class LexicalLengths(LibraryBase):
    """Number of tokens of each passage in one segment of a collection."""

    __tablename__ = "lexical_lengths"

    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete=_CASCADE), primary_key=True)
    segment: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[bytes]
