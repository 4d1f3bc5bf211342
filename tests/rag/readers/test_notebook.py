"""Reading notebooks: Markdown cells as Markdown, code as code, no outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from slotrag.rag.documents import NoText, ReadError
from slotrag.rag.readers import read

PICTURE = "iVBORw0KGgoAAAANSUhEUg" * 50


def write(folder: Path, value: Any, name: str = "house.ipynb") -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def notebook(*cells: dict[str, Any]) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def markdown(*lines: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": list(lines)}


def code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": source, "outputs": list(outputs)}


def test_cells_in_order_under_their_headings(tmp_path: Path) -> None:
    shown = {"output_type": "display_data", "metadata": {}, "data": {"image/png": PICTURE}}
    cells = (
        markdown("# House\n", "\n", "The boiler."),
        code("cost = 20\n\ncost", shown),
        markdown("## Garden\n\n- apple"),
    )
    document = read(write(tmp_path, notebook(*cells)))
    assert [(b.kind, document.text[b.start : b.end], b.heading_path) for b in document.blocks] == [
        ("heading", "# House", "House"),
        ("paragraph", "The boiler.", "House"),
        ("code", "cost = 20\n\ncost", "House"),
        ("heading", "## Garden", "House > Garden"),
        ("list", "- apple", "House > Garden"),
    ]
    assert document.title == "House"
    assert PICTURE[:20] not in document.text


def test_a_comment_in_code_is_no_heading(tmp_path: Path) -> None:
    document = read(write(tmp_path, notebook(code("# not a heading\nx = 1"))))
    assert [block.kind for block in document.blocks] == ["code"]


def test_worksheets_of_the_third_format(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["House"]},
        {"cell_type": "code", "input": ["x = 1"], "outputs": []},
    ]
    document = read(write(tmp_path, {"worksheets": [{"cells": cells}], "nbformat": 3}))
    assert [(b.kind, b.level, document.text[b.start : b.end]) for b in document.blocks] == [
        ("heading", 2, "House"),
        ("code", 0, "x = 1"),
    ]


def test_half_of_a_surrogate_pair_keeps_offsets_right(tmp_path: Path) -> None:
    document = read(write(tmp_path, notebook(markdown("x\ud800y"), code("last"))))
    assert document.text == "x\ufffdy\n\nlast\n"
    assert document.text[document.blocks[-1].start : document.blocks[-1].end] == "last"


@pytest.mark.parametrize("value", ['{"cells": [{"cell_type": "code", ', "{" * 5000, '{"cell_type": ' + "[" * 100_000])
def test_a_broken_notebook_is_an_error_with_a_reason(tmp_path: Path, value: str) -> None:
    with pytest.raises(ReadError, match="broken notebook"):
        read(write(tmp_path, value))


@pytest.mark.parametrize("value", [notebook(), notebook(markdown(" \n")), notebook(code("")), {"cells": 3}])
def test_a_notebook_without_text(tmp_path: Path, value: dict[str, Any]) -> None:
    with pytest.raises(NoText):
        read(write(tmp_path, value))


def test_a_list_under_the_name_of_a_notebook_is_read_as_text(tmp_path: Path) -> None:
    assert read(write(tmp_path, "[1, 2]")).text == "[1, 2]"


def test_short_outputs_are_read_and_others_are_counted(tmp_path: Path) -> None:
    outputs = (
        {"output_type": "stream", "name": "stdout", "text": ["The boiler is \n", "\x1b[31m17\x1b[0m years old\n"]},
        {"output_type": "execute_result", "data": {"text/plain": "42.5", "text/html": "<b>42.5</b>"}},
        {"output_type": "error", "ename": "KeyError", "evalue": "'garden'", "traceback": ["long"]},
        {"output_type": "stream", "name": "stdout", "text": "log " * 1000},
        {"output_type": "display_data", "data": {"image/png": PICTURE, "text/plain": "<Figure size 640x480>"}},
    )
    document = read(write(tmp_path, notebook(code("cost()", *outputs))))
    assert document.text == "cost()\n\nThe boiler is\n17 years old\n\n42.5\n\nKeyError: 'garden'\n".replace(
        "is\n", "is \n"
    )
    assert document.notes == ["2 outputs left out: without text, or longer than 2,000 characters"]
    assert not document.partial
