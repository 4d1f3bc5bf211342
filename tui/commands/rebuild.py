"""``slotrag rebuild``: make a collection anew, with the same or another encoder, or change its post-processing."""

from __future__ import annotations

from typing import Annotated

import typer

from ..interrupts import cancellable
from ..invocation import Invocation
from ..retrieval_options import AsJson
from . import index

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def rebuild(
    context: typer.Context,
    collection: Annotated[str | None, typer.Option("--collection", help="Its name. [default: the default one]")] = None,
    encoder: Annotated[
        str | None, typer.Option("--encoder", metavar="SPEC", help="Another encoder. [default: the collection's own]")
    ] = None,
    postprocessing: Annotated[
        str | None,
        typer.Option(
            "--postprocessing",
            metavar="STEPS",
            help="none, or steps joined by '+': mean, top=N, whiten=N, embedfilter[=N]; without --encoder only this is "
            "changed, and no document is encoded again. [default: the collection's own, fitted anew]",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read, split and encode a collection anew; answers keep coming from the old one until then."""
    invocation: Invocation = context.obj
    with cancellable() as cancel, invocation.library(invocation.settings()) as library:
        invocation.waiting("preparing")
        report = library.rebuild(
            collection,
            encoder=encoder,
            postprocessing=postprocessing,
            progress=invocation.progress,
            cancel=cancel,
        )
    raise typer.Exit(index.show(invocation, report, as_json=as_json))
