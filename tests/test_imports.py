"""Who may import whom, and what the quick commands must not import."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
FOLDERS = {"encoders", "index", "storage", "rag", "tui"}
ALLOWED = {
    "encoders": set(),
    "index": set(),
    "storage": set(),
    "rag": {"encoders", "index", "storage"},
    "tui": {"rag", "encoders"},
}
HEAVY = {"torch", "transformers", "faiss"}
NETWORKS = {
    *(f"slotrag.encoders.heads.{name}" for name in ("glot", "ilse", "simple")),
    *(f"slotrag.encoders.training.{name}" for name in ("losses", "mean_pooling")),
    "slotrag.rag.icae.model",
    *(f"slotrag.rag.icae.training.{name}" for name in ("loop", "objectives")),
}
"""Modules of torch networks and what they are trained by, imported only where one is built."""
HEAVY_FOR_HELP = HEAVY | {"textual", "langchain", "langchain_core", "sqlalchemy", "alembic", "numpy", "rich"}


def modules_of(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def module_names(*folders: str) -> list[str]:
    """Dotted names of the modules below `folders`; package markers too."""
    names = []
    for folder in folders:
        for path in modules_of(folder):
            parts = path.relative_to(ROOT).with_suffix("").parts
            names.append(".".join(("slotrag", *(parts[:-1] if parts[-1] == "__init__" else parts))))
    return names


def imported_folders(path: Path) -> set[str]:
    """The folders of the package that a module imports from, whether relatively or by the whole name."""
    package = ("slotrag", *path.relative_to(ROOT).parent.parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        targets: list[tuple[str, ...]] = []
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            whole = (*base, *(node.module.split(".") if node.module else ()))
            targets = [(*whole, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            targets = [tuple(alias.name.split(".")) for alias in node.names]
        found |= {target[1] for target in targets if len(target) > 1 and target[0] == "slotrag"}
    return found & FOLDERS


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_arrows_between_folders(folder: str) -> None:
    wrong = {
        str(path.relative_to(ROOT)): sorted(imported_folders(path) - ALLOWED[folder] - {folder})
        for path in modules_of(folder)
    }
    assert not {name: folders for name, folders in wrong.items() if folders}


def test_the_arrow_check_sees_every_form_of_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    module = tmp_path / "index" / "module.py"
    module.parent.mkdir()
    module.write_text("from ..storage import Catalog\nfrom .. import rag\nimport slotrag.tui.cli\n", encoding="utf-8")
    assert imported_folders(module) == {"storage", "rag", "tui"}


def test_every_folder_with_modules_is_a_listed_package() -> None:
    found = {"slotrag"} | {
        ".".join(("slotrag", *path.relative_to(ROOT).parent.parts)) for name in FOLDERS for path in modules_of(name)
    }
    assert found == set(PACKAGES)


def modules_after(code: str, **environment: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after `code`."""
    import os

    ending = "\nimport json, sys\nsys.stderr.write('\\n' + json.dumps(sorted({n.split('.')[0] for n in sys.modules})))"
    result = subprocess.run(
        [sys.executable, "-c", code + ending],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stderr.splitlines()[-1]))


def after_command(*arguments: str, expected: int = 0, **environment: str) -> set[str]:
    code = f"from slotrag.tui.cli import run\nassert run({list(arguments)!r}) == {expected}"
    return modules_after(code, **environment)


def test_library_name_alone_imports_nothing_heavy() -> None:
    assert not modules_after("import slotrag; slotrag.Answer") & HEAVY_FOR_HELP


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=" ".join)
def test_help_and_version_import_next_to_nothing(arguments: list[str]) -> None:
    assert not after_command(*arguments) & HEAVY_FOR_HELP


def test_help_of_every_command_imports_no_model_library() -> None:
    code = (
        "from slotrag.tui.cli import COMMANDS, run\nfor name in COMMANDS:\n    assert run([name, '--help']) == 0, name"
    )
    assert not modules_after(code) & HEAVY_FOR_HELP


def test_modules_import_without_model_libraries() -> None:
    names = [name for name in module_names("encoders", "rag", "tui") if name not in NETWORKS]
    assert not modules_after(f"import importlib\nfor name in {names!r}: importlib.import_module(name)") & HEAVY


def test_listing_commands_import_no_model_library(
    tmp_path: Path, plugin_path: Path, hashing_encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slotrag.tui.cli import run

    (tmp_path / "note.txt").write_text("The heating is serviced in September.", encoding="utf-8")
    assert run(["index", str(tmp_path / "note.txt"), "--encoder", hashing_encoder, "--quiet"]) == 0
    listings = (["status"], ["collections"], ["models"], ["encoders"], ["sessions"], ["config", "show", "--origin"])
    for arguments in listings:
        loaded = after_command(*arguments, PYTHONPATH=str(plugin_path))
        assert not loaded & (HEAVY | {"langchain_core", "textual"}), arguments
