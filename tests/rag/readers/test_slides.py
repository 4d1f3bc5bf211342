"""Reading presentations: a slide is a page, its title a heading."""

from __future__ import annotations

from pathlib import Path

import pptx
import pytest
from pptx.util import Inches
from slotrag.rag.documents import NoText
from slotrag.rag.readers import read


def test_slides_are_pages_with_titles_texts_tables_and_notes(tmp_path: Path) -> None:
    source = pptx.Presentation()
    first = source.slides.add_slide(source.slide_layouts[1])
    first.shapes.title.text = "Heating"
    first.placeholders[1].text = "The boiler is serviced in September."
    first.notes_slide.notes_text_frame.text = "Ask the landlord."
    second = source.slides.add_slide(source.slide_layouts[5])
    second.shapes.title.text = "Costs"
    table = second.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for number, text in enumerate(("Item", "Price", "Water", "20")):
        table.cell(number // 2, number % 2).text = text
    path = tmp_path / "a.pptx"
    source.save(str(path))

    document = read(path)
    headings = [block for block in document.blocks if block.kind == "heading"]
    assert [document.text[block.start : block.end] for block in headings] == ["Heating", "Costs"]
    assert [block.page for block in headings] == [1, 2]
    for words, page in (("serviced in September", 1), ("Ask the landlord", 1), ("Water", 2)):
        assert document.page_at(document.text.index(words)) == page
    assert any(block.kind == "table" and block.page == 2 for block in document.blocks)


def test_slides_without_text(tmp_path: Path) -> None:
    source = pptx.Presentation()
    source.slides.add_slide(source.slide_layouts[6])
    path = tmp_path / "a.pptx"
    source.save(str(path))
    with pytest.raises(NoText):
        read(path)
