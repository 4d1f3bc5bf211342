"""``slotrag train``: train a head on labelled files, or adapt one to a collection's own documents."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ... import UsageError
from ...rag.events import Cancelled, CancelToken
from .. import reports
from ..interrupts import cancellable
from ..invocation import Invocation
from ..output import clean, say, say_json, say_pairs, say_table, size
from ..paths import given_path
from ..retrieval_options import AsJson

if TYPE_CHECKING:
    from ...encoders.estimates import Estimate
    from ...encoders.training.settings import TrainingSettings
    from ...rag.library import Library
    from ...rag.training.outcomes import HeadOutcome

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_HEAD = ("data", "measure", "judged", "before", "after", "gain", "95 % interval")


@app.command()
def train(
    context: typer.Context,
    head: Annotated[
        str,
        typer.Argument(
            metavar="glot|ilse|pooled", help="The head, also with parameters: glot:tau=0.3, ilse@e5-small:hidden=128."
        ),
    ],
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data",
            parser=given_path,
            metavar="FILE",
            help="Labelled file: text and label, two sentences and a score, or query and positive (and negative); "
            "jsonl, csv, tsv. May be repeated.",
        ),
    ] = None,
    collection: Annotated[
        str | None, typer.Option("--collection", metavar="NAME", help="Adapt to the documents of this collection.")
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option("--backbone", metavar="MODEL", help="[default: the collection's own, or minilm-l6]"),
    ] = None,
    graph: Annotated[str | None, typer.Option("--graph", metavar="cayley|fc|set", help="Of ilse.")] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="ROLE=NAME,...", help="As in query=QUESTION,positive=PARAGRAPH."),
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Passes over the data. [default: 3]")] = None,
    batch: Annotated[int | None, typer.Option("--batch", min=2, help="Examples of a step. [default: 32]")] = None,
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", help="[default: 0.001]")] = None,
    pair_loss: Annotated[
        str | None,
        typer.Option(
            "--pair-loss",
            metavar="ranking|cosine",
            help="What scored pairs teach: the order of their cosines, or how near these are to the scores. "
            "[default: ranking]",
        ),
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            "--held-out",
            help="Share that the head is judged on; of few examples up to a quarter. [default: 0.1, of a collection "
            "0.2]",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Of everything random. [default: 0]")] = None,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", help="About how long it may take. [default: 10 for a collection]"),
    ] = None,
    questions: Annotated[
        bool, typer.Option("--questions/--no-questions", help="Let the decoder write questions for a collection.")
    ] = True,
    run: Annotated[
        Path | None,
        typer.Option("--run", parser=given_path, metavar="DIR", help="Folder of configuration, curve and state."),
    ] = None,
    states: Annotated[
        Path | None,
        typer.Option(
            "--states", parser=given_path, metavar="DIR", help="Keep the backbone's states here, for other runs."
        ),
    ] = None,
    licence: Annotated[
        str, typer.Option("--licence", metavar="TEXT", help="Of the data, to be noted in the head.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Index the collection anew without asking.")] = False,
    no_index: Annotated[bool, typer.Option("--no-index", help="Do not ask; leave the collection as it is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a small head over a frozen model, and keep it only where it is better on texts that it has not seen.

    With --data on labelled files, against mean pooling; with --collection on the collection's own documents, against
    its encoder as it is. An interrupted run goes on when the same command is given again.

    The examples are parted in three, each of its own texts: most are trained on; a tenth is watched meanwhile and
    says when to stop; what is told in the end, and whether the head is kept, is measured on the third, which was seen
    by neither.
    """
    if bool(data) == (collection is not None):
        raise UsageError("Name what to train on: --data FILE, or --collection NAME.")
    if yes and no_index:
        raise UsageError("--yes indexes anew and --no-index does not; give one of them.")
    invocation: Invocation = context.obj
    spec = _spec(head, backbone, graph)
    given = {
        "epochs": epochs, "batch": batch, "learning_rate": learning_rate, "pair_loss": pair_loss, "held_out": held_out,
        "seed": seed,
    }  # fmt: skip
    options = {name: value for name, value in given.items() if value is not None}
    if minutes is not None and not minutes > 0:
        raise UsageError(f"--minutes is above 0, not {minutes}.")
    if collection is None:
        outcome = _on_files(invocation, spec, data or [], options, columns, licence, run, states, minutes)
        _show(invocation, outcome, as_json=as_json)
        return
    if columns or states or licence:
        raise UsageError("--columns, --states and --licence are for --data; leave them out with --collection.")
    with cancellable() as cancel, invocation.library(invocation.settings()) as library:
        outcome = _on_collection(invocation, library, collection, spec, options, minutes, questions, run, cancel)
        _show(invocation, outcome, as_json=as_json)
        if outcome.spec is not None and not no_index and (yes or _agrees(collection, as_json)):
            report = library.rebuild(
                collection, encoder=outcome.spec, postprocessing=outcome.postprocessing,
                progress=invocation.progress, cancel=cancel,
            )  # fmt: skip
            invocation.progress.close()
            for notice in report.notices:
                invocation.notice(notice)
            if not as_json:
                reports.say_index(report, dry_run=False)
        elif outcome.command is not None:
            invocation.notice(f"the collection is as it was; to index it with the head: {outcome.command}")


