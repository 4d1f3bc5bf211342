"""``slotrag reconstruct``: what the memory slots of a passage remember of it, with the differences marked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from ..invocation import Invocation
from ..output import bold, clean, one_line, say, say_json, say_pairs, styled
from ..retrieval_options import AsJson

if TYPE_CHECKING:
    from ...rag.icae.reconstructing import Difference, Reconstruction
    from ...rag.results import Hit

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_COLOURS = {"gone": "\x1b[31;9m", "new": "\x1b[32m"}
_MARKS = {"gone": ("[-", "-]"), "new": ("{+", "+}")}
_EDGES = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)


@app.command()
def reconstruct(
    context: typer.Context,
    passage_id: Annotated[
        int, typer.Argument(metavar="PASSAGE_ID", help="A passage's number, as `search --json` tells it.")
    ],
    compressor: Annotated[
        str | None,
        typer.Option("--compressor", metavar="HASH", help="[default: the one that ships for the decoder]"),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Tokens that one slot stands for. [default: the compressor's own]")
    ] = None,
    decoder: Annotated[
        str | None, typer.Option("--decoder", metavar="MODEL", help="Who repeats it. [default: smollm2-135m]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what memory slots remember of a passage: the decoder repeats it from them.

    Words that are lost are marked [-so-] and words that are new {+so+}; on a terminal they are coloured. The token
    accuracy is the share of the passage's tokens that the decoder finds likeliest when it has read those before.
    """
    from ...rag.decoder import Decoder
    from ...rag.icae.reconstructing import compressor_for
    from ...rag.icae.reconstructing import reconstruct as repeated

    invocation: Invocation = context.obj
    settings = invocation.settings(decoder=decoder)
    options = {"device": settings.device, "dtype": settings.decoder_dtype}
    with invocation.library(settings) as library:
        hit = library.passage(passage_id)
        made = compressor_for(settings.decoder, library.models, hash=compressor, rate=rate, **options)
        reader = Decoder.load(settings.decoder, library.models, **options)
        invocation.waiting("repeating")
        found = repeated(hit.text, made, reader)
    if as_json:
        say_json(_as_json(hit, found))
    else:
        _show(hit, found)


def marked(differences: list[Difference]) -> str:
    """The words of both texts with the differences marked: by colour where stdout takes it, otherwise by brackets."""
    return "".join(_marked(kind, clean(text)) for kind, text in differences)


def _marked(kind: str, text: str) -> str:
    if kind not in _MARKS:
        return text
    before, words, after = _EDGES.fullmatch(text).groups()  # pyright: ignore[reportOptionalMemberAccess]
    opening, closing = (_COLOURS[kind], "\x1b[0m") if styled() else _MARKS[kind]
    return f"{before}{opening}{words}{closing}{after or ' '}"


def _show(hit: Hit, found: Reconstruction) -> None:
    say(bold(one_line(hit.path)))
    say(marked(found.differences).rstrip())
    say()
    say_pairs(
        (
            ("token accuracy", f"{found.token_accuracy:.0%}"),
            ("slots", f"{found.slots} for {found.tokens} tokens"),
            ("compressor", f"{found.compressor}, {found.rate:g} tokens a slot"),
        )
    )


def _as_json(hit: Hit, found: Reconstruction) -> dict[str, object]:
    return {
        "schema": 1,
        "passage_id": hit.passage_id,
        "path": hit.path,
        "compressor": found.compressor,
        "rate": found.rate,
        "tokens": found.tokens,
        "slots": found.slots,
        "token_accuracy": found.token_accuracy,
        "stop_reason": found.stop_reason,
        "text": found.text,
        "repeated": found.repeated,
        "differences": [{"kind": kind, "text": text} for kind, text in found.differences],
    }
