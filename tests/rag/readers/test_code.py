"""Reading source code: blocks at definitions, lines of the file, which files are code."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotrag.rag.documents import LineIndex, NoText
from slotrag.rag.readers import read

PYTHON = '''\
"""The boiler."""

import os

COST = 20


def service(year):
    """Every year."""

    return year + 1


class Boiler:
    pump = 1

    def heat(self):
        return os.name
'''

JAVASCRIPT = """\
import { pump } from "./pump";

export function heat(room) {
  const cost = 3;

  return cost;
}

export default class Boiler {
  start() {}
}
"""


def write(folder: Path, text: str, name: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_python_definitions_are_blocks_that_bear_their_names(tmp_path: Path) -> None:
    document = read(write(tmp_path, PYTHON, "boiler.py"))
    assert document.text == PYTHON
    assert document.title == "The boiler."
    assert {block.kind for block in document.blocks} == {"code"}
    named = {b.heading_path: document.text[b.start : b.end] for b in document.blocks if b.heading_path}
    assert named == {
        "service": 'def service(year):\n    """Every year."""\n\n    return year + 1',
        "Boiler": "class Boiler:\n    pump = 1\n\n    def heat(self):\n        return os.name",
    }


def test_braces_close_the_block_that_they_opened(tmp_path: Path) -> None:
    document = read(write(tmp_path, JAVASCRIPT, "boiler.js"))
    named = {b.heading_path: document.text[b.start : b.end] for b in document.blocks if b.heading_path}
    assert list(named) == ["heat", "Boiler"]
    assert named["heat"].endswith("}")


@pytest.mark.parametrize(
    ("source", "name", "defined"),
    [
        ("package main\n\nfunc (b *Boiler) Heat() {\n}\n", "b.go", "Heat"),
        ("use std::io;\n\npub(crate) fn heat() {\n}\n", "b.rs", "heat"),
        ("#include <stdio.h>\n\nstruct boiler {\n  int pump;\n};\n", "b.c", "boiler"),
        ("SELECT 1;\n\nCREATE TABLE rooms (id int);\n", "b.sql", "rooms"),
        ("x = 1\n\nasync def heat():\n    pass\n", "b.py", "heat"),
    ],
)
def test_definitions_of_other_languages(tmp_path: Path, source: str, name: str, defined: str) -> None:
    assert read(write(tmp_path, source, name)).blocks[-1].heading_path == defined


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_lines_are_the_files_own(tmp_path: Path, ends: str) -> None:
    document = read(write(tmp_path, PYTHON.replace("\n", ends), "boiler.py"))
    lines = PYTHON.split("\n")
    index = LineIndex(document.text)
    covered: list[int] = []
    for block in document.blocks:
        first, last = index.lines(block.start, block.end)
        assert "\n".join(lines[first - 1 : last]) == document.text[block.start : block.end]
        covered.extend(range(first, last + 1))
    assert sorted(set(covered)) == covered
    assert {number for number, line in enumerate(lines, 1) if line.strip()} <= set(covered)


def test_a_script_without_suffix_is_known_by_its_first_line(tmp_path: Path) -> None:
    document = read(write(tmp_path, "#!/bin/sh\n# Service the boiler\n\nmake boiler\n", "service"))
    assert document.media_type == "text/x-source"
    assert document.title == "Service the boiler"


def test_the_same_words_without_it_are_text(tmp_path: Path) -> None:
    assert read(write(tmp_path, "make boiler\n", "service")).media_type == "text/plain"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp949"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    source = "# 보일러는 해마다 점검합니다\nx = 1\n"
    path = tmp_path / "boiler.py"
    path.write_bytes(source.encode(encoding))
    assert read(path).text == source


def test_empty_and_blank(tmp_path: Path) -> None:
    for source in ("", "\n \n"):
        with pytest.raises(NoText):
            read(write(tmp_path, source, "__init__.py"))
