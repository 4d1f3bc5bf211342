"""Whether a library is whole, and repairs: databases, rows, words, vectors, index files, sources, models.

It mends what the library itself can make anew. What only the documents' files hold is left to the next indexing run.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import SlotragError
from ..storage.records import CollectionRecord
from .index_run import Parts, pending
from .indexing import BATCH_TEXTS
from .maintenance import shown
from .passages import encoder_input
from .postprocessing import PostprocessingLost
from .refitting import Refit
from .scanning import PENDING
from .training.run_places import erase_stale, stale

if TYPE_CHECKING:
    from ..encoders.backbones.store import ModelStore
    from ..storage import Catalog

_STALE_SECONDS = 3600
_STATUSES = ("indexed", "partial_text", "no_text", "failed", "skipped")
_INDEX_FILE = re.compile(r"collection-\d+(\.\d+)?\.index(\.\w+\.part)?")
_OF_SQLITE_INDEX = re.compile("(missing from|entries in) index")
_START_AGAIN = "restore library.db from a backup, or delete it and run slotrag index again"


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


def examine(parts: Parts, models: ModelStore, *, fix: bool) -> list[Finding]:
    """Look at everything that can be wrong with a library; with `fix` put right what can be. The caller holds the lock
    when `fix` is set."""
    findings = list(_integrity(parts, fix))
    if any(finding.command == _START_AGAIN for finding in findings):
        return findings  # what such a file says of its rows is worth nothing
    findings += [
        *(finding for record in parts.catalog.collections() for finding in _postprocessing(parts, record, fix)),
        *(finding for record in _readable(parts.catalog) for finding in _index_file(parts, record, fix)),
        *_leftovers(parts, fix),
        *_states(parts, fix),
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
        for ids, problem in (
            (catalog.incomplete_documents(record.id), "have lost passages"),
            (catalog.altered_documents(record.id), "hold passages that are not as they were stored"),
            (catalog.unknown_statuses(record.id, (PENDING, *_STATUSES)), "are in a state that there is not"),
        ):
            if ids:
                if fix:
                    catalog.forget_content(ids, PENDING, f"doctor found that its documents {problem}")
                again = f"slotrag index --collection {shlex.quote(record.name)}" if fix else command
                message = f"{len(ids)} documents of collection {record.name} {problem}; the next run reads them anew."
                yield Finding("documents", "error", message, fix, again)
        if catalog.lexical_damage(record.id):
            if fix:
                catalog.rebuild_lexical(record.id)
            message = f"The lexical index of collection {record.name} does not hold the words of its passages."
            yield Finding("words", "error", message, fix, command)
        broken = catalog.broken_vectors(record.id)
        if broken:
            if fix:
                catalog.erase_vectors(broken)
                parts.keeper.forget(record.id)
            message = (
                f"{len(broken)} stored vectors of collection {record.name} are broken; their texts are encoded anew."
            )
            yield Finding("vectors", "error", message, fix, command)
            if not fix:
                continue
        lacking = _without_vector(catalog, record)
        if len(lacking):
            if fix:
                _encode(parts, record, lacking)
            message = f"{len(lacking)} passages of collection {record.name} have no stored vector."
            yield Finding("vectors", "error", message, fix, command)


def _readable(catalog: Catalog) -> list[CollectionRecord]:
    """The collections whose vectors can be read, so that an index file can be compared with them."""
    return [record for record in catalog.collections() if not catalog.broken_vectors(record.id)]


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


def _postprocessing(parts: Parts, record: CollectionRecord, fix: bool) -> Iterator[Finding]:
    """Statistics that are lost are fitted anew where the steps are known; otherwise the vectors go without."""
    try:
        parts.keeper.postprocessings.of(record)
    except PostprocessingLost as error:
        refit = Refit(parts)
        steps = refit.steps_of(record)
        told = f"{str(error).partition(': run')[0]}; {f'{steps} is fitted anew' if steps else 'it goes without'}."
        if not fix:
            yield Finding("postprocessing", "error", told, command="slotrag doctor --fix")
            return
        try:
            _, notices = refit.run(record, steps)
        except SlotragError as failure:
            command = f"slotrag rebuild --collection {shlex.quote(record.name)} --postprocessing none"
            yield Finding("postprocessing", "error", f"{told} That failed: {failure}", command=command)
        else:
            yield Finding("postprocessing", "error", " ".join([told, *notices]), True)
    else:
        if record.postprocessing:
            message = f"The post-processing of collection {record.name} has its statistics."
            yield Finding("postprocessing", "ok", message)


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
    known = {parts.keeper.path(record) for record in parts.catalog.collections()}
    ours = [path for path in folder.iterdir() if path not in known and _INDEX_FILE.fullmatch(path.name)]
    now = time.time()
    for path in sorted(ours):
        if path.suffix == ".part" and now - path.stat().st_mtime <= _STALE_SECONDS:
            continue  # a run may be writing it
        if fix:
            path.unlink(missing_ok=True)
        message = f"{path.name} is left over from an interrupted run."
        yield Finding("files", "warning", message, fix, "" if fix else "slotrag doctor --fix")


def _states(parts: Parts, fix: bool) -> Iterator[Finding]:
    """States of texts, of interrupted trainings whose collection has changed since or is no more."""
    catalog = parts.catalog
    for path in erase_stale(catalog) if fix else stale(catalog):
        message = f"{path} holds states of texts that are no more, of an interrupted training."
        yield Finding("training", "warning", message, fix, "" if fix else "slotrag doctor --fix")


def _collection(parts: Parts, record: CollectionRecord, models: ModelStore) -> Iterator[Finding]:
    catalog = parts.catalog
    for source in catalog.sources(record.id):
        if not Path(source.path).exists():
            message = f"The folder {source.path} of collection {record.name} is not there; its documents are kept."
            yield Finding("sources", "warning", message, command=f"slotrag remove {source.path}")
    yield from _unfollowed(catalog, record)
    waiting = len(catalog.documents(record.id, statuses=[PENDING]))
    if waiting:
        message = f"{waiting} files of collection {record.name} wait to be read."
        yield Finding("pending", "warning", message, command=f"slotrag index --collection {record.name}")
    yield from _encoder(parts, record, models)


def _unfollowed(catalog: Catalog, record: CollectionRecord) -> Iterator[Finding]:
    """Documents that no run looks at, since what was followed is lost; a finding for each such folder."""
    lost: dict[str, int] = {}
    for document in catalog.documents(record.id):
        if document.source_id is None:
            folder = document.path.removesuffix(document.relative_path).rstrip(os.sep) or os.sep
            lost[folder] = lost.get(folder, 0) + 1
    for folder, count in sorted(lost.items()):
        message = (
            f"{count} documents of collection {record.name} lie in {folder}, which is not followed any more: they are "
            f"found, but no run brings them up to date. Index the folder again (--include, --exclude and --hidden that "
            f"it had are lost), or forget them with `slotrag remove {shlex.quote(folder)}`."
        )
        command = f"slotrag index {shlex.quote(folder)} --collection {shlex.quote(record.name)}"
        yield Finding("sources", "warning", message, command=command)


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
