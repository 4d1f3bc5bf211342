"""``slotrag ask``: an answer from the documents, streamed, with its sources."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import answers, failures
from .. import retrieval_options as options
from ..interrupts import cancellable
from ..invocation import Invocation

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def ask(
    context: typer.Context,
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help="The question.")],
    k: options.K = None,
    collection: options.Collection = None,
    mode: options.Mode = None,
    path: options.PathGlob = None,
    min_score: options.MinimumScore = None,
    diversity: options.Diversity = None,
    form: Annotated[
        str | None,
        typer.Option("--context", metavar="auto|slots|text", help="How the decoder gets the passages. [default: auto]"),
    ] = None,
    decoder: Annotated[
        str | None,
        typer.Option(
            "--decoder", metavar="MODEL", help="Model that answers: a name, folder or hub id. [default: smollm2-135m]"
        ),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", help="Most tokens of the answer. [default: 256]")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", help="Conversation to continue: its id or the beginning of that.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Answer a question from the documents, with sources."""
    invocation: Invocation = context.obj
    settings = invocation.settings(
        k=k, mode=mode, diversity=diversity, context=form, decoder=decoder, max_tokens=max_tokens
    )
    first_run = not decoder and not invocation.models(settings).present(settings.decoder)
    with cancellable() as cancel, invocation.library(settings) as library:
        invocation.waiting("searching")
        events = library.ask(
            " ".join(question),
            k=settings.k,
            collection=collection,
            mode=settings.mode,
            path=path,
            min_score=min_score,
            diversity=settings.diversity,
            context=settings.context,
            decoder=settings.decoder,
            max_tokens=settings.max_tokens,
            session=session,
            cancel=cancel,
        )
        answer = answers.show(events, invocation, as_json=as_json)
        if first_run and answer.found and not cancel.cancelled:
            _offer_decoder(invocation)
    if cancel.cancelled or answer.stop_reason == "cancelled":
        raise typer.Exit(failures.INTERRUPTED)
    if answer.stop_reason == "error":
        raise typer.Exit(failures.ERROR)
    if not answer.found:
        raise typer.Exit(failures.NOT_FOUND)


def _offer_decoder(invocation: Invocation) -> None:
    """Say once, after the run that fetched the decoder, which larger one the machine would run."""
    from .. import recommending

    settings = invocation.settings()
    speed = recommending.measure(invocation.models(settings), settings)
    advice = recommending.recommended(speed)
    if advice.name != settings.decoder:
        invocation.notice(recommending.sentence(advice, speed, current=settings.decoder))
