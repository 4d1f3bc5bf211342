"""``slotrag index``: add folders and files to a collection, or refresh what was added."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
        list[Path] | None, typer.Argument(metavar="[PATH]...", help="Folders and files. [default: all sources again]")
    ] = None,
    collection: Annotated[str | None, typer.Option("--collection", help="Name of the collection.")] = None,
    encoder: Annotated[str | None, typer.Option("--encoder", help="Spec of a new collection's encoder.")] = None,
    include: Annotated[list[str] | None, typer.Option("--include", metavar="GLOB", help="Only these files.")] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", metavar="GLOB", help="Not these files.")] = None,
    hidden: Annotated[bool | None, typer.Option("--hidden", help="Also names that begin with a dot.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Decline if another run is indexing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add folders and files, or without a PATH refresh every source.

    Only what changed since the last run is read and encoded.
    """
    invocation: Invocation = context.obj
    settings = invocation.settings()
    with cancellable() as cancel, invocation.library(settings, create=True) as library:
        invocation.waiting("preparing")
        report = library.index(
            paths or (),
            collection=collection,
            encoder=encoder,
            include=include or (),
            exclude=exclude or (),
            hidden=hidden,
            dry_run=dry_run,
            wait=not no_wait,
            progress=invocation.progress,
            cancel=cancel,
        )
    raise typer.Exit(show(invocation, report, as_json=as_json, dry_run=dry_run))


def show(invocation: Invocation, report: IndexReport, *, as_json: bool, dry_run: bool = False) -> int:
    """Write the report of a run and return the exit code that it stands for."""
    for notice in report.notices:
        invocation.notice(notice)
    if as_json:
        reports.say_index_json(report, dry_run=dry_run)
    else:
        reports.say_index(report, dry_run=dry_run)
    return failures.PARTIAL if any(file.failed for file in report.skipped) else failures.OK
