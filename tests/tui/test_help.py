"""The help of the commands: the defaults that it names are those that hold."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from slotrag.rag.settings import Settings
from slotrag.tui.cli import run

SETTINGS = {field.name.replace("_", "-"): field.name for field in fields(Settings)}


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("search", {"k", "mode", "diversity"}),
        ("ask", {"k", "mode", "diversity", "context", "decoder", "max-tokens"}),
        ("index", {"encoder"}),
    ],
)
def test_options_that_are_settings_name_their_defaults(
    capsys: pytest.CaptureFixture[str], command: str, named: set[str]
) -> None:
    assert run([command, "--help"]) == 0
    options = re.split(r"\n {2}--?(?=\w)", capsys.readouterr().out)[1:]
    told = {re.match(r"[\w-]+", option)[0]: re.search(r"\[default:\s+([^\]]*)\]", option) for option in options}
    defaults = {name: found[1] for name, found in told.items() if found and name in SETTINGS}
    assert set(defaults) == named == set(told) & set(SETTINGS)
    for name, value in defaults.items():
        assert value == str(getattr(Settings(), SETTINGS[name])).removesuffix(".0"), name
