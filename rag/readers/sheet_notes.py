"""What lies over the cells of an Excel sheet: comments, and the texts of shapes. It knows no rows and no values.

The library that gives the rows one by one passes over both.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from typing import Any

from ..documents import ReadError
from .archives import parse_xml

_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_SHAPE = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}txBody"


def sheet_notes(archive: zipfile.ZipFile, sheet: str) -> Iterator[str]:
    """The comments on a sheet's cells, each with its cell, and the texts of its shapes.

    Parameters
    ----------
    sheet : str
        Name of the sheet's part, ``xl/worksheets/sheet1.xml``.
    """
    for kind, name in _related(archive, sheet):
        if kind == "comments":
            for comment in _root(archive, name).iter(_SHEET + "comment"):
                text = "".join(part.text or "" for part in comment.iter(_SHEET + "t"))
                if text.strip():
                    yield f"Comment on {comment.get('ref', '')}: {' '.join(text.split())}"
        elif kind == "drawing":
            for shape in _root(archive, name).iter(_SHAPE):
                lines = ("".join(part.text or "" for part in one.iter(_DRAWING + "t")) for one in shape)
                if text := " ".join(filter(None, lines)).strip():
                    yield text


def _related(archive: zipfile.ZipFile, part: str) -> Iterator[tuple[str, str]]:
    """(kind, name) of the parts that a part names."""
    folder, name = posixpath.split(part)
    relations = f"{folder}/_rels/{name}.rels"
    if relations not in archive.namelist():
        return
    for relation in _root(archive, relations).iterchildren("{*}Relationship"):
        target = relation.get("Target", "")
        full = target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
        if full in archive.namelist():
            yield relation.get("Type", "").rsplit("/", 1)[-1], full


def _root(archive: zipfile.ZipFile, name: str) -> Any:
    try:
        return parse_xml(archive.read(name))
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise ReadError(f"broken: its part {name} cannot be read") from error
