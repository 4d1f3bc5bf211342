"""Folders to index, made for measuring: a corpus as text files, and a mixed folder with many formats and broken files.

It knows nothing of slotrag. The other scripts here use it; on its own:

    python tests/benchmarks/made_folders.py corpus DATASET OUT     # one text file a document of a BEIR-style folder
    python tests/benchmarks/made_folders.py mixed OUT
"""

from __future__ import annotations

import argparse
import json
import random
import unicodedata
import zipfile
from email.message import EmailMessage
from pathlib import Path

_TOPICS = ("boiler", "garden", "printer", "ferry", "library", "orchard")
_KOREAN = "도서관은 매주 월요일에 쉽니다. 회의실은 이층에 있고, 예약은 전화로 받습니다.\n"


def read_corpus(dataset: Path) -> list[tuple[str, str, str]]:
    """(id, title, text) of each document of a BEIR-style folder."""
    lines = (dataset / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    return [(value["_id"], value.get("title", ""), value["text"]) for value in map(json.loads, lines)]


def write_corpus(dataset: Path, out: Path) -> int:
    """Write each document to a text file of its own: title, blank line, text; the number of files."""
    out.mkdir(parents=True, exist_ok=True)
    documents = read_corpus(dataset)
    for number, (_, title, text) in enumerate(documents, start=1):
        (out / f"{number:05}.txt").write_text(f"{title}\n\n{text}\n", encoding="utf-8")
    return len(documents)


def edited(text: str, seed: int, words: list[str], share: float = 0.03) -> str:
    """`text` with about `share` of its words replaced by others of `words`; the same for the same seed."""
    chance = random.Random(seed)
    kept = text.split(" ")
    for _ in range(max(1, round(len(kept) * share))):
        kept[chance.randrange(len(kept))] = chance.choice(words)
    return " ".join(kept)


def write_mixed(out: Path) -> None:
    """Write PDF, Word, PowerPoint, Excel, HTML and others, Korean names and encodings, and files that are broken."""
    out.mkdir(parents=True, exist_ok=True)
    _write_texts(out)
    _write_korean(out)
    _write_office(out)
    _write_pdfs(out)
    _write_broken(out)


def paragraphs(topic: str, count: int = 3) -> list[str]:
    """A few sentences about `topic`."""
    return [
        f"The {topic} was looked at in week {number}. Two parts of the {topic} were worn, and the bill came to "
        f"{number * 37} euros. The next visit for the {topic} is due in month {number}."
        for number in range(1, count + 1)
    ]


def _write_texts(out: Path) -> None:
    for topic in _TOPICS:
        folder = out / topic
        folder.mkdir(exist_ok=True)
        body = paragraphs(topic)
        (folder / "README.md").write_text(f"# The {topic}\n\n" + "\n\n".join(body) + "\n", encoding="utf-8")
        (folder / "notes.txt").write_text("\n\n".join(body), encoding="utf-8")
        items = "".join(f"<p>{text}</p>" for text in body)
        (folder / "page.html").write_text(f"<html><title>{topic}</title><body>{items}</body></html>", encoding="utf-8")
        (folder / "costs.csv").write_text("item,euros\n" + "".join(f"{topic} {n},{n * 37}\n" for n in range(9)))
        (folder / "data.json").write_text(json.dumps({"topic": topic, "notes": body}), encoding="utf-8")
        (folder / "tool.py").write_text(
            f'"""Counts visits to the {topic}."""\n\n\ndef visits() -> int:\n    return 3\n'
        )
    cell = {"cell_type": "markdown", "metadata": {}, "source": paragraphs("notebook")}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (out / "study.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = "The ferry", "a@example.org", "b@example.org"
    mail.set_content("\n\n".join(paragraphs("ferry")))
    (out / "letter.eml").write_bytes(mail.as_bytes())


def _write_korean(out: Path) -> None:
    composed = unicodedata.normalize("NFC", "회의록.txt")
    decomposed = unicodedata.normalize("NFD", "도서관 안내.md")
    (out / composed).write_text(_KOREAN, encoding="utf-8")
    (out / decomposed).write_text(f"# 도서관\n\n{_KOREAN}", encoding="utf-8")
    (out / "오래된.txt").write_bytes((_KOREAN * 4).encode("cp949"))
    (out / "wide.txt").write_bytes(_KOREAN.encode("utf-16"))
    (out / "bom.txt").write_bytes(_KOREAN.encode("utf-8-sig"))
    (out / "western.txt").write_bytes("Der Kühlschrank im Café wurde für 50 € repariert.\n".encode("cp1252"))


def _write_office(out: Path) -> None:
    import docx
    import openpyxl
    import pptx

    letter = docx.Document()
    letter.add_heading("Orchard report", 1)
    for text in paragraphs("orchard"):
        letter.add_paragraph(text)
    letter.save(str(out / "보고서.docx"))
    slides = pptx.Presentation()
    for text in paragraphs("printer"):
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text = "Printer"
        slide.placeholders[1].text = text
    slides.save(str(out / "printer.pptx"))
    book = openpyxl.Workbook()
    sheet = book.active
    for number in range(20):
        sheet.append([f"garden tool {number}", number * 3, "shed"])
    book.save(str(out / "tools.xlsx"))


def _write_pdfs(out: Path) -> None:
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    def pdf(name: str, pages: list[str], encrypt: StandardEncryption | None = None) -> None:
        canvas = Canvas(str(out / name), encrypt=encrypt)
        for page in pages:
            for row, line in enumerate(page.split(". ")):
                canvas.drawString(72, 760 - 20 * row, line)
            canvas.showPage()
        canvas.save()

    pdf("ferry.pdf", paragraphs("ferry", 12))
    pdf("half.pdf", [paragraphs("library")[0], "", paragraphs("library")[1]])
    pdf("scan.pdf", ["", ""])
    pdf("locked.pdf", paragraphs("boiler"), StandardEncryption("secret", "owner"))


def _write_broken(out: Path) -> None:
    whole = (out / "ferry.pdf").read_bytes()
    (out / "truncated.pdf").write_bytes(whole[: len(whole) // 3])
    with zipfile.ZipFile(out / "archive.pdf", "w") as archive:
        archive.writestr("a.txt", "not a pdf")
    (out / "corrupt.docx").write_bytes((out / "보고서.docx").read_bytes()[:900])
    (out / "empty.txt").write_bytes(b"")
    (out / "blank.txt").write_text(" \n\t\n")
    (out / "program.bin").write_bytes(bytes(random.Random(1).randrange(256) for _ in range(4000)))
    (out / ".gitignore").write_text("build/\n*.log\n!kept.log\n")
    (out / "build").mkdir(exist_ok=True)
    (out / "build" / "made.txt").write_text("left out by .gitignore")
    (out / "run.log").write_text("left out by .gitignore")
    (out / "kept.log").write_text("The log of the boiler is kept.\n")
    loop = out / "garden" / "up"
    if not loop.is_symlink():
        loop.symlink_to("..", target_is_directory=True)


def main() -> None:
    """Read the command line, make the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    corpus = kinds.add_parser("corpus")
    corpus.add_argument("dataset", type=Path)
    corpus.add_argument("out", type=Path)
    kinds.add_parser("mixed").add_argument("out", type=Path)
    arguments = parser.parse_args()
    if arguments.kind == "corpus":
        print(f"{write_corpus(arguments.dataset, arguments.out)} files in {arguments.out}")
    else:
        write_mixed(arguments.out)
        print(f"{sum(path.is_file() for path in arguments.out.rglob('*'))} files in {arguments.out}")


if __name__ == "__main__":
    main()
