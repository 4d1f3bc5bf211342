"""Reads BEIR-style folders: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/*.tsv``. It knows no encoder, no measure.

The form is that of Thakur et al., "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval
Models", NeurIPS 2021.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import DatasetError

DEFAULT_QRELS = "test"


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """A document of the corpus."""

    id: str
    title: str
    text: str

    @property
    def whole(self) -> str:
        """Title, space, text; one of them alone where the other is empty."""
        return f"{self.title} {self.text}".strip()


@dataclass(frozen=True, slots=True)
class Dataset:
    """A test collection.

    Attributes
    ----------
    queries : dict of str to str
        Text of each judged query by its id, in the order of the file; queries without judgements are left out.
    judgements : dict of str to dict of str to int
        Gain of each judged document, by query id and document id; 0 and below means not relevant.
    """

    name: str
    documents: list[CorpusDocument]
    queries: dict[str, str]
    judgements: dict[str, dict[str, int]]


def read_dataset(folder: Path, *, qrels: str = DEFAULT_QRELS) -> Dataset:
    """Read a BEIR-style folder.

    Parameters
    ----------
    qrels : str
        Which ``qrels/NAME.tsv``. Where there is no ``test.tsv`` and only one other file, that one is taken.

    Raises
    ------
    DatasetError
        A file is missing, a line is malformed, an id is twice there or is judged but unknown, or nothing is judged.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DatasetError(folder, "there is no such folder; give one with corpus.jsonl, queries.jsonl and qrels/*.tsv")
    documents = _documents(folder / "corpus.jsonl")
    queries = _queries(folder / "queries.jsonl")
    path = _qrels_file(folder, qrels)
    judgements = _judgements(path, {document.id for document in documents}, queries.keys())
    judged = {query: text for query, text in queries.items() if query in judgements}
    return Dataset(folder.resolve().name, documents, judged, judgements)


def _documents(path: Path) -> list[CorpusDocument]:
    documents: dict[str, CorpusDocument] = {}
    for number, value in _json_lines(path):
        document = CorpusDocument(
            _text(value, "_id", path, number),
            _text(value, "title", path, number, ""),
            _text(value, "text", path, number),
        )
        if document.id in documents:
            raise DatasetError(path, f"the document id {document.id!r} is there a second time", number)
        documents[document.id] = document
    if not documents:
        raise DatasetError(path, "it holds no document")
    return list(documents.values())


def _queries(path: Path) -> dict[str, str]:
    queries: dict[str, str] = {}
    for number, value in _json_lines(path):
        name, text = _text(value, "_id", path, number), _text(value, "text", path, number)
        if name in queries:
            raise DatasetError(path, f"the query id {name!r} is there a second time", number)
        if not text.strip():
            raise DatasetError(path, f"the query {name!r} has no text", number)
        queries[name] = text
    return queries


def _qrels_file(folder: Path, name: str) -> Path:
    path = folder / "qrels" / f"{name}.tsv"
    if path.is_file():
        return path
    others = sorted(file.stem for file in (folder / "qrels").glob("*.tsv"))
    if len(others) == 1 and name == DEFAULT_QRELS:
        return path.with_name(f"{others[0]}.tsv")
    there = f"there are {', '.join(others)}" if others else "there are no judgements in qrels/*.tsv"
    raise DatasetError(path, f"the file is missing; {there}")


def _judgements(path: Path, documents: set[str], queries: Any) -> dict[str, dict[str, int]]:
    judgements: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        fields = line.rstrip("\r\n").split("\t")
        if len(fields) != 3:
            raise DatasetError(path, "a line is query id, document id and gain with tabs between them", number)
        query, document, gain = (field.strip() for field in fields)
        try:
            value = int(gain)
        except ValueError:
            if number == 1:
                continue  # the header
            raise DatasetError(path, f"the gain is a whole number, not {gain!r}", number) from None
        if query not in queries:
            raise DatasetError(path, f"the query {query!r} is not in queries.jsonl", number)
        if document not in documents:
            raise DatasetError(path, f"the document {document!r} is not in corpus.jsonl", number)
        judgements.setdefault(query, {})[document] = value
    if not judgements:
        raise DatasetError(path, "it holds no judgement")
    return judgements


def _json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _lines(path):
        try:
            value = json.loads(line)
        except ValueError as error:
            raise DatasetError(path, f"not JSON ({error})", number) from None
        if not isinstance(value, dict):
            raise DatasetError(path, "a line is a JSON object", number)
        yield number, value


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, numbered from 1."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except FileNotFoundError:
        raise DatasetError(path, "the file is missing") from None
    except UnicodeDecodeError:
        raise DatasetError(path, "the file is not UTF-8") from None
    except OSError as error:
        raise DatasetError(path, f"the file cannot be read ({error.strerror})") from None


def _text(value: dict[str, Any], key: str, path: Path, number: int, default: str | None = None) -> str:
    found = value.get(key, default)
    if key == "_id" and isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    if found is None and default is not None:
        return default
    if not isinstance(found, str):
        raise DatasetError(path, f"{key!r} must be there and be a text", number)
    return found
