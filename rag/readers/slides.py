"""PowerPoint presentations (pptx): the slides' titles, texts, tables and speaker notes; a slide is a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..documents import Document, NoText
from .archives import check_archive, office_score
from .base import Reader
from .builder import DocumentBuilder
from .tables import table_lines


class SlidesReader(Reader):
    """Reads pptx."""

    name = "PowerPoint"
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
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text
        if notes.strip():
            builder.add("paragraph", f"Notes: {notes}")


def _shapes(shapes: Iterable[Any]) -> Iterator[Any]:
    """The shapes of a slide, groups opened."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        else:
            yield shape


def _add_text(builder: DocumentBuilder, frame: Any) -> None:
    """A frame of one paragraph is a paragraph, one of several is a list."""
    texts = [" ".join(paragraph.text.split()) for paragraph in frame.paragraphs]
    texts = [text for text in texts if text]
    if len(texts) == 1:
        builder.add("paragraph", texts[0])
    elif texts:
        builder.add("list", "\n".join(f"- {text}" for text in texts))
