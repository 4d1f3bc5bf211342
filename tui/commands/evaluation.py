"""``slotrag eval``: measure how good the retrieval and the encoders are on data with known answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..interrupts import cancellable
from ..invocation import Invocation
from ..output import clean, say, say_json
from ..paths import given_path
from ..retrieval_options import AsJson
from .evaluation_texts import classification, sts

if TYPE_CHECKING:
    from ...rag.evaluation.retrieval import RetrievalScores

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Measure retrieval and encoders."
)


@app.callback()
def root() -> None:
    pass


@app.command()
def retrieval(
    context: typer.Context,
    dataset: Annotated[
        Path,
        typer.Option(
            "--dataset",
            parser=given_path,
            metavar="DIR",
            help="Folder with corpus.jsonl, queries.jsonl and qrels/*.tsv.",
        ),
    ],
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="Spec of the encoder. [default: the setting's]")
    ] = None,
    split: Annotated[bool, typer.Option("--split", help="Score each document by its best passage.")] = False,
    mode: Annotated[
        list[str] | None,
        typer.Option("--mode", metavar="dense|lexical|hybrid", help="Only these; may be repeated. [default: all]"),
    ] = None,
    queries: Annotated[
        str, typer.Option("--queries", metavar="all|even|odd", help="All of them, or every other one.")
    ] = "all",
    qrels: Annotated[str, typer.Option("--qrels", metavar="NAME", help="Which qrels/NAME.tsv.")] = "test",
    postprocessing: Annotated[
        str | None,
        typer.Option(
            "--postprocessing",
            metavar="STEPS",
            help="none, or steps joined by '+' and fitted to the corpus: mean, top=N, whiten=N, embedfilter[=N]. "
            "[default: what the encoder brings along]",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure nDCG@10, recall and MRR@10 of retrieval by vectors, by words, and by both."""
    from ...rag.evaluation import retrieval as evaluation

    invocation: Invocation = context.obj
    settings = invocation.settings(encoder=encoder)
    with cancellable() as cancel, invocation.progress:
        scores = evaluation.evaluate_retrieval(
            dataset,
            encoder=settings.encoder,
            models=invocation.models(settings),
            split=split,
            modes=mode or ("dense", "lexical", "hybrid"),
            queries=queries,
            qrels=qrels,
            postprocessing=postprocessing,
            device=settings.device,
            progress=invocation.progress,
            cancel=cancel,
        )
    if as_json:
        say_json(scores.to_json())
    else:
        _show(scores)
    for notice in scores.notices:
        invocation.notice(notice)


app.command()(sts)
app.command()(classification)


def _show(scores: RetrievalScores) -> None:
    half = "" if scores.half == "all" else f" ({scores.half} half)"
    processed = "" if scores.postprocessing == "none" else f" with post-processing {scores.postprocessing}"
    processed += " of the encoder's own statistics" if scores.postprocessing_origin == "encoder" else ""
    say(
        clean(
            f"{scores.dataset}: {scores.documents:,} documents, {scores.passages:,} passages, "
            f"{scores.queries:,} queries{half}, encoder {scores.encoder or 'none'}{processed}, {scores.seconds:.1f} s"
        )
    )
    modes = list(scores.scores)
    say("".join(["".ljust(12), *(mode.rjust(9) for mode in modes)]))
    for measure in scores.scores[modes[0]]:
        say("".join([measure.ljust(12), *(f"{scores.scores[mode][measure]:9.3f}" for mode in modes)]))
