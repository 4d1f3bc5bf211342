"""``slotrag collections``: the collections, each bound to its encoder."""

from __future__ import annotations

from dataclasses import asdict

import typer

from ..invocation import Invocation
from ..output import say_json, say_table
from ..retrieval_options import AsJson

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def collections(context: typer.Context, as_json: AsJson = False) -> None:
    """List the collections."""
    invocation: Invocation = context.obj
    with invocation.library(invocation.settings()) as library:
        found = library.collections()
    if as_json:
        say_json({"schema": 1, "collections": [asdict(status) for status in found]})
        return
    rows = [
        (
            status.name,
            "default" if status.is_default else "",
            status.encoder,
            status.postprocessing,
            sum(status.documents.values()),
            status.passages,
            status.fingerprint[:12],
        )
        for status in found
    ]
    say_table(("collection", "", "encoder", "post-processing", "documents", "passages", "fingerprint"), rows)
    if not found:
        invocation.notice("no collection yet: slotrag index FOLDER")
