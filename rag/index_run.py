"""One indexing run from paths to a saved index: lock, collection, sources, scan, indexer, noise level, index file.

It knows how the parts are put together; each part's work is its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import UsageError
from ..encoders import registry
from ..storage.errors import UnknownCollection
from ..storage.records import CollectionRecord
from .encoder_shelf import EncoderShelf, require_same, require_same_splitting, splitting_for
from .errors import NothingToIndex
from .events import CancelToken, Progress, ProgressListener
from .folders import SourceMissing
from .indexing import Indexer
from .language_share import main_language, multilingual_notice
from .locking import WriterLock
from .noise import noise_level, questions
from .planning import plan
from .postprocessing import ENCODER, suggested, to_store
from .results import IndexReport
from .scanning import PENDING, SEARCHABLE, ReaderVersions, Scan, Scanner
from .sources import Target, targets
from .training.run_places import erase_stale
from .vectors import IndexKeeper

if TYPE_CHECKING:
    from ..encoders.base import Encoder
    from ..storage import Catalog
    from .settings import Settings

HIDDEN_PREFIX = "."
"""Collections whose name begins so are being made and not shown."""

DEFAULT_COLLECTION = "default"
_NAME_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Parts:
    """What runs on a library share."""

    catalog: Catalog
    keeper: IndexKeeper
    shelf: EncoderShelf
    settings: Settings

    def encoder(self, collection: CollectionRecord) -> Encoder:
        """A collection's encoder, giving the vectors that the collection compares: post-processed.

        Raises
        ------
        FingerprintMismatch, PostprocessingLost
        """
        return self.keeper.encoder(collection, self.shelf.of(collection))


@dataclass(slots=True)
class IndexRun:
    """An indexing run into one collection.

    Attributes
    ----------
    collection : str or None
        Made when there is none of that name; None is the default one.
    encoder : str or None
        Spec for a new collection; an existing one must have been made with the same.
    """

    parts: Parts
    collection: str | None = None
    encoder: str | None = None
    listener: ProgressListener | None = None
    cancel: CancelToken | None = None

    def run(
        self,
        paths: Sequence[Path | str],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        hidden: bool = False,
        dry_run: bool = False,
        wait: bool = True,
        required: bool = True,
    ) -> IndexReport:
        """Bring the collection up to date with `paths`, or with all its sources.

        Parameters
        ----------
        required : bool
            Whether a named source that is not there is an error, or a notice as for one that is not named.

        Raises
        ------
        slotrag.UsageError, NothingToIndex, FingerprintMismatch, LibraryLocked, Cancelled
        SourceMissing
            A named folder, or every followed one, is not there.
        """
        started = time.perf_counter()
        folder = self.parts.catalog.folder
        lock = WriterLock(folder, wait=wait, listener=self.listener, cancel=self.cancel)
        with nullcontext() if dry_run else lock:
            existing = self._existing()
            followed = self.parts.catalog.sources(existing.id) if existing is not None else []
            wanted = targets(paths, followed, include=include, exclude=exclude, hidden=hidden)
            if not wanted:
                raise NothingToIndex("No folder is followed yet; name one: slotrag index FOLDER")
            report = IndexReport(existing.name if existing is not None else self.collection or DEFAULT_COLLECTION)
            if existing is not None:
                self._require_same(existing)
            else:
                registry.check(self.encoder or self.parts.settings.encoder)
            scan = self.scan(existing, wanted)
            self._note_missing(scan, existing, named=bool(paths) and required, report=report)
            if any(target.changed for target in wanted) or dry_run:
                _note_left_out(scan)
            if dry_run:
                plan(scan, report, listener=self.listener, cancel=self.cancel)
            else:
                collection = existing or self._created()
                forward = self.parts.shelf.forward_seconds(collection.encoder)
                self.apply(collection, wanted, scan, report)
                report.forward_seconds = self.parts.shelf.forward_seconds(collection.encoder) - forward
        report.seconds = time.perf_counter() - started
        return report

    def scan(self, collection: CollectionRecord | None, wanted: Sequence[Target]) -> Scan:
        """Compare the sources with the collection."""
        catalog = self.parts.catalog
        scanner = Scanner(
            catalog.documents(collection.id) if collection is not None else [],
            nested=[target.path for target in wanted]
            + ([source.path for source in catalog.sources(collection.id)] if collection is not None else []),
            library=catalog.folder,
            readers=ReaderVersions.now(),
            listener=self.listener,
            cancel=self.cancel,
        )
        return scanner.scan(wanted)

    def apply(
        self, collection: CollectionRecord, wanted: Sequence[Target], scan: Scan, report: IndexReport
    ) -> CollectionRecord:
        """Store what the scan found and finish the collection. The caller holds the lock."""
        catalog, shelf = self.parts.catalog, self.parts.shelf
        sources = [self._source(collection, target) for target in wanted]
        indexer = Indexer(
            catalog,
            collection,
            sources,
            limit=collection.splitting["tokens"],
            readers=ReaderVersions.now(),
            encoder=lambda: shelf.of(collection),
            report=report,
            listener=self.listener,
            cancel=self.cancel,
        )
        indexer.apply(scan)
        for target in wanted:
            for record in target.absorbed:
                catalog.remove_source(record.id)
        for number in scan.ended:
            catalog.remove_source(sources[number])
        return self.finish(collection, report)

    def finish(self, collection: CollectionRecord, report: IndexReport) -> CollectionRecord:
        """Drop vectors that nothing needs, bring the index file up to date, measure the noise level."""
        catalog, keeper = self.parts.catalog, self.parts.keeper
        before = collection.state
        collection = next(record for record in catalog.collections() if record.id == collection.id)
        changed = collection.state != before
        language = main_language(catalog, collection) if changed or collection.noise_level is None else ""
        if changed:
            report.notices += multilingual_notice(collection, language)
        _forget_in_shadow(catalog, collection)
        # Perhaps of a run that was killed. What another run has encoded and not stored yet is kept, unless that would
        # keep what was removed.
        if catalog.has_leftovers(removed=True) or (catalog.has_leftovers() and not pending(catalog)):
            catalog.prune_vectors()
        erase_stale(catalog)
        key = self.parts.shelf.key(collection.encoder)
        if key is not None and collection.splitting.get("verified") != key:
            collection = catalog.update_collection(collection.id, splitting={**collection.splitting, "verified": key})
        if self.listener is not None:
            self.listener(Progress("index", 0, None, "passages", "bringing the index up to date"))
        report.notices += keeper.refresh(collection)
        report.passages = len(catalog.passage_ids(collection.id))
        # Without new texts the encoder was not needed; it is not loaded for a level that hardly moves.
        if report.passages and ((changed and report.encoded) or collection.noise_level is None):
            collection = self._measured(collection, language)
        return collection

    def _existing(self) -> CollectionRecord | None:
        if self.collection is not None:
            check_name(self.collection)
        try:
            return self.parts.catalog.collection(self.collection)
        except UnknownCollection:
            return None

    def _created(self) -> CollectionRecord:
        encoder = self.parts.shelf.get(self.encoder or self.parts.settings.encoder)
        return create_collection(self.parts, self.collection or DEFAULT_COLLECTION, encoder)

    def _require_same(self, collection: CollectionRecord) -> None:
        """Refuse another encoder or splitting, without building an encoder where the model's files tell enough."""
        shelf = self.parts.shelf
        if self.encoder is not None and self.encoder != collection.encoder:
            require_same(collection, shelf.get(self.encoder))
        elif not shelf.verified(collection):
            shelf.of(collection)
        require_same_splitting(collection, self.parts.settings.passage_tokens)

    def _source(self, collection: CollectionRecord, target: Target) -> int:
        if target.record is not None and not target.changed:
            return target.record.id
        record = self.parts.catalog.put_source(
            collection.id, target.path, include=target.include, exclude=target.exclude, hidden=target.hidden
        )
        return record.id

    def _note_missing(
        self, scan: Scan, collection: CollectionRecord | None, *, named: bool, report: IndexReport
    ) -> None:
        for target in scan.missing:
            held = 0
            if collection is not None and target.record is not None:
                documents = self.parts.catalog.documents(collection.id, source_id=target.record.id)
                held = sum(document.status in SEARCHABLE for document in documents)
            sentence = (
                f"The followed folder {target.path} is not there (is its disk connected?); its {held} documents are "
                f"kept, and `slotrag remove {target.path}` forgets them."
            )
            if named:
                raise SourceMissing(sentence)
            report.notices.append(sentence)

    def _measured(self, collection: CollectionRecord, language: str) -> CollectionRecord:
        asked = self.parts.encoder(collection).encode_queries(questions(language))
        found, _ = self.parts.keeper.search(collection, asked, 1)
        level = noise_level([float(scores[0]) for _, scores in found if len(scores)])
        return self.parts.catalog.update_collection(collection.id, noise_level=level)


