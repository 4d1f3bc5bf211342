"""The options that ``search`` and ``ask`` share, declared once."""

from __future__ import annotations

from typing import Annotated

import typer

K = Annotated[int | None, typer.Option("-k", help="Most passages. [default: 5]", show_default=False)]
Collection = Annotated[str | None, typer.Option("--collection", help="Only this collection. [default: all]")]
Mode = Annotated[
    str | None, typer.Option("--mode", metavar="hybrid|dense|lexical", help="Which side finds. [default: hybrid]")
]
PathGlob = Annotated[str | None, typer.Option("--path", metavar="GLOB", help="Only documents whose path matches.")]
MinimumScore = Annotated[
    float | None, typer.Option("--min-score", help="Only passages whose cosine is at least this, -1 to 1.")
]
Diversity = Annotated[
    float | None, typer.Option("--diversity", help="0 to 1: how far near-identical passages give way. [default: 0]")
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]
