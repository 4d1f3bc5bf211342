"""What a library holds: status and removal. It indexes nothing and mends nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import UsageError
from ..encoders.postprocessing import LEAST_ROWS
from ..storage.errors import DiskFull
from ..storage.records import CollectionRecord, DocumentRecord, SourceRecord
from .index_run import HIDDEN_PREFIX, Parts, shadow_of
from .scanning import PENDING
from .sources import inside
from .training.run_places import erase_stale

if TYPE_CHECKING:
    from ..storage import Catalog


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A followed folder or file; `present` tells whether it is there now."""

    path: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    hidden: bool
    present: bool


@dataclass(frozen=True, slots=True)
class CollectionStatus:
    """A collection in figures.

    Attributes
    ----------
    documents : dict of str to int
        Documents by status: ``indexed``, ``partial_text``, ``no_text``, ``failed``, ``skipped``.
    pending : int
        Files that an interrupted run left to the next one.
    passages, vectors : int
        Equal texts share a vector.
    index_state : str
        ``current``, ``behind``, ``missing`` or ``broken``; every one is put right by the next search or run.
    noise_level : float or None
        Cosine above which a passage counts as relevant.
    rebuilding : str or None
        Spec of the encoder of an interrupted `rebuild`.
    postprocessing : str
        Steps that the vectors go through before they are compared, or ``none``.
    postprocessing_origin : str or None
        Whose vectors its statistics come from: ``collection``, or ``encoder`` for those that it brings along.
    postprocessing_fitted_on : int
        Number of those vectors.
    """

    name: str
    is_default: bool
    encoder: str
    fingerprint: str
    dimension: int
    passage_tokens: int
    documents: dict[str, int]
    pending: int
    passages: int
    vectors: int
    vector_bytes: int
    text_bytes: int
    index_state: str
    index_bytes: int
    noise_level: float | None
    sources: list[SourceStatus]
    rebuilding: str | None = None
    postprocessing: str = "none"
    postprocessing_origin: str | None = None
    postprocessing_fitted_on: int = 0

    @property
    def fits_statistics(self) -> bool:
        """Whether there are enough passages to fit a post-processing to."""
        return self.passages >= LEAST_ROWS


@dataclass(frozen=True, slots=True)
class LibraryStatus:
    """A library in figures.

    Attributes
    ----------
    file_bytes : dict of str to int
        By file: ``library.db``, ``sessions.db``, ``slots.db`` and ``index``.
    read_only_reason : str
        Why it cannot be changed now; empty where it can.
    """

    folder: str
    read_only: bool
    collections: list[CollectionStatus]
    file_bytes: dict[str, int]
    sessions: int = 0
    read_only_reason: str = ""


def shown(collections: Sequence[CollectionRecord]) -> list[CollectionRecord]:
    """The collections that users see."""
    return [record for record in collections if not record.name.startswith(HIDDEN_PREFIX)]


def collection_status(parts: Parts, record: CollectionRecord) -> CollectionStatus:
    """The figures of one collection."""
    catalog, keeper = parts.catalog, parts.keeper
    figures = catalog.statistics(record.id)
    documents = dict(figures.documents)
    shadow = shadow_of(catalog, record)
    setting = catalog.postprocessing(record.id, record.postprocessing) if record.postprocessing else None
    steps = "none" if record.postprocessing == 0 else "lost"
    return CollectionStatus(
        name=record.name, is_default=record.is_default, encoder=record.encoder, fingerprint=record.fingerprint,
        dimension=record.dimension, passage_tokens=record.splitting.get("tokens", 0),
        pending=documents.pop(PENDING, 0), documents=documents, passages=figures.passages, vectors=figures.vectors,
        vector_bytes=figures.vector_bytes, text_bytes=figures.text_bytes, index_state=keeper.state_on_disk(record),
        index_bytes=_size(keeper.path(record)), noise_level=record.noise_level,
        sources=[_source_status(source) for source in catalog.sources(record.id)],
        rebuilding=shadow.encoder if shadow is not None else None,
        postprocessing=setting.steps if setting is not None else steps,
        postprocessing_origin=setting.origin if setting is not None else None,
        postprocessing_fitted_on=setting.fitted_on if setting is not None else 0,
    )  # fmt: skip


