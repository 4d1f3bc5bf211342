"""Reading PDF files made here: pages, headings, hyphens, Korean, and files that cannot be read."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas
from slotrag.rag.documents import NoText, ReadError
from slotrag.rag.readers import read

Page = list[tuple[str, int]]


def write(path: Path, pages: list[Page], *, font: str = "Helvetica", password: str | None = None) -> Path:
    """A PDF of pages of (line, font size)."""
    canvas = Canvas(str(path), encrypt=password)
    for lines in pages:
        height = 780.0
        for text, size in lines:
            canvas.setFont(font, size)
            canvas.drawString(72, height, text)
            height -= size * 1.2
        canvas.showPage()
    canvas.save()
    return path


BODY: Page = [("The boiler is serviced every September by the landlord of the house", 11)] * 3


def test_pages_and_headings(tmp_path: Path) -> None:
    pages = [[("Heating", 24), *BODY], [("The second page tells of the cellar and its two damp walls.", 11)]]
    document = read(write(tmp_path / "a.pdf", pages))
    heading = next(block for block in document.blocks if block.kind == "heading")
    assert document.text[heading.start : heading.end] == "Heating"
    assert document.title == "Heating"
    assert document.page_at(document.text.index("boiler")) == 1
    assert document.page_at(document.text.index("cellar")) == 2
    assert not document.partial and document.reader.startswith("pdf/")


def test_a_word_parted_at_a_line_end_is_joined(tmp_path: Path) -> None:
    lines: Page = [("The contract ends in the month of Sep-", 11), ("tember, as both parties have agreed before.", 11)]
    assert "September, as both" in read(write(tmp_path / "a.pdf", [lines])).text


def test_korean(tmp_path: Path) -> None:
    pdfmetrics.registerFont(UnicodeCIDFont("HYSMyeongJo-Medium"))
    path = write(tmp_path / "a.pdf", [[("보일러는 매년 구월에 점검합니다.", 11)]], font="HYSMyeongJo-Medium")
    assert "보일러는 매년 구월에 점검합니다." in read(path).text


def test_a_password_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="password"):
        read(write(tmp_path / "a.pdf", [BODY], password="secret"))


def test_a_page_without_text_makes_it_partial(tmp_path: Path) -> None:
    document = read(write(tmp_path / "a.pdf", [BODY, [], BODY]))
    assert document.partial
    assert any("page 2" in note for note in document.notes)


def test_no_text_at_all_is_a_scan(tmp_path: Path) -> None:
    with pytest.raises(NoText, match="scan"):
        read(write(tmp_path / "a.pdf", [[], []]))


def test_broken_and_cut_off_files_fail(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7\nthis is no pdf")
    whole = write(tmp_path / "whole.pdf", [BODY]).read_bytes()
    cut = tmp_path / "cut.pdf"
    cut.write_bytes(whole[: len(whole) // 3])
    for path in (broken, cut):
        with pytest.raises(ReadError, match=r"^[^.]*[^.;]$"):
            read(path)


def test_a_zip_named_pdf_fails_with_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("words.txt", "words " * 100)
    with pytest.raises(ReadError, match="zip archive"):
        read(path)


def test_the_content_counts_not_the_suffix(tmp_path: Path) -> None:
    assert "boiler" in read(write(tmp_path / "a.txt", [BODY])).text


def placed(path: Path, texts: list[tuple[float, float, str]], size: float = 11) -> Path:
    """A PDF of one page with each text at its (x, y)."""
    canvas = Canvas(str(path))
    canvas.setFont("Helvetica", size)
    for x, y, text in texts:
        canvas.drawString(x, y, text)
    canvas.save()
    return path


LEFT = [f"the left column tells of boiler number {number}" for number in range(8)]
RIGHT = [f"the right column tells of garden number {number}" for number in range(8)]


@pytest.mark.parametrize("across", [True, False], ids=["row by row", "column by column"])
def test_two_columns_are_read_one_after_the_other(tmp_path: Path, across: bool) -> None:
    rows = [[(60.0, 700.0 - 14 * n, LEFT[n]), (320.0, 700.0 - 14 * n, RIGHT[n])] for n in range(8)]
    columns = [text for row in rows for text in row] if across else [row[side] for side in (0, 1) for row in rows]
    head = (60.0, 740.0, "A heading over both of the columns, which goes from the left margin to the right one")
    foot = (60.0, 560.0, "And a closing line that again goes over both of the columns of text on this page")
    text = " ".join(read(placed(tmp_path / "a.pdf", [head, *columns, foot])).text.split())
    assert text == " ".join([head[2], *LEFT, *RIGHT, foot[2]])


def test_a_short_last_line_beside_a_column_stays_in_its_own(tmp_path: Path) -> None:
    texts = [(60.0, 700.0 - 14 * n, LEFT[n]) for n in range(8)]
    texts += [(320.0, 700.0 - 14 * n, RIGHT[n]) for n in range(8)] + [(320.0, 700.0 - 14 * 8, "and ends here.")]
    texts.sort(key=lambda text: (-text[1], text[0]))
    assert " ".join(read(placed(tmp_path / "a.pdf", texts)).text.split()).endswith(f"{RIGHT[7]} and ends here.")


def test_a_table_is_kept_as_rows(tmp_path: Path) -> None:
    rows = [
        ("Item", "Year", "Euros"),
        ("Water", "2023", "120"),
        ("Power for heating", "2024", "350"),
        ("Wood", "", "80"),
    ]
    texts = [
        (x, 700.0 - 16 * n, cell) for n, row in enumerate(rows) for x, cell in zip((60, 220, 300), row, strict=True)
    ]
    before = (60.0, 740.0, "The costs of the house are these, and they were all paid on the first of May:")
    after = (60.0, 620.0, "None of them went up since then, so that the same is due in the coming year.")
    document = read(placed(tmp_path / "a.pdf", [before, *(text for text in texts if text[2]), after]))
    tables = [document.text[b.start : b.end] for b in document.blocks if b.kind == "table"]
    assert tables == [
        "Item | Year | Euros\nItem: Water | Year: 2023 | Euros: 120\n"
        "Item: Power for heating | Year: 2024 | Euros: 350\nItem: Wood | Euros: 80"
    ]
    assert [block.kind for block in document.blocks] == ["paragraph", "table", "paragraph"]


def test_terms_and_their_meanings_have_no_header(tmp_path: Path) -> None:
    rows = [("--check", "checks the syntax"), ("--help", "shows this help"), ("--quiet", "prints nothing")]
    texts = [(x, 700.0 - 16 * n, cell) for n, row in enumerate(rows) for x, cell in zip((60, 160), row, strict=True)]
    expected = "--check | checks the syntax\n--help | shows this help\n--quiet | prints nothing\n"
    assert read(placed(tmp_path / "a.pdf", texts)).text == expected


def test_justified_prose_is_no_table(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "a.pdf"))
    for row, words in enumerate(
        ["the boiler is looked after", "by a man from the village", "who comes to us in autumn"]
    ):
        text = canvas.beginText(72, 700 - 14 * row)
        text.setFont("Helvetica", 11)
        text.setWordSpace(12 + 2 * row)
        text.textLine(words)
        canvas.drawText(text)
    canvas.save()
    assert [block.kind for block in read(tmp_path / "a.pdf").blocks] == ["paragraph"]


def test_a_word_parted_at_a_page_end_is_joined(tmp_path: Path) -> None:
    pages: list[Page] = [
        [*BODY, ("and it is paid for by the land-", 11)],
        [("lord, who lives next door to it.", 11), *BODY],
    ]
    document = read(write(tmp_path / "a.pdf", pages))
    assert "the landlord, who lives" in document.text
    assert document.page_at(document.text.index("next door")) == 2
