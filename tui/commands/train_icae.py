"""``slotrag train icae``: train a compressor, whose memory slots the frozen decoder reads in place of passages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ... import UsageError
from ...rag.events import Cancelled
from ..interrupts import cancellable
from ..invocation import Invocation
from ..output import say, say_json, say_pairs, say_table
from ..paths import given_path
from ..retrieval_options import AsJson

if TYPE_CHECKING:
    from ...rag.icae.training.requests import Outcome
    from ...rag.icae.training.settings import CompressorTraining

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_HEAD = ("held out", "start", "best", "text", "nothing", "recovery", "tokens right")


@app.command()
def icae(
    context: typer.Context,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data",
            parser=given_path,
            metavar="PATH",
            help="File or folder of texts; jsonl with text, or with passage, question and answer. May be repeated.",
        ),
    ] = None,
    stage: Annotated[
        str,
        typer.Option("--stage", metavar="pretrain|finetune", help="Mostly reproduction, or mostly answers."),
    ] = "pretrain",
    base: Annotated[str, typer.Option("--base", metavar="MODEL", help="The frozen decoder.")] = "smollm2-135m",
    licence: Annotated[
        list[str] | None,
        typer.Option("--licence", metavar="TEXT", help="Of the data, once or once for each --data."),
    ] = None,
    exclude: Annotated[
        list[Path] | None,
        typer.Option(
            "--exclude", parser=given_path, metavar="PATH", help="Train on no text that shares 13 words with these."
        ),
    ] = None,
    compressor: Annotated[
        str | None,
        typer.Option("--compressor", metavar="pooled|memory-tokens", help="[default: pooled]"),
    ] = None,
    read_out: Annotated[
        int | None, typer.Option("--read-out", min=1, help="Layers of the encoder. [default: a third of the model's]")
    ] = None,
    rank: Annotated[int | None, typer.Option("--rank", min=1, help="Of LoRA. [default: 32]")] = None,
    layout: Annotated[
        str | None, typer.Option("--layout", metavar="centred|appended", help="[default: centred]")
    ] = None,
    first: Annotated[
        str | None,
        typer.Option("--slot-start", metavar="residual|authors", help="What slots are at first. [default: residual]"),
    ] = None,
    positions: Annotated[
        str | None,
        typer.Option("--positions", metavar="parallel|sequential", help="Of several passages. [default: parallel]"),
    ] = None,
    bidirectional: Annotated[
        bool, typer.Option("--bidirectional", help="Memory tokens see each other in both directions.")
    ] = False,
    prompt: Annotated[
        str | None, typer.Option("--prompt", metavar="chat-repeat|authors", help="[default: chat-repeat]")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", metavar="HASH", help="Go on from the weights of this compressor.")
    ] = None,
    rate: Annotated[float, typer.Option("--rate", min=1, help="Tokens for each slot in the end.")] = 4,
    rates: Annotated[
        str | None, typer.Option("--rates", metavar="RATE:STEPS,...", help="As in 1:200,2:1000,2+4:*.")
    ] = None,
    lengths: Annotated[
        str | None, typer.Option("--lengths", metavar="FROM-TO:STEPS,...", help="As in 32-64:500,64-256:*.")
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option("--mix", metavar="NAME=SHARE,...", help="Of autoencode, continue and instruct."),
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="[default: 2000]")] = None,
    batch_tokens: Annotated[
        int | None, typer.Option("--batch-tokens", min=1, help="Context tokens of a step. [default: 512]")
    ] = None,
    passages: Annotated[
        int | None, typer.Option("--passages", min=1, help="Of a question, at most. [default: 1]")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", help="[default: 0.001]")] = None,
    warm_up: Annotated[
        int | None, typer.Option("--warm-up", min=0, help="Steps in which the learning rate rises. [default: 50]")
    ] = None,
    distil: Annotated[
        float | None, typer.Option("--distil", help="Weight of what the reader of the text says. [default: 0.5]")
    ] = None,
    check_every: Annotated[
        int | None, typer.Option("--check-every", min=1, help="Steps between checks. [default: 200]")
    ] = None,
    check_rows: Annotated[
        int | None, typer.Option("--check-rows", min=1, help="Held-out rows of each kind and rate. [default: 16]")
    ] = None,
    write_every: Annotated[
        int | None,
        typer.Option("--write-every", min=0, help="Checks until texts and answers are written out. [default: 5]"),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Of everything random. [default: 0]")] = None,
    replies: Annotated[
        int, typer.Option("--replies", min=0, help="Replies of the decoder to have written before training.")
    ] = 0,
    prepared: Annotated[
        Path | None,
        typer.Option(
            "--prepared", parser=given_path, metavar="DIR", help="Keep the prepared data here; later without --data."
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", parser=given_path, metavar="DIR", help="Folder of configuration, curve and state."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="About how long this call may take; the next one goes on.")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", metavar="auto|cpu|cuda")] = None,
    dtype: Annotated[
        str, typer.Option("--dtype", metavar="float32|bfloat16", help="Of the frozen weights.")
    ] = "float32",
    as_json: AsJson = False,
) -> None:
    """Train a compressor of passages over a frozen decoder.

    A part of the texts is held out; the best weights by their losses are kept as a checkpoint, also where the time is
    over before the last step. The same command goes on with an interrupted run.
    """
    from ...rag.evaluation.running import Run
    from ...rag.icae.training.requests import Request, default_run
    from ...rag.icae.training.settings import STAGES, parse_mix
    from ...rag.icae.training.sources import with_licences
    from ...rag.icae.training.trainer import train_compressor

    invocation: Invocation = context.obj
    if not data and prepared is None:
        raise UsageError("Name what to train on: --data PATH, or --prepared DIR with data prepared before.")
    if stage not in STAGES:
        raise UsageError(f"--stage is {' or '.join(STAGES)}, not {stage!r}.")
    settings = invocation.settings(device=device)
    models = invocation.models(settings)
    training = _training(
        stage, rate,
        mix=parse_mix(mix) if mix else None, rates=rates, lengths=lengths, steps=steps, batch_tokens=batch_tokens,
        passages=passages, learning_rate=learning_rate, warm_up=warm_up, distil=distil, check_every=check_every,
        check_rows=check_rows, write_every=write_every, seed=seed,
    )  # fmt: skip
    options = {
        "compressor": compressor, "read_out": read_out, "rank": rank, "layout": layout, "start": first,
        "positions": positions, "prompt": prompt, "bidirectional": bidirectional or None,
    }  # fmt: skip
    sources = with_licences(data or [], licence or [])
    request = Request(
        base=base,
        data=sources,
        settings=training,
        run=run or default_run(models.folder, base, sources, stage),
        compressor={name: value for name, value in options.items() if value is not None},
        exclude=exclude or [],
        start=start,
        prepared=prepared,
        replies=replies,
        device=settings.device,
        dtype=dtype,
        minutes=minutes,
    )
    with cancellable() as cancel, invocation.progress:
        try:
            outcome = train_compressor(request, models, Run(invocation.progress, cancel))
        except Cancelled:
            invocation.progress.close()
            invocation.notice(f"what is done is kept in {request.run}; the same command goes on where it was")
            raise
    _show(invocation, outcome, as_json=as_json)


def _training(stage: str, rate: float, **given: Any) -> CompressorTraining:
    from dataclasses import replace

    from ...rag.icae.training.settings import STAGES, CompressorTraining

    options = {name: value for name, value in given.items() if value is not None}
    settings = replace(CompressorTraining(mix=dict(STAGES[stage])), **options)
    if "rates" not in options:
        settings = replace(settings, rates=_rising(stage, rate, settings.steps))
    return settings


def _rising(stage: str, rate: float, steps: int) -> str:
    """Rates that rise to `rate`; half of the rows keep a lower one, so that it stays usable."""
    if rate <= 2:
        return f"{rate:g}" if stage == "finetune" or rate == 1 else f"1:{max(1, steps // 10)},{rate:g}:*"
    if stage == "finetune":
        return f"2+{rate:g}:*"
    return f"1:{max(1, steps // 20)},2:{max(1, steps // 5)},2+{rate:g}:*"


def _show(invocation: Invocation, outcome: Outcome, *, as_json: bool) -> None:
    invocation.progress.close()
    for notice in outcome.notices:
        invocation.notice(notice)
    if as_json:
        say_json(outcome.to_json())
        return
    say_table(_HEAD, list(_rows(outcome)))
    say()
    say_pairs(
        (
            ("compressor", outcome.hash),
            ("best", f"after {outcome.best['step']:,} steps, {outcome.best['tokens']:,} context tokens"),
            ("done", f"{outcome.steps:,} steps, {outcome.tokens:,} context tokens in {outcome.seconds:,.0f} s"),
            ("run", outcome.run),
        )
    )
    if outcome.stopped == "time":
        invocation.notice("the time was over before the last step; the same command goes on")


def _rows(outcome: Outcome) -> Any:
    first = outcome.first["measures"]
    for name, measures in outcome.best["measures"].items():
        main = next(one for one in ("loss", "bleu", "f1") if one in measures)
        yield (
            name if main in name else f"{name} {main}",
            _number(first.get(name, {}).get(main)),
            _number(measures[main]),
            _number(measures.get(f"text {main}")),
            _number(measures.get(f"none {main}")),
            _number(measures.get("recovery")),
            _number(measures.get("accuracy")),
        )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
