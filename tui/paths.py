"""Paths on the command line, as every command takes them."""

from __future__ import annotations

from pathlib import Path

import typer


def given_path(text: str) -> Path:
    """The path that an option or argument names, ``~`` replaced; for Typer's ``parser``.

    Typer alone would make the working directory of an empty one, such as an unset variable of a script.
    """
    if not text or "\0" in text:
        raise typer.BadParameter("the path is empty; name a folder or a file")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # a user name after "~" that this machine does not know
        raise typer.BadParameter(f"{text} names no home folder on this machine; give the whole path") from error
