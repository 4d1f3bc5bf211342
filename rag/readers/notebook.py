"""Jupyter notebooks: the cells in order, Markdown as Markdown, code as code. Outputs are left out: they are derived,
often pictures, and come back when the notebook runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..documents import Document, NoText, ReadError, normalise
from .base import Reader
from .builder import DocumentBuilder
from .decoding import looks_like_text, read_text
from .markdown import markdown_blocks


class NotebookReader(Reader):
    """Reads ipynb of format 3 and later."""

    name = "notebook"
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
        for cell in _cells(source):
            _add_cell(builder, cell)
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
