"""What a library holds and whether it is whole: status, removal, checks and repairs. It indexes nothing."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import SlotragError, UsageError
from ..storage.records import CollectionRecord, DocumentRecord, SourceRecord
from .index_run import HIDDEN_PREFIX, Parts, pending, shadow_of
from .indexing import BATCH_TEXTS, encoder_input
from .scanning import PENDING
from .sources import inside

if TYPE_CHECKING:
    from ..encoders.backbones.store import ModelStore
    from ..storage import Catalog

_STALE_SECONDS = 3600
_OF_SQLITE_INDEX = re.compile("(missing from|entries in) index")
_START_AGAIN = "restore library.db from a backup, or delete it and run slotrag index again"


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


@dataclass(frozen=True, slots=True)
class LibraryStatus:
    """A library in figures; `file_bytes` by file: ``library.db``, ``sessions.db``, ``slots.db`` and ``index``."""

    folder: str
    read_only: bool
    collections: list[CollectionStatus]
    file_bytes: dict[str, int]
    sessions: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that `doctor` looked at.

    Attributes
    ----------
    severity : str
        ``ok``, ``warning`` or ``error``.
    fixed : bool
        Whether it was put right just now.
    command : str
        What puts it right, where `doctor` does not.
    """

    check: str
    severity: str
    message: str
    fixed: bool = False
    command: str = ""


def shown(collections: Sequence[CollectionRecord]) -> list[CollectionRecord]:
    """The collections that users see."""
    return [record for record in collections if not record.name.startswith(HIDDEN_PREFIX)]


def collection_status(parts: Parts, record: CollectionRecord) -> CollectionStatus:
    """The figures of one collection."""
    catalog, keeper = parts.catalog, parts.keeper
    figures = catalog.statistics(record.id)
    documents = dict(figures.documents)
    shadow = shadow_of(catalog, record)
    return CollectionStatus(
        name=record.name, is_default=record.is_default, encoder=record.encoder, fingerprint=record.fingerprint,
        dimension=record.dimension, passage_tokens=record.splitting.get("tokens", 0),
        pending=documents.pop(PENDING, 0), documents=documents, passages=figures.passages, vectors=figures.vectors,
        vector_bytes=figures.vector_bytes, text_bytes=figures.text_bytes, index_state=keeper.state_on_disk(record),
        index_bytes=_size(keeper.path(record.id)), noise_level=record.noise_level,
        sources=[_source_status(source) for source in catalog.sources(record.id)],
        rebuilding=shadow.encoder if shadow is not None else None,
    )  # fmt: skip


def library_status(parts: Parts) -> LibraryStatus:
    """The figures of the whole library."""
    catalog = parts.catalog
    every = catalog.collections()
    files = {name: _size_with_log(catalog.folder / name) for name in ("library.db", "sessions.db", "slots.db")}
    files["index"] = sum(_size(parts.keeper.path(record.id)) for record in every)
    held = len(catalog.sessions()) if (catalog.folder / "sessions.db").exists() else 0
    statuses = [collection_status(parts, record) for record in shown(every)]
    return LibraryStatus(str(catalog.folder), catalog.read_only, statuses, files, held)


def remove(parts: Parts, path: Path | str, collections: Sequence[CollectionRecord]) -> int:
    """Erase what was indexed at `path`: a followed folder or file, or one inside; the number of documents.

    A file that is still there is left out of later runs; `slotrag index` with it by name follows it again.

    Raises
    ------
    slotrag.UsageError
        Nothing there is indexed or followed.
    """
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
    """Erase the vectors that nothing needs any more, also those in the index files."""
    parts.catalog.prune_vectors()
    current = {record.id: record for record in parts.catalog.collections()}
    for record in collections:
        parts.keeper.refresh(current[record.id])


def examine(parts: Parts, models: ModelStore, *, fix: bool) -> list[Finding]:
    """Look at everything that can be wrong with a library; with `fix` put right what can be. The caller holds the lock
    when `fix` is set."""
    findings = list(_integrity(parts, fix))
    if any(finding.command == _START_AGAIN for finding in findings):
        return findings  # what such a file says of its rows is worth nothing
    findings += [
        *(finding for record in parts.catalog.collections() for finding in _index_file(parts, record, fix)),
        *_leftovers(parts, fix),
        *(finding for record in shown(parts.catalog.collections()) for finding in _collection(parts, record, models)),
        *_decoder(parts, models),
    ]
    if fix and not pending(parts.catalog) and (erased := parts.catalog.prune_vectors()):
        findings.append(Finding("vectors", "warning", f"{erased} vectors that no passage needs were erased.", True))
    return findings


def _integrity(parts: Parts, fix: bool) -> Iterator[Finding]:
    catalog = parts.catalog
    problems = catalog.integrity_check(full=True)
    if not problems:
        yield Finding("database", "ok", "The databases are whole.")
    torn = [line for line in problems if not line.startswith("collection ") and "refers to nothing" not in line]
    mendable = all(_OF_SQLITE_INDEX.search(line) for line in torn)
    if torn and mendable and fix:
        catalog.reindex()
    left = set(catalog.integrity_check(full=True)) if torn and fix else set(torn)
    for line in torn:
        command = "slotrag doctor --fix" if mendable and not fix else _START_AGAIN
        yield Finding("database", "error", line, line not in left, command if line in left else "")
    if torn and not mendable:
        return
    yield from _rows(parts, fix)


