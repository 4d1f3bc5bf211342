"""The command ``slotrag``: which commands there are, and what happens to their errors.

A command's module is imported when it is called, so that ``--help`` costs next to nothing. It knows no command's work.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

_ON_INTERRUPT = signal.getsignal(signal.SIGINT)
if _ON_INTERRUPT is signal.default_int_handler:
    with suppress(ValueError):  # not the main thread
        # Ctrl-C during the imports below ends the program here; as an error it would show their traceback.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))

from .. import __version__  # noqa: E402
from . import failures, global_options  # noqa: E402
from .output import columns, say, set_up_streams, tell  # noqa: E402

if _ON_INTERRUPT is signal.default_int_handler:
    with suppress(ValueError):
        signal.signal(signal.SIGINT, _ON_INTERRUPT)

COMMANDS = {
    "index": "Add folders and files, or refresh what was added.",
    "search": "Find passages.",
    "ask": "Answer a question from the documents.",
    "reconstruct": "Show what memory slots remember of a passage.",
    "status": "Show what the library holds and what is pending.",
    "collections": "List the collections.",
    "remove": "Take a file, folder or source out of the library.",
    "rebuild": "Make a collection anew, also with another encoder.",
    "doctor": "Check the library and this installation.",
    "models": "List, fetch and import language models.",
    "encoders": "List, calibrate, export and import encoders.",
    "train": "Train the head of an encoder, also on your own documents, or a compressor (train icae).",
    "sessions": "List, show, export and delete conversations.",
    "config": "Show and change settings.",
    "eval": "Measure retrieval and encoders.",
}
"""Each command with its line in ``--help``; its module in `commands` has the same name (``eval`` -> ``evaluation``)."""

_MODULES = {"eval": "evaluation"}

_OF_THEIR_OWN = {"train icae": "train_icae"}
"""Commands of two words that are no form of the first one's command, and their modules."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit with its code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the program; the exit code."""
    debug = "--debug" in arguments
    try:
        set_up_streams()
        options, rest = global_options.take(arguments)
        if options.version:
            say(f"slotrag {__version__}")
            code = failures.OK
        elif not rest or rest[0] == "--help":  # without Typer, which takes longer to import than all of this
            say(help_text())
            code = failures.OK if rest else failures.USAGE
        else:
            code = _run_command(options, rest)
        sys.stdout.flush()
        return code
    except (Exception, KeyboardInterrupt) as error:
        return _flushed(failures.report(error, debug=debug))


def help_text() -> str:
    """What ``slotrag --help`` says."""
    import textwrap

    width = min(columns(), 100)
    indent = 2 + max(map(len, COMMANDS)) + 2
    lines = [
        textwrap.fill(text, width, initial_indent=f"  {name}".ljust(indent), subsequent_indent=" " * indent)
        for name, text in COMMANDS.items()
    ]
    everywhere = textwrap.fill(global_options.HELP, width)
    return "\n".join(
        ["Usage: slotrag COMMAND [OPTIONS] [ARGUMENTS]", "", "Ask your own documents, on your own machine.", "",
         "Commands (slotrag COMMAND --help says more):", *lines, "", everywhere]
    )  # fmt: skip


def command() -> Any:
    """The root command, its subcommands not imported yet."""
    import typer
    from typer.core import TyperGroup
    from typer.main import get_command

    class Commands(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name not in COMMANDS:
                return None
            return self._of_module(_MODULES.get(cmd_name, cmd_name), cmd_name)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name = " ".join(args[:2])
            if name in _OF_THEIR_OWN:
                return name, self._of_module(_OF_THEIR_OWN[name], name), args[2:]
            return super().resolve_command(ctx, args)

        def _of_module(self, module: str, name: str) -> Any:
            found = get_command(import_module(f".commands.{module}", __package__).app)
            found.name = name
            found.epilog = found.epilog or global_options.HELP
            return found

        def format_help(self, ctx: Any, formatter: Any) -> None:
            formatter.write(help_text() + "\n")

    app = typer.Typer(cls=Commands, add_completion=False, rich_markup_mode=None)

    @app.callback()
    def root() -> None:
        pass

    # Typer's "did you mean" looks at the commands that it holds itself.
    group: Any = get_command(app)
    group.commands = dict.fromkeys(COMMANDS)
    return group


def _run_command(options: global_options.GlobalOptions, arguments: list[str]) -> int:
    import typer
    from typer.exceptions import TyperException

    from .invocation import Invocation

    _set_up_messages_of_libraries(debug=options.debug)
    root = command()
    try:
        with root.make_context("slotrag", arguments, obj=Invocation(options)) as context:
            root.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except TyperException as error:
        return _wrong_use(error)
    return failures.OK


def _set_up_messages_of_libraries(*, debug: bool) -> None:
    """Keep the libraries' own warnings, logs and bars off the terminal; ``--debug`` shows them."""
    import logging
    import warnings

    if debug:
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("slotrag").setLevel(logging.DEBUG)
        return
    warnings.simplefilter("ignore")
    logging.lastResort = None
    # Read by the libraries when they are imported, which happens later.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def _wrong_use(error: Any) -> int:
    """Say what is wrong with the command line, and where its help is."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        say(context.get_help())
        return failures.USAGE
    path = context.command_path if context is not None else "slotrag"
    text = " ".join(error.format_message().split()).rstrip(".")
    tell(f"slotrag: {text} (see {path} --help)")
    return getattr(error, "exit_code", failures.USAGE)


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError as error:
        failures.close_stdout()
        if not isinstance(error, BrokenPipeError):
            tell(f"slotrag: the output cannot be written ({error.strerror})")
            return failures.ERROR
    return code
