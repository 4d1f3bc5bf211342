"""``slotrag encoders import``: weights that the authors of GLOT and ILSE trained, as a head of an encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..invocation import Invocation
from ..output import say, say_json
from ..paths import given_path
from ..retrieval_options import AsJson


def import_weights(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(parser=given_path, metavar="FILE|FOLDER", help="The weights, or a folder with one file.")
    ],
    backbone: Annotated[str, typer.Option("--backbone", metavar="MODEL", help="The model that it was trained on.")],
    tau: Annotated[
        float | None,
        typer.Option("--tau", help="GLOT: the threshold that it was trained with, in the authors' script 0.3."),
    ] = None,
    layer: Annotated[
        int | None, typer.Option("--layer", help="GLOT: the layer whose states it was trained on. [default: the last]")
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option("--graph", metavar="cayley|fc|set", help="ILSE: where the file does not say it."),
    ] = None,
    aggregation: Annotated[
        str | None,
        typer.Option("--aggregation", metavar="mean|sum", help="ILSE: where the file does not say it. [default: mean]"),
    ] = None,
    query_prefix: Annotated[
        str | None, typer.Option("--query-prefix", help="Before every query. [default: the model's own]")
    ] = None,
    passage_prefix: Annotated[
        str | None, typer.Option("--passage-prefix", help="Before every passage. [default: the model's own]")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option("--max-length", min=1, help="Tokens of one text. [default: the model's own]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take over weights that others have trained, as a head; the spec of the encoder is written.

    Read are the state dict of GLOT's training script (GAT layers, or AdaPool) and what ILSE's package ilge saves (a
    classifier, or an aggregator's state dict), as safetensors or as .pt. A .pt that is more than weights is refused,
    as are weights of other sizes than the model's: nothing in a file is run.
    """
    from ...encoders.heads.checkpoint import save_head
    from ...encoders.heads.importing import import_head, spec_of

    invocation: Invocation = context.obj
    given = {"query_prefix": query_prefix, "passage_prefix": passage_prefix, "max_length": max_length}
    settings = {name: str(value) for name, value in given.items() if value is not None}
    models = invocation.models()
    with invocation.progress:
        checkpoint = import_head(
            file, models, backbone, tau=tau, layer=layer, graph=graph, aggregation=aggregation, **settings
        )
        place = save_head(checkpoint, models)
    spec = spec_of(checkpoint, backbone)
    if as_json:
        say_json({"schema": 1, "spec": spec, "file": str(place), "head": checkpoint.config.to_json()})
        return
    say(spec)
    invocation.notice(f"the head lies in {place}; index with it by --encoder and the spec above")
