"""What becomes of a file that a scan found, and how a run's report counts it. It reads and stores nothing.

A run and a dry run both count here, so that the one tells what the other does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .documents import NoText, ReadError, UnsupportedFile
from .results import IndexReport, SkippedFile
from .scanning import SEARCHABLE, Scan, Work

UNREAD = "unread"
"""Stands for the status of a file that cannot be read now: what is stored of it stays."""

REFUSALS = (NoText, UnsupportedFile, ReadError, MemoryError)
"""What reading a file may raise."""

_NO_MEMORY = "more memory than there is would be needed to read it: split it, or free some"


def refusal(error: BaseException, path: str) -> tuple[str, str]:
    """Status and reason of a file whose reading raised one of `REFUSALS`; `UNREAD` where it may be read another day."""
    if isinstance(error, NoText):
        return "no_text", error.reason
    if isinstance(error, UnsupportedFile):
        return "skipped", error.reason
    if isinstance(error, ReadError):
        return (UNREAD if _gone(path) else "failed"), error.reason
    return UNREAD, _NO_MEMORY


def unread_reason(work: Work, problem: str) -> str:
    """`problem` as it is told of a file that cannot be read now."""
    kept = work.previous is not None and work.previous.status in SEARCHABLE
    return f"{problem}; what was indexed earlier is kept" if kept else problem


def count_scan(report: IndexReport, scan: Scan) -> None:
    """Count what a scan decides without reading a file."""
    report.skipped.extend(scan.skipped)
    report.notices.extend(scan.notices)
    report.unchanged += sum(document.status in SEARCHABLE for document in scan.unchanged)
    report.unchanged += sum(document.status in SEARCHABLE for document, _ in scan.touched)
    report.renamed += sum(rename.counted and rename.document.status in SEARCHABLE for rename in scan.renames)
    report.removed += sum(document.status in SEARCHABLE for document in scan.removed)


def count_file(report: IndexReport, work: Work, status: str, reason: str, notes: Sequence[str] = ()) -> None:
    """Count a file of ``scan.work`` by what its reading gave."""
    was = work.previous is not None and work.previous.status in SEARCHABLE
    if status not in SEARCHABLE:
        report.skipped.append(SkippedFile(work.file.path, reason, failed=status in ("failed", UNREAD)))
        report.updated += was and work.action == "updated" and status != UNREAD
        return
    report.notices.extend(f"{work.file.relative_path}: {note}" for note in notes)
    if work.action != "renamed":
        report.new += not was
        report.updated += was


def _gone(path: str) -> bool:
    """Whether a file cannot be opened at all any more (as against being read and found broken)."""
    try:
        Path(path).open("rb").close()
    except OSError:
        return True
    return False
