"""What changed in the sources since they were indexed: sizes and times first, then content. It writes nothing.

A file whose size, times and number are the stored ones is not opened. One whose content a vanished document had is that
document, renamed. Reading and splitting are for others.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from .. import UsageError
from ..storage.records import DocumentRecord, FileStamp
from .events import CancelToken, Progress, ProgressListener
from .folders import FoundFile, SourceMissing, walk
from .results import SkippedFile
from .sources import Target, inside

PENDING = "pending"
"""Status of a document that a run has found and not read yet."""

SEARCHABLE = ("indexed", "partial_text")
"""Statuses of documents that have passages."""

_RECENT_NANOSECONDS = 2_000_000_000
_REPORT_EVERY = 200
_HASH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Work:
    """A file to be read.

    Attributes
    ----------
    target : int
        Position of its source among the scan's targets.
    content_hash : bytes or None
        None where the file could not be read.
    stamp : FileStamp
        To be stored: with ``mtime_ns`` 0 where the file changed so recently that its times do not yet tell the next
        change.
    previous : DocumentRecord or None
        What stood for the file before.
    action : str
        ``new``, ``updated`` or ``renamed``.
    """

    target: int
    file: FoundFile
    content_hash: bytes | None
    stamp: FileStamp
    previous: DocumentRecord | None
    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rename:
    """A document that another path stands for now."""

    document: DocumentRecord
    target: int
    file: FoundFile
    stamp: FileStamp
    counted: bool
    """False where only the source that follows the file is another one."""


@dataclass(slots=True)
class Scan:
    """The difference between the sources and the catalog."""

    unchanged: list[DocumentRecord] = field(default_factory=list)
    touched: list[tuple[DocumentRecord, FileStamp]] = field(default_factory=list)
    renames: list[Rename] = field(default_factory=list)
    work: list[Work] = field(default_factory=list)
    removed: list[DocumentRecord] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    missing: list[Target] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    """Positions of the targets that are a single file which is no more, or which its own rules leave out."""


@dataclass(frozen=True, slots=True)
class ReaderVersions:
    """Which readers are installed, to tell whether a file would be read as it was.

    Attributes
    ----------
    installed : dict of str to str
        ``NAME/VERSION`` by name.
    unread : str
        What stands for the reader of a file that none could read; another one after any change of the readers.
    """

    installed: Mapping[str, str]
    unread: str

    @classmethod
    def now(cls) -> ReaderVersions:
        """Those of this installation."""
        from .readers import READERS_VERSION
        from .readers.registry import readers

        return cls({name: f"{name}/{reader.version}" for name, reader in readers().items()}, f"none/{READERS_VERSION}")

    def current(self, reader: str) -> bool:
        """Whether what `reader` made is what would be made now; a reader that is not there now is taken at its word."""
        name = reader.split("/")[0]
        return reader == self.installed.get(name, reader if name != "none" else self.unread)


class Scanner:
    """Walks targets and compares what is there with a collection's documents.

    Parameters
    ----------
    documents : sequence of DocumentRecord
        All documents of the collection.
    nested : sequence of str
        Paths of all followed sources: a file below an inner one is left to that one.
    library : Path
        The library's own folder, which is never indexed.
    readers : ReaderVersions
        A document that another version of its reader read is read anew.
    """

    def __init__(
        self,
        documents: Sequence[DocumentRecord],
        *,
        nested: Sequence[str],
        library: Path,
        readers: ReaderVersions,
        listener: ProgressListener | None = None,
        cancel: CancelToken | None = None,
    ) -> None:
        self._documents = {document.path: document for document in documents}
        self._nested = list(nested)
        self._library = os.path.realpath(library)
        self._readers = readers
        self._listener = listener
        self._cancel = cancel
        self._seen = 0

    def scan(self, targets: Sequence[Target]) -> Scan:
        """Compare. A source that is missing as a whole is noted and its documents are left alone."""
        scan = Scan()
        found: dict[str, tuple[int, FoundFile]] = {}
        unreadable: list[str] = []
        walked: list[Target] = []
        for number, target in enumerate(targets):
            try:
                items = self._walk(number, target, scan)
            except SourceMissing:
                if self._deleted_file(target):
                    walked.append(target)
                    scan.ended.append(number)
                else:
                    scan.missing.append(target)
                continue
            walked.append(target)
            if not items and target.below is None and os.path.isfile(target.path):  # noqa: PTH113
                scan.ended.append(number)
            for item in items:
                if isinstance(item, SkippedFile):
                    if item.failed:
                        unreadable.append(item.path)
                    scan.skipped.append(item)
                else:
                    found.setdefault(item.path, (number, item))
        vanished = self._vanished(walked, found, unreadable)
        for target in walked:
            self._check_part(target, found, vanished, scan)
        self._compare(found, vanished, targets, scan)
        return scan

    def _walk(self, number: int, target: Target, scan: Scan) -> list[FoundFile | SkippedFile]:
        absorbed = {record.path for record in target.absorbed}
        inner = [path for path in self._nested if path not in absorbed and inside(path, target.path)]
        inner.append(self._library)
        found: list[FoundFile | SkippedFile] = []
        rules = {"include": target.include, "exclude": target.exclude, "hidden": target.hidden}
        for item in walk(Path(target.path), **rules, left_out=scan.left_out):
            self._tick(item.path)
            if any(item.path == path or inside(item.path, path) for path in inner):
                continue
            if target.below is None or item.path == target.below or inside(item.path, target.below):
                found.append(item)
        return found

    @staticmethod
    def _check_part(
        target: Target, found: dict[str, tuple[int, FoundFile]], vanished: Sequence[DocumentRecord], scan: Scan
    ) -> None:
        """Say so when a part of a source that was asked for is not there or left out by the source's rules."""
        below = target.below
        if below is None or any(path == below or inside(path, below) for path in (*found, *map(_path, vanished))):
            return
        if not os.path.lexists(below):
            raise UsageError(f"There is no file or folder {below}; check the spelling.")
        scan.notices.append(
            f"Nothing in {below} is indexed: the rules of the folder {target.path}, which is followed, leave it out; "
            "name it with --include or --hidden to follow it by rules of its own."
        )

    def _deleted_file(self, target: Target) -> bool:
        """Whether a followed file was deleted, rather than its disk taken away."""
        if target.path not in self._documents or os.path.lexists(target.path):
            return False
        try:
            return any(os.scandir(os.path.dirname(target.path)))  # noqa: PTH120
        except OSError:
            return False

    def _vanished(
        self, walked: Sequence[Target], found: dict[str, tuple[int, FoundFile]], unreadable: Sequence[str]
    ) -> list[DocumentRecord]:
        """Documents of the walked sources whose files are not there any more."""
        sources: dict[int | None, list[str | None]] = defaultdict(list)
        for target in walked:
            for record in (target.record, *target.absorbed):
                if record is not None:
                    sources[record.id].append(target.below)
        gone = []
        for document in self._documents.values():
            if document.path in found or document.source_id not in sources:
                continue
            below = sources[document.source_id]
            if not any(b is None or document.path == b or inside(document.path, b) for b in below):
                continue
            if not any(document.path == path or inside(document.path, path) for path in unreadable):
                gone.append(document)
        return gone

    def _compare(
        self,
        found: dict[str, tuple[int, FoundFile]],
        vanished: Sequence[DocumentRecord],
        targets: Sequence[Target],
        scan: Scan,
    ) -> None:
        now = time.time_ns()
        changed: list[Work] = []
        for number, file in found.values():
            document = self._documents.get(file.path)
            if document is not None and self._same_stamp(document, file):
                self._keep(document, number, file, document.stamp, targets, scan)
                continue
            self._tick(file.path)
            # A file that changes again within the clock's step would keep its size and times: 0 never matches.
            recent = now - max(file.mtime_ns, file.ctime_ns) < _RECENT_NANOSECONDS
            stamp = replace(file.stamp, mtime_ns=0) if recent else file.stamp
            digest, problem = content_hash(file.path, self._raise_if_cancelled)
            if digest is None and not os.path.lexists(file.path):
                # Gone since it was found. A document of it waits for the next look: perhaps the whole disk is gone.
                if document is not None:
                    scan.unchanged.append(document)
                continue
            if document is not None and digest is not None and self._same_content(document, digest):
                scan.touched.append((document, stamp))
                self._keep(document, number, file, stamp, targets, scan, touched=True)
                continue
            action, reason = _why(document, digest, problem, self._readers)
            changed.append(Work(number, file, digest, stamp, document, action, reason))
        self._match_renames(changed, vanished, scan)

    def _same_stamp(self, document: DocumentRecord, file: FoundFile) -> bool:
        return (
            document.ctime_ns is not None  # of a version that did not know it, which may have missed a change
            and document.stamp.same(file.stamp)
            and document.content_hash is not None
            and self._read_before(document)
        )

    def _same_content(self, document: DocumentRecord, digest: bytes) -> bool:
        return document.content_hash == digest and self._read_before(document)

    def _read_before(self, document: DocumentRecord) -> bool:
        return document.status != PENDING and self._readers.current(document.reader)

    @staticmethod
    def _keep(
        document: DocumentRecord,
        number: int,
        file: FoundFile,
        stamp: FileStamp,
        targets: Sequence[Target],
        scan: Scan,
        touched: bool = False,
    ) -> None:
        if document.status not in SEARCHABLE:
            scan.skipped.append(SkippedFile(document.path, document.reason, failed=document.status == "failed"))
        if not touched:
            scan.unchanged.append(document)
        record = targets[number].record
        if record is None or record.id != document.source_id:
            scan.renames.append(Rename(document, number, file, stamp, counted=False))

    def _match_renames(self, changed: Sequence[Work], vanished: Sequence[DocumentRecord], scan: Scan) -> None:
        """Give files whose content a freed document had to that document; the rest is to be read."""
        free: dict[bytes, list[DocumentRecord]] = defaultdict(list)
        overwritten = [work.previous for work in changed if work.previous is not None]
        elsewhere = self._gone_elsewhere({*map(_path, vanished), *map(_path, overwritten)}, changed)
        for document in (*vanished, *overwritten, *elsewhere):
            if document.content_hash is not None and self._read_before(document):
                free[document.content_hash].append(document)
        moved: set[int] = set()
        unmatched: list[Work] = []
        for work in changed:
            same = free.get(work.content_hash, []) if work.content_hash is not None else []
            candidates = [d for d in same if d.status in SEARCHABLE or _suffix(d.path) == _suffix(work.file.path)]
            if not candidates:
                unmatched.append(work)
                continue
            same_name = [d for d in candidates if os.path.basename(d.path) == os.path.basename(work.file.path)]  # noqa: PTH119
            document = (same_name or candidates)[0]
            same.remove(document)
            moved.add(document.id)
            scan.renames.append(Rename(document, work.target, work.file, work.stamp, counted=True))
            if document.status not in SEARCHABLE:
                scan.skipped.append(SkippedFile(work.file.path, document.reason, failed=document.status == "failed"))
            if _suffix(document.path) != _suffix(work.file.path):
                reason = "renamed; another suffix may mean another reader"
                scan.work.append(
                    Work(work.target, work.file, work.content_hash, work.stamp, document, "renamed", reason)
                )
        for work in unmatched:
            taken = work.previous is not None and work.previous.id in moved
            scan.work.append(replace(work, previous=None, action="new", reason="not indexed before") if taken else work)
        read = {work.previous.id for work in scan.work if work.previous is not None}
        scan.removed = [d for d in (*vanished, *overwritten) if d.id not in moved and d.id not in read]

    def _gone_elsewhere(self, known: set[str], changed: Sequence[Work]) -> list[DocumentRecord]:
        """Documents of sources that were not walked whose files are gone: a file may have moved over from there."""
        wanted = {work.content_hash for work in changed}
        return [
            document
            for document in self._documents.values()
            if document.path not in known
            and document.content_hash in wanted
            and document.content_hash is not None
            and not os.path.lexists(document.path)
        ]

    def _tick(self, path: str) -> None:
        self._raise_if_cancelled()
        self._seen += 1
        if self._listener is not None and self._seen % _REPORT_EVERY == 1:
            self._listener(Progress("scan", self._seen, None, "files", path))

    def _raise_if_cancelled(self) -> None:
        if self._cancel is not None:
            self._cancel.raise_if_cancelled()


def content_hash(path: str, between: Callable[[], None] = lambda: None) -> tuple[bytes | None, str]:
    """sha256 of a file's bytes, or None and why it cannot be read; `between` is called after each megabyte."""
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as stream:
            while block := stream.read(_HASH_BYTES):
                digest.update(block)
                between()
    except OSError as error:
        return None, f"cannot be opened: {error.strerror or error}"
    return digest.digest(), ""


def _why(
    document: DocumentRecord | None, digest: bytes | None, problem: str, readers: ReaderVersions
) -> tuple[str, str]:
    if document is None:
        return "new", problem or "not indexed before"
    if document.status == PENDING:
        return "new", "an earlier run did not get to it"
    if document.status not in SEARCHABLE:
        return "new", problem or f"it could not be indexed before ({document.reason})"
    if digest is not None and document.content_hash == digest and not readers.current(document.reader):
        return "updated", "slotrag reads this kind of file in another way now"
    return "updated", problem or "its content changed"


def _path(document: DocumentRecord) -> str:
    return document.path


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()  # noqa: PTH122