def _spec(head: str, backbone: str | None, graph: str | None) -> str:
    from ...encoders.spec import EncoderSpec

    spec = EncoderSpec.parse(head)
    if backbone is not None and spec.backbone not in (None, backbone):
        raise UsageError(f"{head} names the backbone {spec.backbone}; leave out --backbone or the one in the head.")
    parameters = dict(spec.parameters)
    if graph is not None:
        if spec.name != "ilse":
            raise UsageError(f"--graph is for ilse, not for {spec.name}.")
        parameters["graph"] = graph
    return str(EncoderSpec(spec.name, backbone or spec.backbone, tuple(parameters.items())))


def _on_files(
    invocation: Invocation,
    spec: str,
    data: list[Path],
    options: dict[str, int | float | str],
    columns: str | None,
    licence: str,
    run: Path | None,
    states: Path | None,
    minutes: float | None,
) -> HeadOutcome:
    from ...encoders.training.settings import TrainingSettings
    from ...rag.training.heads import train_from_file

    settings = invocation.settings()
    with cancellable() as cancel, invocation.progress:
        try:
            return train_from_file(
                spec, data, invocation.models(settings),
                settings=_changed(TrainingSettings(), options), columns=_columns(columns), licence=licence, run=run,
                states=states, minutes=minutes, device=settings.device, progress=invocation.progress, cancel=cancel,
            )  # fmt: skip
        except Cancelled:
            _say_how_to_go_on(invocation)
            raise


def _on_collection(
    invocation: Invocation,
    library: Library,
    collection: str,
    spec: str,
    options: dict[str, int | float | str],
    minutes: float | None,
    questions: bool,
    run: Path | None,
    cancel: CancelToken,
) -> HeadOutcome:
    from ...rag.training.adapting import DEFAULTS, MINUTES

    try:
        return library.adapt(
            collection, spec,
            settings=_changed(DEFAULTS, options), minutes=MINUTES if minutes is None else minutes,
            questions=questions, run=run, progress=invocation.progress, cancel=cancel,
        )  # fmt: skip
    except Cancelled:
        _say_how_to_go_on(invocation)
        raise
    finally:
        invocation.progress.close()


def _changed(settings: TrainingSettings, options: dict[str, int | float | str]) -> TrainingSettings:
    return replace(settings, **options)  # type: ignore[arg-type]


def _columns(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    parts = [part.partition("=") for part in text.split(",")]
    if not all(equals and role.strip() and name.strip() for role, equals, name in parts):
        raise UsageError(f"--columns is ROLE=NAME,... as in query=QUESTION,positive=PARAGRAPH, not {text!r}.")
    return {role.strip(): name.strip() for role, _, name in parts}


def _say_how_to_go_on(invocation: Invocation) -> None:
    invocation.progress.close()
    invocation.notice("what is done is kept; the same command goes on where it was")


def _agrees(collection: str, as_json: bool) -> bool:
    """Whether the user wants the collection to be made anew now; nobody is asked where nobody can answer."""
    if as_json or not sys.stdin.isatty() or not sys.stderr.isatty():
        return False
    return typer.confirm(f"Index the collection {clean(collection)} anew with this head?", default=False, err=True)


def _show(invocation: Invocation, outcome: HeadOutcome, *, as_json: bool) -> None:
    invocation.progress.close()
    for notice in outcome.notices:
        invocation.notice(notice)
    if as_json:
        say_json(outcome.to_json())
        return
    rows = [
        (
            one.name, one.measure, f"{one.items:,}", f"{one.before.value:.4f}", f"{one.after.value:.4f}",
            f"{one.gain.value:+.4f}", _interval(one.gain),
        )
        for one in outcome.comparisons
    ]  # fmt: skip
    say_table(_HEAD, rows)
    say()
    seconds = ", ".join(f"{name} {value:,.0f} s" for name, value in outcome.seconds.items())
    say_pairs(
        (
            ("before", outcome.against),
            ("after", f"{outcome.method}, {outcome.parameters:,} parameters, {outcome.steps:,} steps"),
            ("gain", f"{outcome.gain:+.4f}: {_verdict(outcome)}"),
            ("trained on", _trained_on(outcome)),
            ("watched", _counts((one.name, one.watched) for one in outcome.data)),
            ("judged on", _counts((one.name, one.judged) for one in outcome.data)),
            ("time", seconds),
            ("disk", f"{size(outcome.state_bytes)} of states while it ran, {size(outcome.head_bytes)} for the head"),
            ("run", outcome.run),
            *((("use", f"--encoder {_quoted(outcome.spec)}"),) if outcome.spec is not None else ()),
        )
    )


def _verdict(outcome: HeadOutcome) -> str:
    if outcome.kept:
        return "kept"
    return "not kept, since it " + ("has learned nothing" if outcome.gain > 0 else "is no better")


def _trained_on(outcome: HeadOutcome) -> str:
    sets = _counts((one.name, one.trained_on) for one in outcome.data)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in outcome.pairs.items())
    return f"{sets} ({kinds})" if kinds else sets


def _counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in counts)


def _interval(found: Estimate) -> str:
    return f"{found.low:+.4f} to {found.high:+.4f}"


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)
