"""Indexes a large made-up folder of mixed files: counts, files a second by kind, peak memory, and the run after it.

    python tests/benchmarks/mixed_folder.py WORK [--files 10000] [--encoder SPEC] [--megabytes N] [--seed 0]

Of the files 68 % are text and Markdown, 10 % HTML, 10 % PDF, 10 % of office programs and 2 % broken; every one has a
text of its own. --megabytes adds text files of 4 MB until the folder has that size. Each run is a process of its own,
whose peak memory the system reports. The rate of each kind is that of 1/50 of the files, indexed alone. A plug-in
encoder's folder goes on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from index_folders import index

SHARES = {"txt": 34, "md": 34, "html": 10, "pdf": 10, "docx": 4, "pptx": 3, "xlsx": 3, "broken": 2}
_SYLLABLES = [consonant + rest for consonant in "bdfgklmnprstv" for rest in ("a", "e", "i", "o", "u", "an", "er", "or")]
_KOREAN = ["도서관", "회의", "예약", "전화", "보고", "계획", "정원", "수리", "비용", "회원", "학교", "시장", "바다"]
_FOLDERS = 40
_CHUNK = 4_000_000


class Writer:
    """Writes texts that differ: words by Zipf's law, numbers, every tenth text Korean."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._words = ["".join(self._chance.choices(_SYLLABLES, k=self._chance.randint(1, 4))) for _ in range(20_000)]
        self._weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(self._words))))

    def sentence(self, korean: bool = False) -> str:
        """A dozen words and a number."""
        if korean:
            return " ".join(self._chance.choices(_KOREAN, k=8)) + f" {self._chance.randint(1, 99999)} 건이다."
        words = self._chance.choices(self._words, cum_weights=self._weights, k=self._chance.randint(8, 16))
        return f"{' '.join(words).capitalize()} {self._chance.randint(1, 99999)}."

    def paragraphs(self) -> list[str]:
        """Two to six paragraphs."""
        korean = self._chance.random() < 0.1
        counts = [self._chance.randint(2, 6) for _ in range(self._chance.randint(2, 6))]
        return [" ".join(self.sentence(korean) for _ in range(count)) for count in counts]


def _txt(path: Path, texts: list[str]) -> None:
    path.write_text("\n\n".join(texts), encoding="utf-8")


def _md(path: Path, texts: list[str]) -> None:
    parts = [f"## {text.split('.')[0][:40]}\n\n{text}" for text in texts]
    path.write_text(f"# {texts[0][:40]}\n\n" + "\n\n".join(parts) + "\n", encoding="utf-8")


def _html(path: Path, texts: list[str]) -> None:
    body = "".join(f"<h2>{text[:30]}</h2><p>{text}</p>" for text in texts)
    page = f"<html><title>{texts[0][:40]}</title><body><nav>Home About</nav><main>{body}</main></body></html>"
    path.write_text(page, encoding="utf-8")


def _pdf(path: Path, texts: list[str]) -> None:
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.pdfgen.canvas import Canvas

    korean = not texts[0].isascii()
    if korean and "HYSMyeongJo-Medium" not in pdfmetrics.getRegisteredFontNames():
        pdfmetrics.registerFont(UnicodeCIDFont("HYSMyeongJo-Medium"))
    canvas = Canvas(str(path))
    for text in texts:
        canvas.setFont("HYSMyeongJo-Medium" if korean else "Helvetica", 10)
        for row, at in enumerate(range(0, len(text), 80)):
            canvas.drawString(60, 780 - 14 * row, text[at : at + 80])
        canvas.showPage()
    canvas.save()


def _docx(path: Path, texts: list[str]) -> None:
    import docx

    document = docx.Document()
    for text in texts:
        document.add_heading(text[:30], 1)
        document.add_paragraph(text)
    document.save(str(path))


def _pptx(path: Path, texts: list[str]) -> None:
    import pptx

    slides = pptx.Presentation()
    for text in texts:
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = text[:30], text
    slides.save(str(path))


def _xlsx(path: Path, texts: list[str]) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for text in texts:
        for row, sentence in enumerate(text.split(". ")):
            book.active.append([row, sentence])
    book.save(str(path))


def _broken(path: Path, texts: list[str]) -> None:
    """In turn: a PDF cut short, an archive with another name, an empty file, bytes that are no text."""
    number = sum(map(ord, path.stem))
    if number % 4 == 0:
        whole = path.with_suffix(".whole")
        _pdf(whole, texts)
        path.with_suffix(".pdf").write_bytes(whole.read_bytes()[:600])
        whole.unlink()
    elif number % 4 == 1:
        path.with_suffix(".docx").write_bytes(b"PK\x03\x04" + "\n".join(texts).encode()[:500])
    elif number % 4 == 2:
        path.with_suffix(".txt").write_bytes(b"")
    else:
        path.with_suffix(".md").write_bytes(random.Random(number).randbytes(3000))


MAKERS: dict[str, Callable[[Path, list[str]], None]] = {
    "txt": _txt, "md": _md, "html": _html, "pdf": _pdf, "docx": _docx, "pptx": _pptx, "xlsx": _xlsx, "broken": _broken,
}  # fmt: skip


def write_folder(out: Path, files: int, seed: int, megabytes: int = 0) -> Counter[str]:
    """Write the folder; how many files of each kind."""
    writer, made = Writer(seed), Counter[str]()
    for folder in range(_FOLDERS):
        (out / f"part {folder:02}").mkdir(parents=True, exist_ok=True)
    for kind, share in SHARES.items():
        for number in range(files * share // 100):
            path = out / f"part {number % _FOLDERS:02}" / f"{kind} {number:05}.{kind}"
            MAKERS[kind](path, writer.paragraphs())
            made[kind] += 1
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    while size < megabytes * 1_000_000:
        path = out / f"part {made['large'] % _FOLDERS:02}" / f"large {made['large']:05}.txt"
        with path.open("w", encoding="utf-8") as file:
            while file.tell() < _CHUNK:
                file.write("\n\n".join(writer.paragraphs()) + "\n\n")
        size += path.stat().st_size
        made["large"] += 1
    return made


def by_kind(work: Path, files: int, encoder: str | None, seed: int) -> dict[str, float]:
    """Files a second of each kind, a folder of each alone."""
    rates = {}
    count = max(20, files // 50)
    for number, kind in enumerate(SHARES):
        folder, library, writer = work / f"only {kind}", work / f"library {kind}", Writer(seed + number + 1)
        for place in (folder, library):
            shutil.rmtree(place, ignore_errors=True)
        folder.mkdir(parents=True)
        for at in range(count):
            MAKERS[kind](folder / f"{at:05}.{kind}", writer.paragraphs())
        rates[kind] = round(count / index(folder, library, encoder)["seconds"], 1)
    return rates


def main() -> None:
    """Read the command line, print one line of JSON for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--encoder")
    parser.add_argument("--megabytes", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder, library = arguments.work / "mixed", arguments.work / "library"
    for place in (folder, library):
        shutil.rmtree(place, ignore_errors=True)
    started = time.perf_counter()
    made = write_folder(folder, arguments.files, arguments.seed, arguments.megabytes)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    show(made=made, megabytes=round(size / 1e6, 1), seconds=round(time.perf_counter() - started, 1))
    show(run="new", **index(folder, library, arguments.encoder))
    show(run="again", **index(folder, library, None))
    show(files_a_second=by_kind(arguments.work, arguments.files, arguments.encoder, arguments.seed))


def show(**values: Any) -> None:
    """Print one line of JSON."""
    print(json.dumps(values, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
