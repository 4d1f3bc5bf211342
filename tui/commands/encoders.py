"""``slotrag encoders``: the installed encoders, the fingerprint of one, calibrating, exporting and importing."""

from __future__ import annotations

from typing import Annotated

import typer

from ..invocation import Invocation
from ..output import say, say_json, say_pairs
from .encoders_calibrate import calibrate
from .encoders_export import export
from .encoders_import import import_weights

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="List, calibrate, export and import encoders.")


@app.callback(invoke_without_command=True)
def default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        _show(context.obj, as_json=False)


@app.command("list")
def list_encoders(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False
) -> None:
    """List the installed encoders; a spec is NAME[@BACKBONE][:key=value,...]."""
    _show(context.obj, as_json=as_json)


@app.command()
def fingerprint(
    context: typer.Context,
    spec: Annotated[str | None, typer.Argument(help="An encoder's spec; by default the setting's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Show what decides an encoder's vectors, as a hash; two equal ones give equal vectors."""
    from ...encoders import registry

    invocation: Invocation = context.obj
    settings = invocation.settings(encoder=spec)
    with invocation.progress:
        encoder = registry.create(settings.encoder, invocation.models(settings), device=settings.device)
    if as_json:
        values = {"spec": encoder.spec, "fingerprint": encoder.fingerprint, "dimension": encoder.dimension}
        say_json({"schema": 1, **values, "max_tokens": encoder.max_tokens})
        return
    say_pairs(
        (
            ("spec", encoder.spec),
            ("fingerprint", encoder.fingerprint),
            ("dimension", encoder.dimension),
            ("most tokens", encoder.max_tokens),
        )
    )


app.command()(calibrate)
app.command()(export)
app.command("import")(import_weights)


def _show(invocation: Invocation, *, as_json: bool) -> None:
    from ...encoders import registry
    from ...encoders.backbones.catalogue import DEFAULT_MULTILINGUAL_BACKBONE

    if as_json:
        say_json({"schema": 1, "encoders": registry.names()})
        return
    for name in registry.names():
        say(name)
    better = f"mean@{DEFAULT_MULTILINGUAL_BACKBONE}"
    invocation.notice(f"for Korean and other languages than English: slotrag index FOLDER --encoder {better}")
