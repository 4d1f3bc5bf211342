"""``slotrag encoders export``: write an encoder as a sentence-transformers folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..invocation import Invocation
from ..output import say
from ..paths import given_path


def export(
    context: typer.Context,
    spec: Annotated[str, typer.Argument(help="The encoder's spec, such as mean@e5-small.")],
    folder: Annotated[Path, typer.Argument(parser=given_path, metavar="FOLDER", help="A new folder.")],
) -> None:
    """Write an encoder as a folder that sentence-transformers loads, where its method allows it; the folder is
    written."""
    from ...encoders.export import export

    invocation: Invocation = context.obj
    settings = invocation.settings(encoder=spec)
    with invocation.progress:
        place = export(settings.encoder, folder, invocation.models(settings))
    say(str(place))
