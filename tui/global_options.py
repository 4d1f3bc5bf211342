"""The options that every command takes, before or after its name. It knows no command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import UsageError

_FLAGS = ("--offline", "--debug", "--quiet", "--version")

HELP = (
    "Everywhere: --library DIR (or SLOTRAG_LIBRARY), --offline (fetch no model), --quiet (no progress, no notices), "
    "--debug (show the whole error), --version."
)


@dataclass(frozen=True)
class GlobalOptions:
    """What was said of the options in `HELP`."""

    library: str | None = None
    offline: bool = False
    debug: bool = False
    quiet: bool = False
    version: bool = False


def take(arguments: Sequence[str]) -> tuple[GlobalOptions, list[str]]:
    """Take the global options out of `arguments`, up to a ``--``; the rest keeps its order.

    Raises
    ------
    slotrag.UsageError
        ``--library`` without a folder.

    Examples
    --------
    >>> options, rest = take(["search", "winter", "--library", "notes", "--quiet"])
    >>> options.library, options.quiet, rest
    ('notes', True, ['search', 'winter'])
    >>> take(["search", "--", "--debug"])[1]
    ['search', '--', '--debug']
    """
    rest: list[str] = []
    library: str | None = None
    flags: dict[str, bool] = {}
    waiting = iter(arguments)
    for argument in waiting:
        if argument == "--":
            return GlobalOptions(library, **flags), [*rest, argument, *waiting]
        if argument in _FLAGS:
            flags[argument.removeprefix("--")] = True
        elif argument == "--library" or argument.startswith("--library="):
            library = argument.partition("=")[2] if "=" in argument else next(waiting, "")
            if not library or library == "--":
                raise UsageError("--library needs the folder of a library, as in --library ~/notes-library.")
        else:
            rest.append(argument)
    return GlobalOptions(library, **flags), rest
