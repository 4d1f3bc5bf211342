"""Writes one document of each kind of file that is read, with the library of its own kind; it knows nothing of slotrag.

`write_kind` takes sections, (heading, paragraphs) each; what a kind has no place for is left out (a text file has no
headings). In kinds with pages every section stands on a page of its own.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from email.message import EmailMessage
from pathlib import Path

from books import write_epub
from hangul_files import write_hwp, write_hwpx

Sections = Sequence[tuple[str, Sequence[str]]]

SECTIONS: Sections = [
    ("Heating", ["The boiler is serviced in September.", "Two pumps press the warm water upstairs."]),
    ("Garden", ["The apple tree was planted by Anna.", "Its fruit is picked in October."]),
]

PAGED = {".pdf": "page", ".pptx": "slide"}
"""Kinds with pages."""

WITHOUT_HEADINGS = {".txt", ".csv", ".json", ".log"}
OWN_LINES = {".txt", ".md", ".rst", ".py", ".log"}
"""Kinds whose lines are the file's own."""

BINARY = {".pdf", ".docx", ".pptx", ".xlsx", ".epub", ".hwp", ".hwpx"}
TEXTS = {".txt", ".md", ".rst", ".html", ".csv", ".json", ".py", ".log", ".eml", ".ipynb"}


def text(sections: Sections) -> str:
    return "\n\n".join(paragraph for _, paragraphs in sections for paragraph in paragraphs) + "\n"


def markdown(sections: Sections) -> str:
    return "\n".join(f"## {heading}\n\n" + "\n\n".join(paragraphs) + "\n" for heading, paragraphs in sections)


def restructured(sections: Sections) -> str:
    return "\n".join(
        f"{heading}\n{'=' * (2 * len(heading))}\n\n" + "\n\n".join(paragraphs) + "\n"
        for heading, paragraphs in sections
    )


def html(sections: Sections) -> str:
    body = "".join(
        f"<h2>{heading}</h2>" + "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
        for heading, paragraphs in sections
    )
    return f"<!doctype html><html><head><title>The house</title></head><body>{body}</body></html>"


def table(sections: Sections) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("Part", "Note"))
    writer.writerows((heading, paragraph) for heading, paragraphs in sections for paragraph in paragraphs)
    return out.getvalue()


def objects(sections: Sections) -> str:
    return json.dumps([{"part": heading, "notes": list(paragraphs)} for heading, paragraphs in sections])


def notebook(sections: Sections) -> str:
    cells = [{"cell_type": "markdown", "metadata": {}, "source": markdown([section])} for section in sections]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def code(sections: Sections) -> str:
    return "\n\n".join(
        f"def {heading}():\n" + "".join(f'    """{paragraph}"""\n' for paragraph in paragraphs)
        for heading, paragraphs in sections
    )


def write_mail(path: Path, sections: Sections) -> None:
    """The first section is the message, the others are attached pages."""
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = sections[0][0], "a@example.org", "b@example.org"
    message.set_content("\n\n".join(sections[0][1]))
    for section in sections[1:]:
        message.add_attachment(html([section]).encode(), maintype="text", subtype="html", filename="page.html")
    path.write_bytes(message.as_bytes())


def write_pdf(path: Path, sections: Sections) -> None:
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.pdfgen.canvas import Canvas

    pdfmetrics.registerFont(UnicodeCIDFont("HYSMyeongJo-Medium"))
    canvas = Canvas(str(path))
    for heading, paragraphs in sections:
        font = "Helvetica" if "".join((heading, *paragraphs)).isascii() else "HYSMyeongJo-Medium"
        canvas.setFont(font, 20)
        canvas.drawString(72, 780, heading)
        canvas.setFont(font, 11)
        for row, paragraph in enumerate(paragraphs):
            canvas.drawString(72, 740 - 40 * row, paragraph)
        canvas.showPage()
    canvas.save()


def write_docx(path: Path, sections: Sections) -> None:
    import docx

    document = docx.Document()
    for heading, paragraphs in sections:
        document.add_heading(heading, 1)
        for paragraph in paragraphs:
            document.add_paragraph(paragraph)
    document.save(str(path))


def write_pptx(path: Path, sections: Sections) -> None:
    import pptx

    slides = pptx.Presentation()
    for heading, paragraphs in sections:
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text = heading  # pyright: ignore[reportOptionalMemberAccess]
        slide.placeholders[1].text = "\n".join(paragraphs)  # pyright: ignore[reportAttributeAccessIssue]
    slides.save(str(path))


def write_xlsx(path: Path, sections: Sections) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for heading, paragraphs in sections:
        sheet = book.create_sheet(heading)
        for number, paragraph in enumerate(paragraphs):
            sheet.append([number, paragraph])
    book.save(str(path))


def hangul_parts(sections: Sections) -> list[tuple[str, ...] | tuple[str, int, str]]:
    parts: list[tuple[str, ...] | tuple[str, int, str]] = []
    for heading, paragraphs in sections:
        parts += [("heading", 1, heading), *(("text", paragraph) for paragraph in paragraphs)]
    return parts


def write_book(path: Path, sections: Sections) -> None:
    chapters = [
        (f"{number}.xhtml", "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs))
        for number, (_, paragraphs) in enumerate(sections)
    ]
    write_epub(path, chapters, [(heading, f"{number}.xhtml", ()) for number, (heading, _) in enumerate(sections)])


_TEXTS: dict[str, Callable[[Sections], str]] = {
    ".txt": text,
    ".log": text,
    ".md": markdown,
    ".rst": restructured,
    ".html": html,
    ".csv": table,
    ".json": objects,
    ".ipynb": notebook,
    ".py": code,
}
_WRITERS: dict[str, Callable[[Path, Sections], object]] = {
    ".eml": write_mail,
    ".pdf": write_pdf,
    ".docx": write_docx,
    ".pptx": write_pptx,
    ".xlsx": write_xlsx,
    ".epub": write_book,
    ".hwp": lambda path, sections: write_hwp(path, hangul_parts(sections)),
    ".hwpx": lambda path, sections: write_hwpx(path, hangul_parts(sections)),
}

KINDS = tuple(sorted((*_TEXTS, *_WRITERS)))
"""All kinds, by their suffix."""


def write_kind(path: Path, sections: Sections = SECTIONS, *, encoding: str = "utf-8") -> Path:
    """Write a document of the kind that the suffix of `path` names; `encoding` is for kinds that are text."""
    if path.suffix in _TEXTS:
        path.write_bytes(_TEXTS[path.suffix](sections).encode(encoding))
    else:
        _WRITERS[path.suffix](path, sections)
    return path
