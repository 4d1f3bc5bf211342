"""``slotrag remove``: take documents out of the library."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import failures
from ..invocation import Invocation
from ..output import clean, say, say_json
from ..retrieval_options import AsJson

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def remove(
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A source, or a file or folder below one.")],
    collection: Annotated[
        str | None, typer.Option("--collection", help="Only from this collection. [default: all]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take a file, folder or source out of the library: text, vectors and all. The file itself stays."""
    invocation: Invocation = context.obj
    with invocation.library(invocation.settings()) as library:
        removed = library.remove(path, collection=collection)
    if as_json:
        say_json({"schema": 1, "path": path, "removed": removed})
    else:
        say(f"{removed} document{'' if removed == 1 else 's'} removed")
    if not removed:
        invocation.notice(f"the library holds nothing below {clean(path)}")
        raise typer.Exit(failures.NOT_FOUND)