def library_status(parts: Parts) -> LibraryStatus:
    """The figures of the whole library."""
    catalog = parts.catalog
    every = catalog.collections()
    files = {name: _size_with_log(catalog.folder / name) for name in ("library.db", "sessions.db", "slots.db")}
    files["index"] = sum(_size(parts.keeper.path(record)) for record in every)
    held = len(catalog.sessions()) if (catalog.folder / "sessions.db").exists() else 0
    statuses = [collection_status(parts, record) for record in shown(every)]
    return LibraryStatus(
        str(catalog.folder), catalog.read_only, statuses, files, held, read_only_reason=catalog.read_only_reason
    )


def remove(parts: Parts, path: Path | str, collections: Sequence[CollectionRecord]) -> int:
    """Erase what was indexed at `path`: a followed folder or file, or one inside; the number of documents.

    A file that is still there is left out of later runs, until its folder is indexed with other rules.

    Raises
    ------
    slotrag.UsageError
        Nothing there is indexed or followed.
    DiskFull
        There is no room for the log of what is erased; it says what in the library can be spared.
    """
    try:
        return _remove(parts, path, collections)
    except DiskFull as error:
        raise DiskFull(
            f"{error}. Removing needs some room first: slots.db and the files collection-*.index in "
            f"{parts.catalog.folder} may be deleted for it, since they are made anew"
        ) from error


def _remove(parts: Parts, path: Path | str, collections: Sequence[CollectionRecord]) -> int:
    catalog = parts.catalog
    text = os.fspath(path)
    absolute = os.path.realpath(os.path.expanduser(text))  # noqa: PTH111
    removed = 0
    changed: list[CollectionRecord] = []
    for record in collections:
        sources = catalog.sources(record.id)
        whole = [source for source in sources if source.path == absolute or inside(source.path, absolute)]
        documents = _at(catalog.documents(record.id), absolute, text)
        if not whole and not documents:
            continue
        changed.append(record)
        removed += sum(document.status != PENDING for document in documents)
        catalog.remove_documents([document.id for document in documents])
        for source in whole:
            catalog.remove_source(source.id)
        _remove_unfinished(catalog, record, absolute, text)
        for source in sources:
            if source not in whole:
                _exclude(catalog, source, [d.path for d in documents], absolute)
    if not changed:
        raise UsageError(f"Nothing at {text} is indexed; `slotrag status` shows the folders that are followed.")
    _erase(parts, changed)
    return removed


def _remove_unfinished(catalog: Catalog, record: CollectionRecord, absolute: str, given: str) -> None:
    """Take the same out of what an interrupted rebuild has made."""
    shadow = shadow_of(catalog, record)
    if shadow is not None:
        catalog.remove_documents([d.id for d in _at(catalog.documents(shadow.id), absolute, given)])


def _at(documents: Sequence[DocumentRecord], absolute: str, given: str) -> list[DocumentRecord]:
    """Documents at or below a path; where there is none, those whose displayed path it is."""
    found = [d for d in documents if d.path == absolute or inside(d.path, absolute)]
    return found or [d for d in documents if d.relative_path == given]


def _exclude(catalog: Catalog, source: SourceRecord, removed: Sequence[str], absolute: str) -> None:
    """Keep what was removed out of later runs, where it is still there."""
    paths = [absolute] if inside(absolute, source.path) else [path for path in removed if inside(path, source.path)]
    patterns = ["/" + _escaped(os.path.relpath(path, source.path)) for path in paths if Path(path).exists()]
    if patterns:
        catalog.put_source(
            source.collection_id,
            source.path,
            include=source.include,
            exclude=(*source.exclude, *(pattern for pattern in patterns if pattern not in source.exclude)),
            hidden=source.hidden,
        )


def _escaped(path: str) -> str:
    return "".join("\\" + c if c in "\\*?[]!# " else c for c in path)


def _erase(parts: Parts, collections: Sequence[CollectionRecord]) -> None:
    """Erase the vectors that nothing needs any more, also those in the index files, and what trainings left."""
    parts.catalog.prune_vectors()
    erase_stale(parts.catalog)
    current = {record.id: record for record in parts.catalog.collections()}
    for record in collections:
        parts.keeper.refresh(current[record.id])


def _source_status(source: SourceRecord) -> SourceStatus:
    return SourceStatus(source.path, source.include, source.exclude, source.hidden, Path(source.path).exists())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _size_with_log(path: Path) -> int:
    return _size(path) + _size(path.with_name(path.name + "-wal"))
