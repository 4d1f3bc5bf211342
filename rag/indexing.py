"""Applies a scan to a collection: reads, splits, encodes what has no vector yet, and stores whole documents.

It knows the encoder by its interface only. Vectors are committed batch by batch, documents in short transactions as
soon as all their vectors are there, so a killed run loses at most a batch and never shows half a document.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..storage.records import CollectionRecord, NewDocument, NewPassage
from .ahead import ahead
from .documents import Document, ReadError
from .encoding_watch import EncodingWatch
from .events import CancelToken, Progress, ProgressListener
from .folders import FoundFile
from .outcomes import REFUSALS, UNREAD, count_file, count_scan, refusal, unread_reason
from .passages import passages_of
from .results import IndexReport
from .scanning import PENDING, ReaderVersions, Rename, Scan, Work, content_hash

if TYPE_CHECKING:
    from ..encoders.base import Encoder
    from ..storage import Catalog

WINDOW_PASSAGES = 1024
"""Passages that are gathered over documents before those without a vector are sorted by length and encoded."""

FIRST_WINDOW_PASSAGES = 128
"""Size of a run's first window; the size doubles up to the full one. The encoder does not wait for much to be read."""

BATCH_TEXTS = 64
"""Texts that are given to the encoder, and whose vectors are committed, at once."""

TRANSACTION_PASSAGES = 512
"""Passages of documents that are stored in one transaction at most (a longer document has one of its own)."""

AHEAD_CHARACTERS = 4_000_000
"""Characters of documents that are read ahead of the encoder."""

_PENDING_CHUNK = 1000


@dataclass(slots=True)
class Prepared:
    """A file that has been read: the document to store, and what the encoder gets for each passage."""

    work: Work
    document: NewDocument | None
    inputs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problem: str = ""
    large: bool = False
    """Its passages are not here: the file is read in parts."""


