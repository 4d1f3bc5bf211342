"""What a run would do, for ``--dry-run``: the files to be read are read, nothing is split, encoded or stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .events import CancelToken, Progress, ProgressListener
from .outcomes import REFUSALS, UNREAD, count_file, count_scan, refusal, unread_reason
from .results import IndexReport
from .scanning import SEARCHABLE, Scan, Work


def plan(
    scan: Scan, report: IndexReport, *, listener: ProgressListener | None = None, cancel: CancelToken | None = None
) -> None:
    """Count in `report` what applying `scan` would count, and give it the plan: (action, path, reason) of each file."""
    count_scan(report, scan)
    rows = list(_decided(scan))
    for number, work in enumerate(scan.work):
        if cancel is not None:
            cancel.raise_if_cancelled()
        if listener is not None:
            listener(Progress("read", number, len(scan.work), "files", work.file.path))
        status, reason, notes = _outcome(work)
        before = (report.new, report.updated)
        count_file(report, work, status, reason, notes)
        if status not in SEARCHABLE:
            rows.append(("skipped", work.file.path, reason))
        if (report.new, report.updated) != before:
            rows.append(("new" if report.new != before[0] else "updated", work.file.path, work.reason))
    report.planned = sorted(rows, key=lambda row: (row[1], row[0]))


def _decided(scan: Scan) -> Iterator[tuple[str, str, str]]:
    """The rows of what the scan decides without reading a file."""
    for skipped in scan.skipped:
        yield "skipped", skipped.path, skipped.reason
    for rename in scan.renames:
        if rename.counted and rename.document.status in SEARCHABLE:
            yield "renamed", rename.file.path, f"was {rename.document.path}"
    for reason, documents in (
        ("same size and time", scan.unchanged),
        ("same content", [document for document, _ in scan.touched]),
    ):
        yield from (("unchanged", document.path, reason) for document in documents if document.status in SEARCHABLE)
    for document in scan.removed:
        if document.status in SEARCHABLE:
            yield "removed", document.path, "it is not in the source any more"


def _outcome(work: Work) -> tuple[str, str, list[str]]:
    """Status, reason and notes that reading the file would give its document."""
    from .readers import read_parts

    status, reason, notes = UNREAD, work.reason, []
    if work.content_hash is not None:
        try:
            first, *_ = ((part.partial, part.notes) for part in read_parts(Path(work.file.path)))
            status, reason, notes = ("partial_text" if first[0] else "indexed"), "", first[1]
        except REFUSALS as error:
            status, reason = refusal(error, work.file.path)
    return status, unread_reason(work, reason) if status == UNREAD else reason, notes
