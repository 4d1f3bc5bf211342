"""``slotrag eval sts`` and ``slotrag eval classification``: measure an encoder on pairs and on labelled texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..interrupts import cancellable
from ..invocation import Invocation
from ..output import clean, say, say_json
from ..paths import given_path
from ..retrieval_options import AsJson

if TYPE_CHECKING:
    from ...encoders.estimates import Estimate
    from ...rag.evaluation.classification import ClassificationScores
    from ...rag.evaluation.sts import StsScores

EncoderSpec = Annotated[str | None, typer.Option("--encoder", help="Spec of the encoder. [default: the setting's]")]
EncodedAs = Annotated[
    str, typer.Option("--as", metavar="passage|query", help="What the texts are encoded as, where that differs.")
]
Steps = Annotated[
    str,
    typer.Option(
        "--postprocessing",
        metavar="own|none|STEPS",
        help="The encoder's own, none, or steps such as mean+top=3, fitted on these texts.",
    ),
]


def sts(
    context: typer.Context,
    pairs: Annotated[
        Path,
        typer.Option(
            "--pairs", parser=given_path, metavar="FILE", help="STS-B, SICK, KorSTS, STS12-16, or csv, tsv, jsonl; gz."
        ),
    ],
    gold: Annotated[
        Path | None,
        typer.Option("--gold", parser=given_path, metavar="FILE", help="The scores, where they lie in another file."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="FIRST,SECOND,SCORE", help="Names of the columns.")
    ] = None,
    encoder: EncoderSpec = None,
    encoded_as: EncodedAs = "passage",
    postprocessing: Steps = "own",
    as_json: AsJson = False,
) -> None:
    """Measure how well cosines follow people's judgement of how alike two sentences are (Spearman, Pearson)."""
    from ...rag.evaluation.sts import evaluate_sts

    invocation: Invocation = context.obj
    settings = invocation.settings(encoder=encoder)
    with cancellable() as cancel, invocation.progress:
        scores = evaluate_sts(
            pairs,
            gold=gold,
            columns=_split(columns),
            encoder=settings.encoder,
            models=invocation.models(settings),
            encoded_as=encoded_as,
            postprocessing=postprocessing,
            device=settings.device,
            progress=invocation.progress,
            cancel=cancel,
        )
    if as_json:
        say_json(scores.to_json())
    else:
        _show_sts(scores)


def classification(
    context: typer.Context,
    train: Annotated[
        Path, typer.Option("--train", parser=given_path, metavar="FILE", help="csv, tsv or jsonl of texts and labels.")
    ],
    test: Annotated[
        Path, typer.Option("--test", parser=given_path, metavar="FILE", help="The same, of the texts to measure on.")
    ],
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="TEXT,LABEL", help="Names of the columns.")
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(
            "--protocol",
            metavar="mteb|senteval|full",
            help="Train on: a few texts of each label, drawn several times (mteb); all texts, C chosen by "
            "cross-validation (senteval); all texts, C=1 (full).",
        ),
    ] = "mteb",
    per_label: Annotated[int, typer.Option("--per-label", help="Training texts of each label, for mteb.")] = 8,
    draws: Annotated[int, typer.Option("--draws", help="How often they are drawn, for mteb.")] = 10,
    encoder: EncoderSpec = None,
    encoded_as: EncodedAs = "passage",
    postprocessing: Steps = "own",
    as_json: AsJson = False,
) -> None:
    """Measure a logistic regression on an encoder's vectors (accuracy, macro-F1); needs slotrag[eval]."""
    from ...rag.evaluation.classification import evaluate_classification

    invocation: Invocation = context.obj
    settings = invocation.settings(encoder=encoder)
    with cancellable() as cancel, invocation.progress:
        scores = evaluate_classification(
            train,
            test,
            columns=_split(columns),
            protocol=protocol,
            per_label=per_label,
            draws=draws,
            encoder=settings.encoder,
            models=invocation.models(settings),
            encoded_as=encoded_as,
            postprocessing=postprocessing,
            device=settings.device,
            progress=invocation.progress,
            cancel=cancel,
        )
    if as_json:
        say_json(scores.to_json())
    else:
        _show_classification(scores)
    for notice in scores.notices:
        invocation.notice(clean(notice))
    if not scores.converged and not as_json:
        invocation.notice("some regressions used all of their 100 iterations, as they may by the protocol")


def _split(columns: str | None) -> list[str] | None:
    return None if columns is None else [name.strip() for name in columns.split(",")]


def _show_sts(scores: StsScores) -> None:
    say(
        clean(
            f"{scores.dataset}: {scores.pairs:,} pairs, encoder {scores.encoder}, post-processing "
            f"{scores.postprocessing}, {scores.seconds:.1f} s"
        )
    )
    _show_estimates(scores.scores, "95 % interval")


def _show_classification(scores: ClassificationScores) -> None:
    draws = (
        f" ({scores.draws} draws of {scores.per_label} a label)" if scores.protocol == "mteb" else f" (C={scores.c:g})"
    )
    say(
        clean(
            f"{scores.train} -> {scores.test}: {scores.labels:,} labels, {scores.train_texts:,} and "
            f"{scores.test_texts:,} texts, {scores.protocol}{draws}, encoder {scores.encoder}, post-processing "
            f"{scores.postprocessing}, {scores.seconds:.1f} s"
        )
    )
    _show_estimates(scores.scores, "over the draws" if scores.protocol == "mteb" else "95 % interval")


def _show_estimates(scores: dict[str, Estimate], interval: str) -> None:
    say(" " * 21 + interval)
    for name, found in scores.items():
        say(f"{name:<12}{found.value:7.3f}  {found.low:.3f} to {found.high:.3f}")
