"""``slotrag index``: add folders and files to a collection, or refresh what was added."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from ... import UsageError
from ...rag.events import Cancelled
from .. import failures, reports
from ..interrupts import cancellable
from ..invocation import Invocation
from ..retrieval_options import AsJson

if TYPE_CHECKING:
    from ...rag.results import IndexReport

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def index(
    context: typer.Context,
    paths: Annotated[
        list[str] | None,  # a Path would make "." of an empty one
        typer.Argument(metavar="[PATH]...", help="Folders and files. [default: all sources again]"),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option("--collection", help="Name of the collection. [default: the default one; without a PATH all]"),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="Spec of a new collection's encoder. [default: mean]")
    ] = None,
    include: Annotated[list[str] | None, typer.Option("--include", metavar="GLOB", help="Only these files.")] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", metavar="GLOB", help="Not these files.")] = None,
    hidden: Annotated[bool | None, typer.Option("--hidden", help="Also names that begin with a dot.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and index again whenever a file changes.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Decline if another run is indexing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add folders and files, or without a PATH refresh every source of every collection.

    Only what changed since the last run is read and encoded.
    """
    invocation: Invocation = context.obj
    if watch and (dry_run or no_wait):
        raise UsageError("--watch stays and indexes; leave out --dry-run and --no-wait.")
    settings = invocation.settings()
    options = {
        "encoder": encoder, "include": include or (), "exclude": exclude or (),
        "hidden": hidden, "progress": invocation.progress,
    }  # fmt: skip
    with cancellable() as cancel, invocation.library(settings, create=True, dry=dry_run) as library:
        invocation.waiting("preparing")
        if watch:
            reports = library.watch(paths or (), collection=collection, cancel=cancel, **options)
            follow(invocation, reports, as_json=as_json)
            raise Cancelled
        options |= {"dry_run": dry_run, "wait": not no_wait, "cancel": cancel}
        if paths:
            runs = iter([library.index(paths, collection=collection, **options)])
        else:
            runs = library.refresh(collection, **options)
        code = max(show_all(invocation, runs, as_json=as_json, dry_run=dry_run))
    raise typer.Exit(code)


def follow(invocation: Invocation, reports: Iterator[IndexReport], *, as_json: bool) -> None:
    """Write the first report of each collection, and each later one that changed something."""
    last: dict[str, IndexReport] = {}
    for report in reports:
        before = last.get(report.collection)
        if before is None or report.changed or (report.skipped, report.notices) != (before.skipped, before.notices):
            invocation.progress.close()
            show(invocation, report, as_json=as_json)
            sys.stdout.flush()
        if not last:
            invocation.notice("watching for changes; Ctrl-C ends it")
        last[report.collection] = report


def show_all(invocation: Invocation, reports: Iterator[IndexReport], *, as_json: bool, dry_run: bool) -> Iterator[int]:
    """Write each report when its run has ended; the exit codes that they stand for."""
    for report in reports:
        invocation.progress.close()
        yield show(invocation, report, as_json=as_json, dry_run=dry_run)


def show(invocation: Invocation, report: IndexReport, *, as_json: bool, dry_run: bool = False) -> int:
    """Write the report of a run and return the exit code that it stands for."""
    for notice in report.notices:
        invocation.notice(notice)
    if as_json:
        reports.say_index_json(report, dry_run=dry_run)
    else:
        reports.say_index(report, dry_run=dry_run)
    return failures.PARTIAL if any(file.failed for file in report.skipped) else failures.OK