def create_collection(parts: Parts, name: str, encoder: Encoder) -> CollectionRecord:
    """Make an empty collection under `encoder`, split as the settings say, with the post-processing that the encoder
    brings along and with its index file."""
    own = suggested(encoder)
    record = parts.catalog.create_collection(
        name,
        encoder=encoder.spec,
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        splitting=splitting_for(encoder, parts.settings.passage_tokens),
        postprocessing=to_store(own, ENCODER) if own is not None else None,
    )
    parts.keeper.begin(record)
    return record


def shadow_name(record: CollectionRecord) -> str:
    """Name of the collection in which `rebuild` makes `record` anew."""
    return f"{HIDDEN_PREFIX}rebuild-{record.id}"


def shadow_of(catalog: Catalog, record: CollectionRecord) -> CollectionRecord | None:
    """The unfinished collection in which `record` is being made anew, if there is one."""
    name = shadow_name(record)
    return next((other for other in catalog.collections() if other.name == name), None)


def pending(catalog: Catalog) -> int:
    """Files of all collections that a run has found and not read yet."""
    return sum(len(catalog.documents(record.id, statuses=[PENDING])) for record in catalog.collections())


def _forget_in_shadow(catalog: Catalog, record: CollectionRecord) -> None:
    """Take out of an interrupted rebuild what is no more as it read it: going on with it reads that anew."""
    shadow = shadow_of(catalog, record)
    if shadow is None:
        return
    current = {(document.path, document.content_hash) for document in catalog.documents(record.id)}
    read = [document for document in catalog.documents(shadow.id) if document.status != PENDING]
    catalog.remove_documents([d.id for d in read if (d.path, d.content_hash) not in current])


def check_name(name: str) -> None:
    """Refuse a name that no collection can have.

    Raises
    ------
    slotrag.UsageError
        It is empty, long, begins with a dot, or holds control characters or outer white space.
    """
    if not name or name != name.strip() or len(name) > _NAME_LENGTH or not name.isprintable():
        raise UsageError(f"{name!r} cannot be a collection's name; use up to {_NAME_LENGTH} printable characters.")
    if name.startswith(HIDDEN_PREFIX):
        raise UsageError(f"A collection's name cannot begin with a dot; choose another than {name!r}.")


def _note_left_out(scan: Scan) -> None:
    counts = [f"{count} {reason}" for reason, count in sorted(scan.left_out.items())]
    if counts:
        scan.notices.append(f"Left out by rule: {', '.join(counts)}.")
