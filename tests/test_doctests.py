"""Every module imports, and every example in a docstring gives what it says."""

from __future__ import annotations

import doctest
import importlib
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
NEEDS_EXTRA: dict[str, str] = {}
"""Modules that import only with an optional package, by its import name."""
RUN_BY_ALEMBIC = {"slotrag.storage.migrations.env"}
"""A script, not a module: it needs the context that Alembic runs it in, and each library that is opened runs it."""


def modules() -> list[str]:
    names = []
    for package in PACKAGES:
        folder = ROOT.joinpath(*package.split(".")[1:])
        for path in sorted(folder.glob("*.py")):
            names.append(package if path.stem == "__init__" else f"{package}.{path.stem}")
    return [name for name in names if name not in RUN_BY_ALEMBIC]


@pytest.mark.parametrize("name", modules())
def test_examples(name: str) -> None:
    if name in NEEDS_EXTRA:
        pytest.importorskip(NEEDS_EXTRA[name])
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_the_examples_are_found() -> None:
    finder = doctest.DocTestFinder()
    module = importlib.import_module("slotrag.rag.settings")
    assert sum(bool(test.examples) for test in finder.find(module)) >= 3
