"""One real document of each kind: indexes them with the encoder of the tests, prints a passage of each with its place.

Documents are made with the library of their kind, and taken from this machine where it has some (PDF of Debian's
packages) or from files named on the command line. What can be checked is: the passage against the document's text
and lines, its page and heading against what was written, the lines of text files against the file itself.

    python tests/benchmarks/file_kinds.py WORK [FILE...] [--query "..."]
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import sys
import time
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parents[1] / "support"
sys.path[:0] = [str(SUPPORT), str(SUPPORT / "plugin")]

from file_kinds import KINDS, OWN_LINES, PAGED, SECTIONS, WITHOUT_HEADINGS, write_kind  # noqa: E402

QUOTED = "The apple tree was planted by Anna."
REAL = (
    ("/usr/share/doc/shared-mime-info/shared-mime-info-spec.pdf", "alias list offset number of aliases"),
    ("/usr/share/doc/bzip2/manual.pdf.gz", "compression decompression memory usage block size"),
    ("/usr/share/doc/libtasn1-doc/libtasn1.pdf", "ASN.1 structure handling DER decoding"),
)


def made(library: Any, folder: Path) -> int:
    """Check the documents written here, one of each kind; the number of wrong places."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        write_kind(folder / f"house{kind}")
    library.index([folder])
    wrong = 0
    for kind in KINDS:
        hit = library.search("apple tree planted by Anna", k=1, path=f"house{kind}").hits[0]
        checks = {
            "quoted": QUOTED in hit.text,
            "page": hit.page == (2 if kind in PAGED else None),
            "heading": kind in WITHOUT_HEADINGS or SECTIONS[1][0] in hit.heading.split(" > "),
            "text": in_document(Path(hit.absolute_path), hit),
        }
        if kind in OWN_LINES:
            lines = Path(hit.absolute_path).read_text(encoding="utf-8").split("\n")
            checks["lines"] = "\n".join(lines[hit.lines[0] - 1 : hit.lines[1]]).strip() == hit.text
        wrong += not all(checks.values())
        show(kind, hit, checks)
    return wrong


def in_document(path: Path, hit: Any) -> bool:
    """Whether the reader's text has the passage at its characters and on its lines."""
    from slotrag.rag.readers import read

    text = read(path).text
    first, last = hit.lines
    lines = "\n".join(text.split("\n")[first - 1 : last])
    return text[slice(*hit.chars)] == hit.text and hit.text in lines


def real(library: Any, path: Path, query: str) -> int:
    """Index a file found on this machine, show what is found in it; 1 where its place is wrong."""
    started = time.perf_counter()
    report = library.index([path])
    seconds = time.perf_counter() - started
    if report.skipped:
        print(f"{path.name:24} skipped: {report.skipped[0].reason}")
        return 0
    hit = library.search(query, k=1, path=path.name).hits[0]
    checks = {"text": in_document(path, hit)}
    if path.suffix == ".pdf":
        checks["page"] = on_page(path, hit)
    show(path.name, hit, checks)
    print(f"{'':24} {report.encoded} passages encoded, {seconds:.1f} s")
    return int(not all(checks.values()))


def on_page(path: Path, hit: Any) -> bool:
    """Whether the words at the passage's beginning stand on its page, as the PDF library gives that page."""
    import pypdfium2

    page = "".join(pypdfium2.PdfDocument(path)[hit.page - 1].get_textpage().get_text_range().split())
    return all(word.rstrip("|") in page for word in hit.text[:60].split()[:-1])


def show(name: str, hit: Any, checks: dict[str, bool]) -> None:
    verdict = ", ".join(f"{what} {'right' if right else 'WRONG'}" for what, right in checks.items())
    quote = " ".join(hit.text.split())
    place = f"page {hit.page}, lines {hit.lines[0]}-{hit.lines[1]}, heading {hit.heading or '-'}"
    print(f"{name:24} {place}\n{'':24} “{quote[:160]}{'…' if len(quote) > 160 else ''}”\n{'':24} {verdict}")


def main() -> int:
    """Read the command line; 1 where a place is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--query", default="the", help="what to look for in FILEs")
    arguments = parser.parse_args()
    from slotrag.rag.library import Library
    from slotrag.rag.settings import Settings

    shutil.rmtree(arguments.work / "library", ignore_errors=True)
    with Library.open(arguments.work / "library", settings=Settings(encoder="hashing")) as library:
        wrong = made(library, arguments.work / "made")
        for name, query in REAL:
            if Path(name).exists():
                wrong += real(library, unzipped(Path(name), arguments.work), query)
        for file in arguments.files:
            wrong += real(library, file, arguments.query)
    print(f"{len(KINDS)} kinds made, {wrong} wrong")
    return int(wrong > 0)


def unzipped(path: Path, work: Path) -> Path:
    """`path`, or where it is compressed what it holds, written under `work`."""
    target = work / path.name.removesuffix(".gz")
    target.write_bytes(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
    return target


if __name__ == "__main__":
    sys.exit(main())
