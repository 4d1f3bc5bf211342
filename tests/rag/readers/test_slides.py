"""Reading presentations: a slide is a page, its title a heading."""

from __future__ import annotations

from pathlib import Path

import pptx
import pytest
from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI
from pptx.oxml import parse_xml
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


def test_charts_are_read_as_tables_with_their_titles(tmp_path: Path) -> None:
    source = pptx.Presentation()
    slide = source.slides.add_slide(source.slide_layouts[5])
    data = CategoryChartData()
    data.categories = ["Water", "Power"]
    data.add_series("2023", (20, 35.5))
    data.add_series("Spring", (21, None))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, Inches(4), Inches(3), data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Costs of the house"
    points = XyChartData()
    series = points.add_series("Heat")
    series.add_data_point(1.5, 40)
    slide.shapes.add_chart(XL_CHART_TYPE.XY_SCATTER, 0, 0, Inches(4), Inches(3), points)
    source.save(str(tmp_path / "a.pptx"))
    text = read(tmp_path / "a.pptx").text
    assert "Costs of the house" in text
    assert "Water | 2023: 20 | Spring: 21\nPower | 2023: 35.5" in text
    assert "1.5 | Heat: 40" in text


def test_diagrams_and_formulas_are_read(tmp_path: Path) -> None:
    source = pptx.Presentation()
    slide = source.slides.add_slide(source.slide_layouts[1])
    slide.placeholders[1].text = "The share is"
    math = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    slide.placeholders[1].text_frame.paragraphs[0]._p.append(parse_xml(f"<m:oMath {math}><m:t>a+b</m:t></m:oMath>"))
    drawing = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    data = f"<d {drawing}><a:p><a:r><a:t>First the boiler</a:t></a:r></a:p></d>".encode()
    part = Part(PackURI("/ppt/diagrams/data1.xml"), "application/xml", source.part.package, data)
    slide.part.relate_to(part, "http://schemas.openxmlformats.org/officeDocument/2006/relationships/diagramData")
    source.save(str(tmp_path / "a.pptx"))
    text = read(tmp_path / "a.pptx").text
    assert "The share is a+b" in text and "First the boiler" in text
