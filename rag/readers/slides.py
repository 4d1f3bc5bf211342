"""PowerPoint presentations (pptx): the slides' titles, texts, tables, charts, diagrams, speaker notes and comments.

A slide is a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ..documents import Document, NoText
from .archives import check_archive, office_score, parse_xml
from .base import Reader
from .builder import DocumentBuilder
from .tables import table_lines

_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_MATH_TEXT = "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"


class SlidesReader(Reader):
    """Reads pptx."""

    name = "PowerPoint"
    version = "2"
    media_types = ("application/vnd.openxmlformats-officedocument.presentationml.presentation",)
    suffixes = (".pptx",)

    def sniff(self, head: bytes, path: Path) -> float:
        return office_score(head, path, "ppt/presentation.xml", self.suffixes)

    def read(self, path: Path) -> Document:
        check_archive(path)
        import pptx

        presentation = pptx.Presentation(str(path))
        builder = DocumentBuilder(self.media_types[0])
        title = presentation.core_properties.title or ""
        builder.title = "" if title == "PowerPoint Presentation" else title
        for slide in presentation.slides:
            builder.start_page()
            _add_slide(builder, slide)
        if not builder.length:
            raise NoText("no text on any slide")
        return builder.document()


def _add_slide(builder: DocumentBuilder, slide: Any) -> None:
    title = slide.shapes.title
    builder.new_section()
    if title is not None:
        builder.heading(title.text_frame.text, 1)
    for shape in _shapes(slide.shapes):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if shape.has_text_frame:
            _add_text(builder, shape.text_frame)
        elif getattr(shape, "has_table", False):
            rows = [[cell.text for cell in row.cells] for row in shape.table.rows]
            builder.add("table", "\n".join(table_lines(rows)))
        elif getattr(shape, "has_chart", False):
            _add_chart(builder, shape.chart.part.blob)
    _add_parts(builder, slide.part, "diagramData", "")
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text
        if notes.strip():
            builder.add("paragraph", f"Notes: {notes}")
    _add_parts(builder, slide.part, "comments", "Comment: ")


def _add_chart(builder: DocumentBuilder, data: bytes) -> None:
    """The titles of a chart and its numbers as a table: a column for each series, a row for each category."""
    root = parse_xml(data)
    for title in root.iter(_CHART + "title"):
        builder.add("paragraph", " ".join(_paragraphs(title)))
    series = list(root.iter(_CHART + "ser"))
    categories = next((found for one in series if (found := _points(one, "cat") or _points(one, "xVal"))), [])
    names = ["".join(part.text or "" for tx in one.iterchildren(_CHART + "tx") for part in tx.iter(_CHART + "v"))
             for one in series]  # fmt: skip
    values = [_points(one, "val") or _points(one, "yVal") for one in series]
    rows = [["", *names], *(list(row) for row in zip_longest(categories, *values, fillvalue=""))]
    builder.add("table", "\n".join(line for line in table_lines(rows, header=any(names)) if line))


def _points(series: Any, name: str) -> list[str]:
    """The values of a series, or the names of its categories, as the program kept them."""
    data = series.find(_CHART + name)
    if data is None:
        return []
    found = {point.get("idx", ""): point.findtext(_CHART + "v") or "" for point in data.iter(_CHART + "pt")}
    numbers = [int(number) for number in found if number.isdecimal()]
    if not numbers or max(numbers) > 10 * len(numbers) + 1000:  # a broken file may number them at will
        return list(found.values())
    return [found.get(str(number), "") for number in range(max(numbers) + 1)]


def _add_parts(builder: DocumentBuilder, part: Any, kind: str, label: str) -> None:
    """The texts of a slide's other parts of a kind: its diagrams (SmartArt), its comments."""
    for relation in part.rels.values():
        if not relation.is_external and relation.reltype.endswith(f"/{kind}"):
            for text in _paragraphs(parse_xml(relation.target_part.blob)):
                builder.add("paragraph", label + text)


def _paragraphs(root: Any) -> list[str]:
    """The texts of the paragraphs in an element; older comments hold theirs in an element of its own."""
    texts = ["".join(part.text or "" for part in one.iter(_DRAWING + "t")) for one in root.iter(_DRAWING + "p")]
    texts += [one.text or "" for one in root.iter("{http://schemas.openxmlformats.org/presentationml/2006/main}text")]
    return [" ".join(text.split()) for text in texts if text.strip()]


def _shapes(shapes: Iterable[Any]) -> Iterator[Any]:
    """The shapes of a slide, groups opened."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        else:
            yield shape


def _add_text(builder: DocumentBuilder, frame: Any) -> None:
    """A frame of one paragraph is a paragraph, one of several is a list."""
    texts = [" ".join(_with_formulas(paragraph).split()) for paragraph in frame.paragraphs]
    texts = [text for text in texts if text]
    if len(texts) == 1:
        builder.add("paragraph", texts[0])
    elif texts:
        builder.add("list", "\n".join(f"- {text}" for text in texts))


def _with_formulas(paragraph: Any) -> str:
    """The text of a paragraph; its formulas, which the library passes over, after it."""
    formulas = "".join(part.text or "" for part in paragraph._p.iter(_MATH_TEXT))
    return f"{paragraph.text} {formulas}"
