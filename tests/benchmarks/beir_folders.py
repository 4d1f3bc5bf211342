"""Turns test collections into BEIR-style folders: corpus.jsonl, queries.jsonl and qrels/test.tsv.

It knows the SMART format (Cranfield, CISI), the SQuAD format (XQuAD, KorQuAD) and lines of JSON with a question and its
passage, and nothing of slotrag. Run it as

    python tests/benchmarks/beir_folders.py OUT --cranfield DIR --cisi DIR --squad xquad=FILE --squad korquad=FILE

which writes OUT/cranfield, OUT/cisi, OUT/xquad and OUT/korquad, and says how much each holds.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

CRANFIELD_GAINS = {1: 4, 2: 3, 3: 2, 4: 1}
"""Cranfield grades run from 1 (a complete answer) to 4 (minimal interest); all else is not relevant."""

_FIELD = re.compile(r"^\.([A-Z])(?:\s+(\S+))?\s*$")


@dataclass(slots=True)
class Collection:
    """Documents as (id, title, text), queries as (id, text), judgements as (query id, document id, gain)."""

    documents: list[tuple[str, str, str]] = field(default_factory=list)
    queries: list[tuple[str, str]] = field(default_factory=list)
    judgements: list[tuple[str, str, int]] = field(default_factory=list)


def smart_records(path: Path) -> list[tuple[str, dict[str, str]]]:
    """The records of a SMART file: the number behind ``.I`` and the text of each field, white space collapsed."""
    records: list[tuple[str, dict[str, list[str]]]] = []
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        mark = _FIELD.match(line)
        if mark and mark[1] == "I" and mark[2]:
            records.append((mark[2], {}))
            lines = []
        elif mark and not mark[2] and records:
            lines = records[-1][1].setdefault(mark[1], [])
        else:
            lines.append(line)
    return [
        (number, {name: " ".join(" ".join(text).split()) for name, text in fields.items()})
        for number, fields in records
    ]


def cranfield(folder: Path) -> Collection:
    """Cranfield; the judgements count its queries 1..225 in file order, not by the numbers behind ``.I``."""
    collection = Collection()
    for number, fields in smart_records(folder / "cran.all.1400"):
        collection.documents.append((number, fields.get("T", ""), fields.get("W", "")))
    for position, (_, fields) in enumerate(smart_records(folder / "cran.qry"), start=1):
        collection.queries.append((str(position), fields["W"]))
    for line in (folder / "cranqrel").read_text(encoding="ascii").splitlines():
        query, document, grade = line.split()
        gain = CRANFIELD_GAINS.get(int(grade), 0)
        collection.judgements.append((query, document, gain))
    return collection


def cisi(folder: Path) -> Collection:
    """CISI; each listed pair is relevant. Queries without judgements stay out, they cannot be scored."""
    collection = Collection()
    for number, fields in smart_records(folder / "CISI.ALL"):
        collection.documents.append((number, fields.get("T", ""), fields.get("W", "")))
    for line in (folder / "CISI.REL").read_text(encoding="ascii").splitlines():
        query, document, *_ = line.split()
        collection.judgements.append((query, document, 1))
    judged = {query for query, _, _ in collection.judgements}
    for number, fields in smart_records(folder / "CISI.QRY"):
        if number in judged:
            collection.queries.append((number, fields["W"]))
    return collection


def squad(path: Path) -> Collection:
    """A SQuAD file: each distinct paragraph is a document, each question a query that its own paragraph answers."""
    collection = Collection()
    numbers: dict[str, str] = {}
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            text = paragraph["context"]
            if text not in numbers:
                numbers[text] = f"p{len(numbers) + 1}"
                collection.documents.append((numbers[text], "", text))
            for question in paragraph["qas"]:
                collection.queries.append((question["id"], question["question"]))
                collection.judgements.append((question["id"], numbers[text], 1))
    return collection


def questions(path: Path) -> Collection:
    """Lines with ``question`` and ``passage``: each distinct passage is a document, which answers its questions."""
    collection = Collection()
    numbers: dict[str, str] = {}
    asked: set[str] = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        row = json.loads(line)
        text = row["passage"]
        if text not in numbers:
            numbers[text] = f"p{len(numbers) + 1}"
            collection.documents.append((numbers[text], "", text))
        if row["question"] not in asked:
            asked.add(row["question"])
            collection.queries.append((f"q{number}", row["question"]))
            collection.judgements.append((f"q{number}", numbers[text], 1))
    return collection


def write(collection: Collection, folder: Path) -> None:
    """Write `collection` as a BEIR-style folder."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    _write_lines(
        folder / "corpus.jsonl",
        ({"_id": number, "title": title, "text": text} for number, title, text in collection.documents),
    )
    _write_lines(folder / "queries.jsonl", ({"_id": number, "text": text} for number, text in collection.queries))
    rows = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in collection.judgements)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def _write_lines(path: Path, values: Iterable[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for value in values:
            file.write(json.dumps(value, ensure_ascii=False) + "\n")


def main() -> None:
    """Read the command line, write the folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cranfield", type=Path, help="folder with cran.all.1400, cran.qry, cranqrel")
    parser.add_argument("--cisi", type=Path, help="folder with CISI.ALL, CISI.QRY, CISI.REL")
    parser.add_argument("--squad", action="append", default=[], metavar="NAME=FILE", help="a SQuAD-format file")
    parser.add_argument("--questions", action="append", default=[], metavar="NAME=FILE", help="lines of JSON")
    arguments = parser.parse_args()
    collections: dict[str, Collection] = {}
    if arguments.cranfield:
        collections["cranfield"] = cranfield(arguments.cranfield)
    if arguments.cisi:
        collections["cisi"] = cisi(arguments.cisi)
    for items, read in ((arguments.squad, squad), (arguments.questions, questions)):
        for item in items:
            name, _, file = item.partition("=")
            collections[name] = read(Path(file))
    for name, collection in collections.items():
        write(collection, arguments.out / name)
        print(
            f"{arguments.out / name}: {len(collection.documents)} documents, {len(collection.queries)} queries, "
            f"{len(collection.judgements)} judgements"
        )


if __name__ == "__main__":
    main()
