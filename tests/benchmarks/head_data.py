"""Training examples for the heads that ship: questions, paragraphs, definitions and documents, all as queries.

Every set names its licence, which a trained head's JSON repeats. Nothing here is a set that heads are measured on.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from slotrag.encoders.training.examples import Examples, Queries
from slotrag.rag.training.labelled import read_examples

QUESTIONS = {
    "natural": "CC BY-SA 3.0 (QED, Natural Questions)",
    "pubmed": "MIT (PubMedQA)",
    "reading": "CC BY-SA 4.0, CC BY 4.0, MIT (AdversarialQA, Quoref, DuoRC)",
}
PROSE = "CC BY-SA 4.0 and the like (WikiHop, WikiText-2, DBpedia, ROPES, SciQ, Quartz, CosmosQA, WikiBio)"
STS = "CC BY-SA 4.0 (STS Benchmark)"
FOLDOC = "GFDL 1.1 or later (The Free On-line Dictionary of Computing, http://www.foldoc.org/, editor Denis Howe)"
_LONGEST_DEFINITION, _SHORTEST_DEFINITION = 1500, 120


def questions(folder: Path, most: int) -> list[Queries]:
    """Questions with the passage that answers each."""
    found = []
    for name, licence in QUESTIONS.items():
        read = read_examples(folder / f"{name}.jsonl", licence=licence)
        assert isinstance(read, Queries)
        found.append(_bounded(read, most))
    return found


def prose(file: Path, work: Path, most: int) -> Queries:
    """A sentence of a paragraph for the paragraph without it."""
    folder = work / "prose"
    folder.mkdir(parents=True, exist_ok=True)
    for line in file.read_text(encoding="utf-8").splitlines():
        text = json.loads(line)["text"]
        path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.txt"
        if not path.exists():
            path.write_text(text, encoding="utf-8")
    return documents(folder, "prose", PROSE, work, most, kinds=("sentence",))


def sentence_pairs(file: Path) -> Examples:
    """The training pairs of the STS benchmark."""
    return read_examples(file, licence=STS)


def definitions(file: Path, most: int) -> Queries:
    """A headword of a dictionary in dictd's form (``.dict.dz``) for its definition."""
    with gzip.open(file) as opened:
        content = opened.read()
    lines = content.decode("utf-8", "replace").split("\n")
    queries, positives, head, body = [], [], "", []
    for line in [*lines, "end"]:
        if line and not line.startswith(" "):
            text = " ".join(" ".join(body).split())
            text = re.sub(r"[{}]", "", text)
            if head and _SHORTEST_DEFINITION <= len(text) <= _LONGEST_DEFINITION and not head.startswith("00-database"):
                queries.append(head)
                positives.append(text)
            head, body = line.strip(), []
        else:
            body.append(line)
    sha256 = hashlib.sha256(content).hexdigest()
    return _bounded(Queries(queries, positives, name="foldoc", sha256=sha256, licence=FOLDOC), most)


def documents(
    folder: Path, name: str, licence: str, work: Path, most: int, kinds: Sequence[str] = ("heading", "sentence")
) -> Queries:
    """Headings and sentences of a folder's documents for their passages, as `slotrag train --collection` makes them."""
    from slotrag.rag.library import Library
    from slotrag.rag.training.documents import own_pairs

    sys.path.insert(0, str(Path(__file__).parents[1] / "support" / "plugin"))
    with Library.open(work / "library") as library:
        library.index([folder], collection=name, encoder="hashing")
        shared = library._shared()
        pairs = own_pairs(shared.catalog, shared.catalog.collection(name), most=3 * most)
    chosen = [pair for pair in pairs.pairs if pair.kind in kinds]
    made = Queries([pair.query for pair in chosen], [pair.positive for pair in chosen], name=name, licence=licence)
    return _bounded(made, most)


def with_negatives(examples: Queries) -> Queries:
    """The same, each query with the passage of another that has most of its words (by tf-idf)."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    passages = examples.passages()
    places = {text: place for place, text in enumerate(passages)}
    relevant = examples.relevant()
    vectoriser = TfidfVectorizer(sublinear_tf=True)
    rows = vectoriser.fit_transform(passages)
    asked = vectoriser.transform(examples.queries)
    negatives: list[str | None] = []
    for at in range(0, len(examples), 256):
        scores = np.asarray((asked[at : at + 256] @ rows.T).todense())
        for offset, of_one in enumerate(scores):
            for right in relevant[examples.queries[at + offset]]:
                of_one[places[right]] = 0.0
            best = int(of_one.argmax())
            negatives.append(passages[best] if of_one[best] > 0 else None)
    return replace(examples, negatives=negatives)


def _bounded(examples: Queries, most: int) -> Queries:
    order = np.random.default_rng(0).permutation(len(examples))[:most]
    return examples.chosen(sorted(order.tolist()))
