"""``slotrag search``: the passages found for a query."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import failures, passages
from .. import retrieval_options as options
from ..invocation import Invocation

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def search(
    context: typer.Context,
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="What to look for.")],
    k: options.K = None,
    collection: options.Collection = None,
    mode: options.Mode = None,
    path: options.PathGlob = None,
    min_score: options.MinimumScore = None,
    diversity: options.Diversity = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show both sides' ranks and scores.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Find passages, the best first."""
    invocation: Invocation = context.obj
    settings = invocation.settings(k=k, mode=mode, diversity=diversity)
    words = " ".join(query)
    with invocation.library(settings) as library:
        invocation.waiting("searching")
        result = library.search(
            words,
            settings.k,
            collection=collection,
            mode=settings.mode,
            path=path,
            min_score=min_score,
            diversity=settings.diversity,
            explain=explain,
        )
    for notice in result.notices:
        invocation.notice(notice)
    if as_json:
        passages.say_result_json(result, explain=explain)
    else:
        passages.say_hits(result.hits, query=words, explain=explain)
    if not result.hits:
        if not as_json:
            invocation.notice("nothing found")
        raise typer.Exit(failures.NOT_FOUND)
