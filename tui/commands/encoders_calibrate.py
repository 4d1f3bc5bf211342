"""``slotrag encoders calibrate``: find an encoder's best settings on labelled data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ... import UsageError
from ..interrupts import cancellable
from ..invocation import Invocation
from ..output import clean, say, say_json, say_pairs, say_table
from ..paths import given_path
from ..retrieval_options import AsJson

if TYPE_CHECKING:
    from ...encoders.calibrating import Outcome, Row
    from ...encoders.calibration_scan import Task
    from ...encoders.estimates import Estimate

_HEAD = ("encoder", "prompt", "exit", "demonstration", "layer", "post-processing", "chosen", "held out", "texts/s")


def calibrate(
    context: typer.Context,
    encoder: Annotated[str, typer.Argument(help="tp, prompteol, echo or mean, such as tp@smollm2-135m.")],
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", parser=given_path, metavar="FILE", help="Sentence pairs, as for slotrag eval sts."),
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option("--dataset", parser=given_path, metavar="DIR", help="Queries, as for slotrag eval retrieval."),
    ] = None,
    most: Annotated[
        int,
        typer.Option(
            "--most", metavar="COUNT", min=8, help="Pairs or queries that are used, evenly spread; half of them choose."
        ),
    ] = 500,
    prompt: Annotated[
        list[str] | None, typer.Option("--prompt", metavar="NAME", help="Only these prompts; may be repeated.")
    ] = None,
    exit: Annotated[
        list[int] | None,
        typer.Option("--exit", metavar="LAYER", min=1, help="Only these exits of tp; may be repeated."),
    ] = None,
    demonstration: Annotated[
        list[str] | None, typer.Option("--demonstration", metavar="NAME", help="Only these, or none; may be repeated.")
    ] = None,
    postprocessing: Annotated[
        list[str] | None,
        typer.Option("--postprocessing", metavar="STEPS", help="Only these, such as mean+top=3; may be repeated."),
    ] = None,
    licence: Annotated[
        str | None, typer.Option("--licence", metavar="TEXT", help="Of the data, to be noted in the calibration.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose prompt, exit, demonstration, layer and post-processing on one half of labelled data, and report on the
    other. An interrupted run goes on where it was."""
    from ...encoders.calibrating import Choices, calibrate
    from ...rag.evaluation.running import Run

    if (pairs is None) == (dataset is None):
        raise UsageError("Name the labelled data: --pairs FILE or --dataset DIR.")
    invocation: Invocation = context.obj
    settings = invocation.settings(encoder=encoder)
    plain = Choices()
    choices = Choices(
        prompts=prompt or (),
        exits=exit or plain.exits,
        demonstrations=plain.demonstrations if demonstration is None else demonstration,
        steps=postprocessing or plain.steps,
    )
    with cancellable() as cancel, invocation.progress:
        run = Run(invocation.progress, cancel)
        outcome = calibrate(
            settings.encoder,
            _task(pairs, dataset, most),
            invocation.models(settings),
            choices=choices,
            data={"licence": licence} if licence else None,
            device=settings.device,
            report=lambda done, total, message: run.report(done, total, "texts", "calibrate", message),
        )
    if as_json:
        say_json(_as_json(outcome))
        return
    _show(outcome)
    for spec, reason in outcome.left_out.items():
        invocation.notice(f"left out: {spec}: {reason}")
    if outcome.file is not None:
        invocation.notice(f"written to {outcome.file}")


def _task(pairs: Path | None, dataset: Path | None, most: int) -> Task:
    from ...rag.evaluation.beir import read_dataset
    from ...rag.evaluation.calibration_tasks import PairsTask, RetrievalTask
    from ...rag.evaluation.pairs import read_pairs

    if pairs is not None:
        return PairsTask(read_pairs(pairs).sample(most))
    assert dataset is not None
    return RetrievalTask(read_dataset(dataset), most)


def _show(outcome: Outcome) -> None:
    say_table(_HEAD, [_cells(row) for row in outcome.rows])
    say()
    chosen, held = outcome.items
    say(f"{outcome.measure}: chosen on {chosen:,} items, and on the {held:,} held out (95 % intervals)")
    say_pairs(
        (
            ("calibrated", _estimate(outcome.winner)),
            ("uncalibrated", f"{_estimate(outcome.uncalibrated)}  ({outcome.uncalibrated_spec})"),
            ("gain", _estimate(outcome.gain)),
            ("time", f"{outcome.seconds:,.0f} s"),
            ("use", f"--encoder {_quoted(outcome.recommended)}{_why(outcome.gain)}"),
            *(("for the other", f"--encoder {_quoted(spec)}") for spec in outcome.others.values()),
        )
    )
    if outcome.file is None and outcome.steps != "none" and outcome.gain.value > 0:
        say(clean(f"and, once it is indexed: slotrag rebuild --postprocessing {outcome.steps}"))


def _cells(row: Row) -> tuple[str, ...]:
    parameters = row.parameters
    return (
        row.encoder, parameters.get("prompt", ""), parameters.get("exit", ""), parameters.get("demonstration", ""),
        str(row.layer), row.steps, f"{row.chosen:.3f}", f"{row.held_out:.3f}", f"{row.texts_per_second:.1f}",
    )  # fmt: skip


def _estimate(found: Estimate) -> str:
    return f"{found.value:.3f}  {found.low:.3f} to {found.high:.3f}"


def _why(gain: Estimate) -> str:
    if gain.value <= 0:
        return "  (what was chosen is no better on the items held out)"
    return "  (the gain's interval holds 0: it may be chance)" if gain.low <= 0 else ""


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _as_json(outcome: Outcome) -> dict[str, Any]:
    value = asdict(outcome)
    value["file"] = str(outcome.file) if outcome.file is not None else None
    return {"schema": 1, **value, "recommended": outcome.recommended}
