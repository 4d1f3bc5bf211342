"""No command takes the working directory for a path that is empty."""

import inspect
import os
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer
from slotrag.tui import commands
from slotrag.tui.paths import given_path


def callbacks() -> list[Any]:
    """The functions of all commands."""
    names = [module.name for module in pkgutil.iter_modules(commands.__path__)]
    modules = [import_module(f"slotrag.tui.commands.{name}") for name in names]
    apps = [module.app for module in modules if hasattr(module, "app")]
    return [command.callback for app in apps for command in app.registered_commands]


@pytest.mark.parametrize("callback", callbacks(), ids=lambda callback: f"{callback.__module__}.{callback.__name__}")
def test_every_path_is_parsed_in_one_place(callback: Any) -> None:
    hints = get_type_hints(callback, include_extras=True)
    for name in inspect.signature(callback).parameters:
        annotation, *extras = get_args(hints[name]) or (hints[name],)
        if extras and Path in (annotation, *get_args(annotation)):
            assert [getattr(extra, "parser", None) for extra in extras] == [given_path], name


@pytest.mark.parametrize("text", ["", "a\0b", "~no-such-user/x"])
def test_what_names_no_path_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        given_path(text)


def test_home_and_bytes_that_are_no_text() -> None:
    assert given_path("~/x") == Path.home() / "x"
    assert os.fsencode(given_path(os.fsdecode(b"caf\xe9"))) == b"caf\xe9"