def _rows(parts: Parts, fix: bool) -> Iterator[Finding]:
    """Rows that do not belong together, passages that lack a vector or their words."""
    catalog = parts.catalog
    command = "" if fix else "slotrag doctor --fix"
    for name, count in catalog.orphans().items():
        yield Finding("orphans", "error", f"{count} rows of {name} refer to rows that are not there.", fix, command)
    if fix and catalog.orphans():
        catalog.erase_orphans()
    for record in catalog.collections():
        incomplete = catalog.incomplete_documents(record.id)
        if incomplete:
            message = f"{len(incomplete)} documents of collection {record.name} have lost passages"
            if fix:
                catalog.forget_content(incomplete, PENDING, "it has lost passages")
            again = f"slotrag index --collection {record.name}" if fix else command
            yield Finding("documents", "error", f"{message}; they are read anew by the next run.", fix, again)
        if catalog.lexical_damage(record.id):
            if fix:
                catalog.rebuild_lexical(record.id)
            message = f"The lexical index of collection {record.name} does not hold the words of its passages."
            yield Finding("words", "error", message, fix, command)
        lacking = _without_vector(catalog, record)
        if len(lacking):
            if fix:
                _encode(parts, record, lacking)
            message = f"{len(lacking)} passages of collection {record.name} have no stored vector."
            yield Finding("vectors", "error", message, fix, command)


def _without_vector(catalog: Catalog, record: CollectionRecord) -> np.ndarray:
    held = [ids for ids, _ in catalog.vectors(record.id)]
    wanted = catalog.passage_ids(record.id)
    return np.setdiff1d(wanted, np.concatenate(held), assume_unique=True) if held else wanted


def _encode(parts: Parts, record: CollectionRecord, passage_ids: np.ndarray) -> None:
    encoder = parts.shelf.of(record)
    for at in range(0, len(passage_ids), BATCH_TEXTS):
        passages = parts.catalog.passages(passage_ids[at : at + BATCH_TEXTS].tolist())
        texts = {passage.input_hash: encoder_input(passage.context, passage.text) for passage in passages}
        vectors = encoder.encode_documents(list(texts.values()))
        parts.catalog.put_vectors(encoder.fingerprint, list(texts), vectors)
    parts.keeper.forget(record.id)


def _index_file(parts: Parts, record: CollectionRecord, fix: bool) -> Iterator[Finding]:
    problem = parts.keeper.problem(record)
    if problem is None:
        yield Finding("index", "ok", f"The index file of collection {record.name} holds its passages.")
        return
    if fix:
        parts.keeper.forget(record.id, delete=True)
        parts.keeper.refresh(record)
    message = f"The index file of collection {record.name} is not usable as it is: {problem}."
    yield Finding("index", "warning", message, fix, "" if fix else "slotrag doctor --fix")


def _leftovers(parts: Parts, fix: bool) -> Iterator[Finding]:
    """Files of killed runs and of removed collections."""
    folder = parts.catalog.folder
    known = {parts.keeper.path(record.id) for record in parts.catalog.collections()}
    stale = [path for path in folder.glob("collection-*.index") if path not in known]
    now = time.time()
    stale += [path for path in folder.glob("*.part") if fix or now - path.stat().st_mtime > _STALE_SECONDS]
    for path in stale:
        if fix:
            path.unlink(missing_ok=True)
        message = f"{path.name} is left over from an interrupted run."
        yield Finding("files", "warning", message, fix, "" if fix else "slotrag doctor --fix")


def _collection(parts: Parts, record: CollectionRecord, models: ModelStore) -> Iterator[Finding]:
    catalog = parts.catalog
    for source in catalog.sources(record.id):
        if not Path(source.path).exists():
            message = f"The folder {source.path} of collection {record.name} is not there; its documents are kept."
            yield Finding("sources", "warning", message, command=f"slotrag remove {source.path}")
    waiting = len(catalog.documents(record.id, statuses=[PENDING]))
    if waiting:
        message = f"{waiting} files of collection {record.name} wait to be read."
        yield Finding("pending", "warning", message, command=f"slotrag index --collection {record.name}")
    yield from _encoder(parts, record, models)


def _encoder(parts: Parts, record: CollectionRecord, models: ModelStore) -> Iterator[Finding]:
    from ..encoders.spec import EncoderSpec

    backbone = EncoderSpec.parse(record.encoder).backbone
    if backbone is not None and not models.present(backbone):
        message = f"The model {backbone} of collection {record.name} is not on this machine."
        yield Finding("models", "warning", message, command=f"slotrag models pull {backbone}")
        return
    try:
        if not parts.shelf.verified(record):
            parts.shelf.of(record)
    except SlotragError as error:
        yield Finding("encoder", "error", str(error))
    else:
        yield Finding("encoder", "ok", f"The encoder of collection {record.name} is the one it was made with.")


def _decoder(parts: Parts, models: ModelStore) -> Iterator[Finding]:
    name = parts.settings.decoder
    if not models.present(name):
        message = f"The decoder {name} is not on this machine; it is fetched with the first question."
        yield Finding("models", "warning", message, command=f"slotrag models pull {name}")


def _source_status(source: SourceRecord) -> SourceStatus:
    return SourceStatus(source.path, source.include, source.exclude, source.hidden, Path(source.path).exists())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _size_with_log(path: Path) -> int:
    return _size(path) + _size(path.with_name(path.name + "-wal"))
