"""``slotrag eval``: measure how good the retrieval is on a data set with known answers."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Measure retrieval.")


@app.callback()
def root() -> None:
    pass
