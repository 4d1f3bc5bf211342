"""What a PDF made here says is read, on its page: running heads, sentences over page ends, turned pages, forms."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas
from slotrag.rag.documents import Document
from slotrag.rag.readers import read
from slotrag.rag.readers.pdf_hyphens import compounds, join_lines

Placed = tuple[float, float, str, float]


def write(path: Path, pages: Sequence[Sequence[Placed]], rotation: int = 0) -> Path:
    """A PDF of pages of (x, y, text, size)."""
    canvas = Canvas(str(path), pagesize=(612, 792))
    for page in pages:
        for x, y, text, size in page:
            canvas.setFont("Helvetica", size)
            canvas.drawString(x, y, text)
        canvas.setPageRotation(rotation)
        canvas.showPage()
    canvas.save()
    return path


def of_page(document: Document, number: int) -> str:
    """The blocks that the document says stand on a page."""
    return "\n".join(document.text[block.start : block.end] for block in document.blocks if block.page == number)


@pytest.mark.parametrize(
    "ending",
    ["Net pay: {n}7.50 EUR", "Invoice number {n}", "{n} items in all", "Year 20{n:02}", "Section {n}.{n}", "199{n}"],
)
@pytest.mark.parametrize("top", [True, False])
def test_a_first_or_last_line_that_differs_in_a_number_stays(tmp_path: Path, ending: str, top: bool) -> None:
    lines = ["The amounts are in euro, before tax.", "They were paid in time."]
    pages = []
    for number in range(1, 9):
        texts = [ending.format(n=number), *lines] if top else [*lines, ending.format(n=number)]
        pages.append([(72.0, 700.0 - 30 * row, text, 11.0) for row, text in enumerate(texts)])
    document = read(write(tmp_path / "a.pdf", pages))
    for number in range(1, 9):
        assert ending.format(n=number) in of_page(document, number)


def test_titles_of_slides_stay_on_their_pages(tmp_path: Path) -> None:
    pages = [
        [(72, 700, f"Topic number {n}", 24), (72, 660, f"bullet about subject{n}x", 14), (72, 640, "and one more", 14)]
        for n in range(1, 9)
    ]
    document = read(write(tmp_path / "a.pdf", pages))
    for number in range(1, 9):
        assert f"Topic number {number}" in of_page(document, number)
        assert f"subject{number}x and one more" in of_page(document, number)


ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii")


@pytest.mark.parametrize("foot", ["{n}", "- {n} -", "Page {n}", "Page {n} of 8", "{roman}", "{later}", "{n}쪽"])
def test_page_numbers_go(tmp_path: Path, foot: str) -> None:
    pages = []
    for number in range(1, 9):
        text = foot.replace("쪽", "").format(n=number, roman=ROMAN[number - 1], later=number + 40)
        body = f"The boiler of house {chr(96 + number) * 3} is looked after every autumn."
        pages.append([(72.0, 700.0, body, 11.0), (300.0, 40.0, text, 9.0)])
    document = read(write(tmp_path / "a.pdf", pages))
    assert [block.kind for block in document.blocks] == ["paragraph"] * 8
    assert all(document.text[block.start : block.end].endswith("autumn.") for block in document.blocks)


def test_a_running_head_stands_once_and_takes_its_page_number_along(tmp_path: Path) -> None:
    pages = [
        [
            (72.0, 760.0, "The house handbook", 9.0),
            (500.0, 760.0, str(n), 9.0),
            (72.0, 700.0, f"Word{n} of a page about the house and its garden.", 11.0),
            (72.0, 40.0, "For members only", 9.0),
        ]
        for n in range(1, 8)
    ]
    text = read(write(tmp_path / "a.pdf", pages)).text
    assert text.count("The house handbook") == 1
    assert text.count("For members only") == 1
    assert all(f"Word{n} of" in text for n in range(1, 8))


def test_the_same_words_at_other_heights_stay(tmp_path: Path) -> None:
    pages = [[(72.0, 700.0, f"Item{n}.", 11.0), (72.0, 600.0 - 40 * n, "Paid in full.", 11.0)] for n in range(1, 8)]
    assert read(write(tmp_path / "a.pdf", pages)).text.count("Paid in full.") == 7


@pytest.mark.parametrize("seed", range(8))
def test_every_word_is_read_on_its_page(tmp_path: Path, seed: int) -> None:
    """Random pages: lines with numbers, with and without ends of sentences, under a running head, over a number."""
    chance = random.Random(seed)
    starts = ["Total", "item", "Part", "and", "The", "costs", "Chapter", "p"]
    pages: list[list[Placed]] = []
    words: list[set[str]] = []
    offset = chance.choice([0, 0, 12])
    for number in range(1, chance.randint(5, 12)):
        page: list[Placed] = [(72, 770, "Handbook of the house", 9)] if seed % 2 else []
        said: set[str] = set()
        y = 720.0
        for row in range(chance.randint(1, 6)):
            unique = f"w{number}x{row}"
            value = chance.choice([str(number), f"{chance.randint(1, 9999)}.50", f"{2000 + number}"])
            line = f"{chance.choice(starts)} {unique} {value}{chance.choice(['', '.', ' EUR', ' of'])}"
            if chance.random() < 0.5:
                line += " " + " ".join(chance.choice(["water", "power", "heat"]) for _ in range(chance.randint(1, 9)))
            page.append((72, y, line, chance.choice([11, 11, 11, 18])))
            said |= {unique, value}
            y -= chance.choice([14, 30])
        page.append((300, 40, f"Page {number + offset}", 9))
        pages.append(page)
        words.append(said)
    document = read(write(tmp_path / "a.pdf", pages))
    for number, said in enumerate(words, 1):
        start, *rest = document.page_starts[number - 1 :]
        text = document.text[start : rest[0] if rest else None]
        assert all(word in text for word in said), (number, said, text)
        for word in said:
            if word.startswith("w"):
                block = next(block for block in document.blocks if word in document.text[block.start : block.end])
                assert block.page in (number, number - 1)


def test_only_the_sentence_that_runs_on_goes_to_the_page_before(tmp_path: Path) -> None:
    full = "The boiler is serviced every September by the landlord of the house in"
    pages = [
        [(72.0, 700.0, "This is the first of all sentences here, and it is long enough to wrap.", 11.0),
         (72.0, 686.0, full, 11.0)],
        [(72.0, 700.0, "which we live. The second page has its own sentence, which ends here,", 11.0),
         (72.0, 686.0, "and a cellar.", 11.0)],
    ]  # fmt: skip
    document = read(write(tmp_path / "a.pdf", pages))
    assert of_page(document, 1).endswith("of the house in which we live.")
    assert of_page(document, 2).startswith("The second page has its own sentence")
    assert document.page_at(document.text.index("which we live")) == 2


def test_lines_of_lists_are_not_joined_over_pages(tmp_path: Path) -> None:
    pages = [[(72.0, 700.0, f"bread and butter and milk for the house number {n}", 11.0)] for n in range(1, 4)]
    document = read(write(tmp_path / "a.pdf", pages))
    assert [block.page for block in document.blocks] == [1, 2, 3]


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_a_turned_page_is_read_in_the_order_of_its_lines(tmp_path: Path, rotation: int) -> None:
    page = [(72.0, 700.0 - 14 * row, f"line {row} of this page", 11.0) for row in range(4)]
    text = read(write(tmp_path / "a.pdf", [page], rotation)).text
    assert text == "line 0 of this page line 1 of this page line 2 of this page line 3 of this page\n"


@pytest.mark.parametrize("rotation", [0, 90])
def test_a_table_set_sideways_is_a_table(tmp_path: Path, rotation: int) -> None:
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=(612, 792))
    canvas.setPageRotation(rotation)
    canvas.rotate(90)
    canvas.setFont("Helvetica", 11)
    for row, cells in enumerate([("Item", "Year"), ("Water", "2023"), ("Power", "2024")]):
        for x, cell in zip((60, 220), cells, strict=True):
            canvas.drawString(x, -100 - 16 * row, cell)
    canvas.save()
    document = read(tmp_path / "a.pdf")
    assert [block.kind for block in document.blocks] == ["table"]
    assert "Item: Power | Year: 2024" in document.text


@pytest.mark.parametrize(
    ("above", "below", "joined"),
    [
        ("a Sep-", "tember day", "a September day"),
        ("her mother-in-", "law came", "her mother-in-law came"),
        ("a well-", "known man", "a well-known man"),
        ("Frau Meyer-", "Lansky", "Frau Meyer-Lansky"),
        ("COVID-", "19 cases", "COVID-19 cases"),
        ("Vor-", "und Nachteile", "Vor- und Nachteile"),
    ],
)
def test_a_hyphen_at_a_line_end(above: str, below: str, joined: str) -> None:
    known = compounds(["the well-known story"])
    assert join_lines(above, below, known) == joined


def test_fields_of_a_form_and_notes_are_read(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "a.pdf"))
    canvas.drawString(72, 720, "Name of applicant:")
    canvas.acroForm.textfield(name="applicant", value="Anna Walnut", x=200, y=700, tooltip="Applicant")
    canvas.acroForm.textfield(name="secret", value="hushword", x=200, y=600, fieldFlags="password")
    canvas.acroForm.checkbox(name="agrees", checked=True, x=72, y=500)
    canvas.acroForm.checkbox(name="refuses", checked=False, x=72, y=400)
    canvas.freeTextAnnotation("written onto the page", (72, 300, 200, 330))
    canvas.save()
    document = read(tmp_path / "a.pdf")
    assert "Applicant: Anna Walnut" in document.text
    assert "written onto the page" in document.text
    assert "agrees" in document.text
    assert "refuses" not in document.text and "hushword" not in document.text
