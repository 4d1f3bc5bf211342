"""Jupyter notebooks: the cells in order, Markdown as Markdown, code as code with its short text outputs.

Longer outputs and those without a text are left out, and a note says how many; pictures are, too.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ..documents import Document, NoText, ReadError, normalise
from .base import Reader
from .builder import DocumentBuilder
from .decoding import looks_like_text, read_text
from .markdown import markdown_blocks

OUTPUT_LENGTH = 2000
"""Most characters of an output that is read: a result and not a log."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class NotebookReader(Reader):
    """Reads ipynb of format 3 and later."""

    name = "notebook"
    version = "2"
    media_types = ("application/x-ipynb+json",)
    suffixes = (".ipynb",)

    def sniff(self, head: bytes, path: Path) -> float:
        if not looks_like_text(head) or head.lstrip()[:1] != b"{":
            return 0.0
        return 0.9 if b'"cell_type"' in head else 0.2

    def read(self, path: Path) -> Document:
        try:
            source = json.loads(read_text(path))
        except (ValueError, RecursionError) as error:
            raise ReadError(f"broken notebook: {error}") from error
        builder = DocumentBuilder(self.media_types[0])
        left_out = 0
        for cell in _cells(source):
            _add_cell(builder, cell)
            left_out += _add_outputs(builder, cell)
        if left_out:
            outputs = "1 output" if left_out == 1 else f"{left_out} outputs"
            builder.notes.append(f"{outputs} left out: without text, or longer than {OUTPUT_LENGTH:,} characters")
        if not builder.length:
            raise NoText("no cell with text")
        return builder.document()


def _cells(source: Any) -> list[Any]:
    if not isinstance(source, dict):
        raise ReadError("broken notebook: it holds no cells")
    cells = source.get("cells")
    if cells is None:
        sheets = source.get("worksheets") or [{}]
        cells = sheets[0].get("cells", []) if isinstance(sheets, list) and isinstance(sheets[0], dict) else []
    return [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []


def _add_cell(builder: DocumentBuilder, cell: dict[str, Any]) -> None:
    source = cell.get("source", cell.get("input", ""))
    text = normalise("".join(map(str, source)) if isinstance(source, list) else str(source))
    kind = cell.get("cell_type")
    if not text.strip():
        return
    if kind == "heading":
        level = cell.get("level", 1)
        builder.heading(text, level if isinstance(level, int) else 1)
    elif kind == "markdown":
        builder.add_all(text.strip("\n"), markdown_blocks(text.strip("\n"))[0], keep_headings=True)
    else:
        builder.add("code", text)


def _add_outputs(builder: DocumentBuilder, cell: dict[str, Any]) -> int:
    """Append the short texts that a cell gave; the number of outputs left out."""
    outputs = cell.get("outputs")
    left_out = 0
    for output in outputs if isinstance(outputs, list) else []:
        if not isinstance(output, dict):
            continue
        text = _output_text(output)
        if text is None or len(text) > OUTPUT_LENGTH:
            left_out += 1
        else:
            builder.add("code", text)
    return left_out


def _output_text(output: dict[str, Any]) -> str | None:
    """The text of an output, None where it has none: a picture's is but a name of its kind."""
    data = output.get("data", output)
    data = data if isinstance(data, dict) else {}
    if output.get("output_type") in ("error", "pyerr"):
        return _COLOURS.sub("", f"{output.get('ename', '')}: {output.get('evalue', '')}")
    if any(str(kind).startswith("image/") for kind in data) or "png" in data:
        return None
    text = data.get("text/plain", data.get("text"))
    if text is None:
        return None
    return _COLOURS.sub("", normalise("".join(map(str, text)) if isinstance(text, list) else str(text)))
