"""``slotrag models``: the known language models, fetching, importing and removing one, and importing a compressor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from ..invocation import Invocation
from ..output import say, say_json, say_table, size
from ..paths import given_path
from .models_import_icae import import_icae

if TYPE_CHECKING:
    from ...encoders.backbones.catalogue import ModelEntry

_IMPORT_ICAE = "import icae"


class _Commands(TyperGroup):
    """With one command of two words beside the first one's own form."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if " ".join(args[:2]) == _IMPORT_ICAE and not _names_a_folder(args[2:]):
            return _IMPORT_ICAE, self.commands[_IMPORT_ICAE], args[2:]
        return super().resolve_command(ctx, args)


def _names_a_folder(rest: list[str]) -> bool:
    """Whether ``import icae`` imports a model from a folder of that name: nothing or ``--name`` follows."""
    named = bool(rest) and rest[0].partition("=")[0] == "--name"
    return named or (not rest and Path("icae").is_dir())


app = typer.Typer(
    cls=_Commands, add_completion=False, rich_markup_mode=None, help="List, fetch and import language models."
)


@app.callback(invoke_without_command=True)
def default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        _show(context.obj, as_json=False, measure=False)


@app.command("list")
def list_models(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure this machine's speed with the decoder first.")
    ] = False,
) -> None:
    """List the known models, which of them are here, and the decoder that suits this machine."""
    _show(context.obj, as_json=as_json, measure=measure)


@app.command()
def pull(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Names of the list, or hub ids OWNER/NAME.")],
) -> None:
    """Fetch models, so that they work offline; the folder of each is written."""
    invocation: Invocation = context.obj
    store = invocation.models()
    for name in names:
        with invocation.progress:
            folder = store.resolve(name)
        say(str(folder))


@app.command("import")
def import_model(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(parser=given_path, help="A transformers folder, or one with the wheels of a known model."),
    ],
    name: Annotated[str | None, typer.Option("--name", help="What to call it; by default the folder's name.")] = None,
) -> None:
    """Copy a model from a folder into the model cache.

    A compressor of ICAE's authors is taken over by `slotrag models import icae FILE --base DIR` (with a help of its
    own).
    """
    invocation: Invocation = context.obj
    store = invocation.models()
    with invocation.progress:
        place = store.import_folder(folder, name or folder.resolve().name)
    say(str(place))


app.command(_IMPORT_ICAE)(import_icae)


@app.command()
def remove(context: typer.Context, name: Annotated[str, typer.Argument(help="Name of the model.")]) -> None:
    """Delete a model from the model cache."""
    invocation: Invocation = context.obj
    freed = invocation.models().remove(name)
    invocation.notice(f"{name} is removed, {size(freed)} freed")


def _show(invocation: Invocation, *, as_json: bool, measure: bool) -> None:
    from .. import recommending

    settings = invocation.settings()
    store = invocation.models(settings)
    states = store.entries_with_state()
    if measure:
        with invocation.progress:
            recommending.measure(store, settings)
    speed = recommending.remembered_speed(store)
    advice = recommending.recommended(speed)
    if as_json:
        rows = [_as_json(entry, present, stored) for entry, present, stored in states]
        own = [{"name": name, "present": True} for name in store.imported()]
        say_json({"schema": 1, "models": rows, "imported": own, "recommended_decoder": advice.name})
        return
    rows = [_row(entry, present, stored) for entry, present, stored in states]
    rows += [(name, "imported", "", "", "", "", "here") for name in store.imported()]
    say_table(("model", "role", "weights", "download", "licence", "reads", "state"), rows)
    invocation.notice(recommending.sentence(advice, speed, current=settings.decoder))


def _row(entry: ModelEntry, present: bool, stored: int) -> tuple[str, ...]:
    languages = ", ".join(entry.languages[:4]) + (" ..." if len(entry.languages) > 4 else "")
    languages = "many" if "multilingual" in entry.languages else languages
    parameters = f"{entry.parameters / 1e6:,.0f} M"
    state = f"here, {size(stored)}" if present else "not fetched"
    return (entry.name, entry.role, parameters, size(entry.download_bytes), entry.licence, languages, state)


def _as_json(entry: ModelEntry, present: bool, stored: int) -> dict[str, object]:
    return {
        "name": entry.name,
        "role": entry.role,
        "repository": entry.repository,
        "licence": entry.licence,
        "languages": list(entry.languages),
        "parameters": entry.parameters,
        "download_bytes": entry.download_bytes,
        "present": present,
        "bytes_on_disk": stored,
    }
