"""``slotrag config``: the settings that hold, where each comes from, and changing one."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ..invocation import Invocation
from ..output import say, say_json, say_table

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Show and change settings.")


@app.callback(invoke_without_command=True)
def default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        _show(context.obj, origin=False, as_json=False)


@app.command()
def show(
    context: typer.Context,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value comes from.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Show the settings that hold now."""
    _show(context.obj, origin=origin, as_json=as_json)


@app.command("set")
def set_value(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the setting.")],
    value: Annotated[str, typer.Argument(help="Its new value.")],
) -> None:
    """Set a value in config.toml; comments in it stay."""
    from ...rag import settings

    invocation: Invocation = context.obj
    file = settings.write(name, value)
    invocation.notice(f"{name} is set in {file}")
    if os.environ.get(settings.variable_of(name)):
        invocation.notice(f"{settings.variable_of(name)} is set too and goes before it")


def _show(invocation: Invocation, *, origin: bool, as_json: bool) -> None:
    from ...rag import settings
    from ...rag.locations import config_file

    current = invocation.settings()
    values = {name: getattr(current, name) for name in settings.names()}
    origins = settings.origins(current)
    if as_json:
        say_json({"schema": 1, "file": str(config_file()), "settings": values, "origins": origins})
        return
    for unknown in settings.unknown_variables():
        invocation.notice(f"{unknown} sets nothing; the variables are SLOTRAG_ and a name below in capitals")
    invocation.notice(f"settings file: {config_file()}{'' if config_file().exists() else ' (not there yet)'}")
    if origin:
        say_table(("setting", "value", "from"), [(name, _text(value), origins[name]) for name, value in values.items()])
        return
    for name, value in values.items():
        say(f"{name} = {_text(value)}")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
