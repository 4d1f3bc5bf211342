"""``slotrag models import icae``: a compressor that ICAE's authors trained, put beside the model it was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..invocation import Invocation
from ..output import say, say_json
from ..paths import given_path
from ..retrieval_options import AsJson


def import_icae(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(parser=given_path, metavar="FILE", help="The checkpoint: .safetensors, .pt or .bin.")
    ],
    base: Annotated[
        str,
        typer.Option("--base", metavar="DIR", help="The model that it was trained on: its folder or name."),
    ],
    alpha: Annotated[float, typer.Option("--alpha", help="LoRA's, which the files do not hold.")] = 32.0,
    as_json: AsJson = False,
) -> None:
    """Take over a compressor from a checkpoint of ICAE's authors; its hash is written.

    Read are the safetensors of memory table and LoRA, and v1 .pt files, which hold the base weights too. A file that
    is more than weights is refused, as are weights of other sizes than the model's: nothing in a file is run.
    """
    from ...rag.icae.checkpoint import save_compressor
    from ...rag.icae.importing import import_icae as read

    invocation: Invocation = context.obj
    models = invocation.models()
    with invocation.progress:
        checkpoint = read(file, models, base, alpha=alpha)
        place = save_compressor(checkpoint, models)
    if as_json:
        say_json(
            {
                "schema": 1,
                "hash": checkpoint.hash,
                "file": str(place),
                "base": base,
                "config": checkpoint.config.to_json(),
            }
        )
        return
    say(checkpoint.hash)
    config = checkpoint.config
    invocation.notice(
        f"the compressor lies in {place}; it makes {config.slots_per_segment} slots of up to {config.segment_tokens} "
        f"tokens, for {base}"
    )
