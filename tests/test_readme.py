"""The README's commands exist, with the options that it names, and CI runs the very text that stands there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from slotrag.tui.cli import COMMANDS, run

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def command_block(name: str) -> str:
    found = re.search(rf"<!-- command {name} -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found.group(1)


def slotrag_lines() -> list[str]:
    """Every use of the program in the README, in blocks and between backticks."""
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
    prose = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    spans = re.findall(r"`(slotrag [^`]+)`", prose)
    return spans + re.findall(r"(?:^|/)(slotrag [^\n]*)", blocks, re.MULTILINE)


def help_of(*names: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run([*names, "--help"]) == 0
    return capsys.readouterr().out


def test_every_command_is_in_the_table() -> None:
    listed = set(re.findall(r"^\| `slotrag (\w+)", README, re.MULTILINE))
    assert listed == set(COMMANDS)


@pytest.mark.parametrize("line", sorted(set(slotrag_lines())))
def test_commands_and_options_exist(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = re.sub(r'"[^"]*"', "TEXT", line).removesuffix("&&").split()[1:]
    words = [word for number, word in enumerate(words) if word != "--library" and words[number - 1] != "--library"]
    command = words[0]
    assert command in COMMANDS
    text = help_of(command, capsys=capsys)
    second = words[1] if len(words) > 1 and re.fullmatch("[a-z]+", words[1]) and "Commands:" in text else None
    if second:
        assert re.search(rf"^  {second}\b", text, re.MULTILINE), second
        text = help_of(command, second, capsys=capsys)
    for option in (word for word in words if word.startswith("-")):
        assert re.search(rf"(^|\s){re.escape(option)}\b", text, re.MULTILINE), option


def test_options_named_in_the_table_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for command, rest in re.findall(r"^\| `slotrag (\w+)[^|]*\|([^\n]*)", README, re.MULTILINE):
        text = help_of(command, capsys=capsys)
        if "Commands:" in text:
            text += "".join(
                help_of(command, name, capsys=capsys)
                for name in re.findall(r"^  (\w+)", text.partition("Commands:")[2], re.MULTILINE)
                if name != "Everywhere"
            )
        for option in re.findall(r"`(?:[a-z]+ )?(--?[a-z-]+)`", rest):
            assert re.search(rf"(^|\s){re.escape(option)}\b", text, re.MULTILINE), (command, option)


def test_subcommands_named_in_the_table_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for command, first, rest in re.findall(r"^\| `slotrag (\w+) ([a-z]+)`([^|]*)\|", README, re.MULTILINE):
        text = help_of(command, capsys=capsys)
        for name in [first, *re.findall(r"`([a-z]+)`", rest)]:
            assert re.search(rf"^  {name}\b", text, re.MULTILINE), (command, name)


def test_global_options_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys=capsys)
    for option in ("--library", "--offline", "--quiet", "--debug", "--version"):
        assert option in text
    assert all(re.search(rf"^  {name} ", text, re.MULTILINE) for name in COMMANDS)


def test_line_of_each_command_is_that_of_its_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        assert len(help_of(name, capsys=capsys).splitlines()) > 5, name


@pytest.mark.parametrize("name", ["1", "2"])
def test_ci_runs_the_block_that_stands_in_the_readme(name: str) -> None:
    function = re.search(r"^command_of\(\) \{.*?^\}", (ROOT / ".ci" / "run").read_text(), re.DOTALL | re.MULTILINE)
    assert function is not None
    script = f"set -euo pipefail\n{function.group()}\ncommand_of {name}"
    result = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == command_block(name).strip()


@pytest.mark.parametrize("name", ["1", "2"])
def test_blocks_are_one_command_each(name: str) -> None:
    lines = command_block(name).strip().splitlines()
    assert all(line.endswith("&&") for line in lines[:-1])
    assert not lines[-1].endswith("&&")


def test_python_example_names_what_there_is() -> None:
    import inspect

    import slotrag

    block = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert block is not None
    compile(block.group(1), "README.md", "exec")
    for method in re.findall(r"[Ll]ibrary\.(\w+)", block.group(1)):
        assert callable(getattr(slotrag.Library, method))
    assert "k" in inspect.signature(slotrag.Library.search).parameters


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target