class Indexer:
    """Brings one collection up to date with a scan. The caller holds the writer's lock.

    Parameters
    ----------
    sources : sequence of int
        Ids of the sources, by the position of the scan's targets.
    limit : int
        Most tokens of a passage.
    readers : ReaderVersions
    encoder : callable
        Gives the encoder; called only when there is something to encode or to split.
    """

    def __init__(
        self,
        catalog: Catalog,
        collection: CollectionRecord,
        sources: Sequence[int],
        *,
        limit: int,
        readers: ReaderVersions,
        encoder: Callable[[], Encoder],
        report: IndexReport,
        listener: ProgressListener | None = None,
        cancel: CancelToken | None = None,
    ) -> None:
        self._catalog, self._collection, self._sources = catalog, collection, sources
        self._limit, self._readers, self._encoder = limit, readers, encoder
        self._report, self._listener, self._cancel = report, listener, cancel
        self._done = 0
        self._total = 0
        self._bytes = 0
        self._watch = EncodingWatch(
            notice=lambda line: self._tell(Progress("estimate", message=line)),
            progress=lambda share, line: self._progress("encode", self._done, line),
            check=self._raise_if_cancelled,
        )

    def apply(self, scan: Scan) -> None:
        """Store the difference; `report` is counted up as it goes."""
        count_scan(self._report, scan)
        self._catalog.touch_documents([(document.id, stamp) for document, stamp in scan.touched])
        self._rename(scan.renames)
        self._catalog.remove_documents([document.id for document in scan.removed])
        if scan.work:
            self._read(scan.work)

    def _rename(self, renames: Sequence[Rename]) -> None:
        self._catalog.rename_documents(
            [(r.document.id, self._sources[r.target], r.file.path, r.file.relative_path, r.stamp) for r in renames]
        )

    def _read(self, works: Sequence[Work]) -> None:
        """Read, encode and store the files of `works`."""
        self._total = len(works)
        self._bytes = sum(work.file.size for work in works)
        self._note_pending([work for work in works if work.previous is None])
        encoder = self._encoder()
        window: list[Prepared] = []
        passages, size = 0, FIRST_WINDOW_PASSAGES
        reading = ahead(lambda work: self._prepare(work, encoder), works, weigh=_characters, budget=AHEAD_CHARACTERS)
        with closing(reading):
            for prepared in reading:
                self._raise_if_cancelled()
                self._progress("read", self._done + len(window), prepared.work.file.path)
                if prepared.large:
                    self._store_large(prepared, encoder)
                    continue
                window.append(prepared)
                passages += len(prepared.inputs)
                if passages >= size:
                    self._flush(window, encoder)
                    window, passages, size = [], 0, min(2 * size, WINDOW_PASSAGES)
            self._flush(window, encoder)

    def _note_pending(self, works: Sequence[Work]) -> None:
        """Let the catalog show what is still to be read, should this run not get to it."""
        for at in range(0, len(works), _PENDING_CHUNK):
            chunk = works[at : at + _PENDING_CHUNK]
            self._catalog.put_documents(
                self._collection.id, [self._new_document(work, status=PENDING, reason="not read yet") for work in chunk]
            )

    def _prepare(self, work: Work, encoder: Encoder) -> Prepared:
        """Read and split one file. Runs in another thread than the rest."""
        prepared = self._looked_into(work, encoder)
        if prepared.document is not None and not prepared.large and _changed(work.file):
            # What was read may be another content than the one that was hashed: the next run looks again.
            prepared.document = replace(prepared.document, content_hash=None, mtime_ns=0)
        return prepared

    def _looked_into(self, work: Work, encoder: Encoder) -> Prepared:
        from .readers import read_parts

        if work.content_hash is None:
            return self._unread(work, work.reason)
        try:
            parts = read_parts(Path(work.file.path))
            document = next(parts)
            if next(parts, None) is not None:
                return Prepared(work, self._read_document(work, document, []), notes=document.notes, large=True)
            passages, inputs = passages_of(document, encoder, self._limit)
        except REFUSALS as error:
            status, reason = refusal(error, work.file.path)
            if status == UNREAD:
                return self._unread(work, reason)
            return Prepared(work, self._new_document(work, status=status, reason=reason))
        if not passages:
            return Prepared(work, self._new_document(work, status="no_text", reason="no text in it"))
        return Prepared(work, self._read_document(work, document, passages), inputs, document.notes)

    def _store_large(self, prepared: Prepared, encoder: Encoder) -> None:
        """Read a file twice, part by part: first its texts are encoded, then the whole document is stored at once."""
        from .readers import read_parts

        work, path = prepared.work, Path(prepared.work.file.path)
        assert prepared.document is not None
        try:
            for document in read_parts(path):
                passages, inputs = passages_of(document, encoder, self._limit)
                texts = {passage.input_hash: text for passage, text in zip(passages, inputs, strict=True)}
                missing = self._without_vector(texts, encoder)
                self._watch.expect(missing.values(), self._bytes / max(sum(map(len, inputs)), 1))
                for _ in self._encode(missing, encoder):
                    self._progress("encode", self._done, f"{self._report.encoded:,} texts encoded")
            self._catalog.put_large_document(self._collection.id, prepared.document, self._stored_parts(work, encoder))
        except REFUSALS as error:  # it was changed since it was looked at
            prepared = self._unread(work, refusal(error, work.file.path)[1])
            self._store([prepared])
        else:
            self._count(prepared)
        self._done += 1

    def _stored_parts(self, work: Work, encoder: Encoder) -> Iterator[NewPassage]:
        """The passages of a large file; an error at the end where it is not the file that the scan saw."""
        from .readers import read_parts

        for document in read_parts(Path(work.file.path)):
            self._raise_if_cancelled()
            self._progress("read", self._done, f"storing {work.file.path}")
            yield from passages_of(document, encoder, self._limit)[0]
        if content_hash(work.file.path, self._raise_if_cancelled)[0] != work.content_hash:
            raise ReadError("it was changed while it was read; index again")

    def _unread(self, work: Work, problem: str) -> Prepared:
        """A file that cannot be opened: what was indexed of it earlier stays. Of one that is gone nothing is told."""
        if not os.path.lexists(work.file.path):
            return Prepared(work, None)
        if work.previous is not None:
            return Prepared(work, None, problem=unread_reason(work, problem))
        return Prepared(work, self._new_document(work, status="failed", reason=problem))

    def _read_document(self, work: Work, document: Document, passages: list[NewPassage]) -> NewDocument:
        status = "partial_text" if document.partial else "indexed"
        reason = "; ".join(document.notes) if document.partial else ""
        return self._new_document(
            work, status=status, reason=reason, title=document.title, media_type=document.media_type,
            reader=document.reader, passages=passages,
        )  # fmt: skip

    def _new_document(
        self,
        work: Work,
        *,
        status: str,
        reason: str,
        title: str = "",
        media_type: str = "",
        reader: str = "",
        passages: Sequence[NewPassage] = (),
    ) -> NewDocument:
        return NewDocument(
            source_id=self._sources[work.target],
            path=work.file.path,
            relative_path=work.file.relative_path,
            size=work.stamp.size,
            mtime_ns=work.stamp.mtime_ns,
            ctime_ns=work.stamp.ctime_ns,
            inode=work.stamp.inode,
            content_hash=work.content_hash,
            reader=reader or self._readers.unread,
            status=status,
            reason=reason,
            title=title,
            media_type=media_type,
            passages=list(passages),
        )

    def _missing(self, window: Sequence[Prepared], encoder: Encoder) -> dict[bytes, str]:
        """The different texts of the window that have no vector yet, by their hash."""
        texts = {
            passage.input_hash: text
            for prepared in window
            if prepared.document is not None
            for passage, text in zip(prepared.document.passages, prepared.inputs, strict=True)
        }
        return self._without_vector(texts, encoder)

    def _without_vector(self, texts: dict[bytes, str], encoder: Encoder) -> dict[bytes, str]:
        stored = self._catalog.stored_vectors(encoder.fingerprint, texts) if texts else set()
        return {key: text for key, text in texts.items() if key not in stored}

    def _encode(self, texts: dict[bytes, str], encoder: Encoder) -> Iterator[float]:
        """Encode texts and store their vectors batch by batch; yields the share that is done."""
        ordered = sorted(texts.items(), key=lambda item: len(item[1]), reverse=True)
        for at in range(0, len(ordered), BATCH_TEXTS):
            self._raise_if_cancelled()
            batch = ordered[at : at + BATCH_TEXTS]
            inputs = [text for _, text in batch]
            with self._watch.batch(inputs):
                vectors = encoder.encode_documents(inputs)
            self._catalog.put_vectors(encoder.fingerprint, [key for key, _ in batch], vectors)
            self._report.encoded += len(batch)
            yield (at + len(batch)) / len(ordered)

    def _flush(self, window: Sequence[Prepared], encoder: Encoder) -> None:
        """Encode what the window lacks and store its documents."""
        missing = self._missing(window, encoder)
        # How much the files still to be read hold is told by their sizes.
        self._watch.expect(missing.values(), self._bytes / max(sum(p.work.file.size for p in window), 1))
        for share in self._encode(missing, encoder):
            self._progress("encode", self._done + int(share * len(window)), f"{self._report.encoded:,} texts encoded")
        self._store(window)
        self._done += len(window)

    def _store(self, window: Sequence[Prepared]) -> None:
        group: list[NewDocument] = []
        size = 0
        for prepared in window:
            self._count(prepared)
            if prepared.document is None:
                continue
            passages = len(prepared.document.passages)
            if group and size + passages > TRANSACTION_PASSAGES:
                self._catalog.put_documents(self._collection.id, group)
                group, size = [], 0
            group.append(prepared.document)
            size += passages
        self._catalog.put_documents(self._collection.id, group)

    def _count(self, prepared: Prepared) -> None:
        document = prepared.document
        if document is None and not prepared.problem:
            return
        status, reason = (UNREAD, prepared.problem) if document is None else (document.status, document.reason)
        count_file(self._report, prepared.work, status, reason, prepared.notes)

    def _progress(self, stage: str, done: int, message: str) -> None:
        self._tell(Progress(stage, min(done, self._total), self._total, "files", message))

    def _tell(self, progress: Progress) -> None:
        if self._listener is not None:
            self._listener(progress)

    def _raise_if_cancelled(self) -> None:
        if self._cancel is not None:
            self._cancel.raise_if_cancelled()


def _characters(prepared: Prepared) -> int:
    return sum(map(len, prepared.inputs))


def _changed(file: FoundFile) -> bool:
    """Whether a file is not as it was found any more."""
    try:
        status = os.stat(file.path)  # noqa: PTH116 - the path keeps its own bytes
    except OSError:
        return True
    return not FoundFile.of(file.path, file.relative_path, status).stamp.same(file.stamp)
