"""Indexing reports as lines and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .output import clean, one_line, say, say_json, say_table

if TYPE_CHECKING:
    from ..rag.results import IndexReport

_MOST_SKIPPED_LINES = 20


def say_index_json(report: IndexReport, *, dry_run: bool = False) -> None:
    """Write `report` in the form of schema 1; a dry run has its plan as one key more, a changed post-processing its
    steps."""
    skipped = [{"path": file.path, "reason": file.reason, "failed": file.failed} for file in report.skipped]
    value = {
        "schema": 1,
        "collection": report.collection,
        "new": report.new,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "removed": report.removed,
        "renamed": report.renamed,
        "skipped": skipped,
        "passages": report.passages,
        "encoded": report.encoded,
        "seconds": round(report.seconds, 3),
    }
    if report.postprocessing is not None:
        value["postprocessing"] = report.postprocessing
    if dry_run:
        value["planned"] = [
            {"action": action, "path": path, "reason": reason} for action, path, reason in report.planned
        ]
    say_json(value)


def say_index(report: IndexReport, *, dry_run: bool = False) -> None:
    """Write `report` for a reader."""
    if dry_run:
        say_table(("would be", "path", "reason"), [row for row in report.planned if row[0] != "unchanged"])
        say(f"{clean(report.collection)}: nothing was changed ({_documents(report)})")
        return
    if report.postprocessing is not None:
        say(
            f"{clean(report.collection)}: post-processing {report.postprocessing}; {report.passages:,} passages, no "
            f"document was encoded again, {report.seconds:.1f} s"
        )
        return
    say(
        f"{clean(report.collection)}: {_documents(report)}; {report.passages:,} passages, "
        f"{report.encoded:,} texts encoded, {report.seconds:.1f} s"
    )
    _say_skipped(report)


def _documents(report: IndexReport) -> str:
    names = ("new", "updated", "unchanged", "removed", "renamed")
    counts = [f"{getattr(report, name):,} {name}" for name in names if getattr(report, name)]
    failed = sum(file.failed for file in report.skipped)
    others = len(report.skipped) - failed
    counts += [f"{failed:,} failed"] if failed else []
    counts += [f"{others:,} skipped"] if others else []
    return ", ".join(counts) or "no documents"


def _say_skipped(report: IndexReport) -> None:
    ordered = sorted(report.skipped, key=lambda file: not file.failed)  # failures first, else in the run's order
    for file in ordered[:_MOST_SKIPPED_LINES]:
        word = "failed" if file.failed else "skipped"
        say(f"  {word}: {one_line(file.path)}: {one_line(file.reason)}")
    if len(ordered) > _MOST_SKIPPED_LINES:
        say(f"  ... and {len(ordered) - _MOST_SKIPPED_LINES:,} more; slotrag index --json lists all")
