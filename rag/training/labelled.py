"""Reads labelled files as examples to train on: the kind is told by the columns. It knows no model and no loss.

Three kinds: texts with labels, pairs of texts with a score, and queries with the text that answers each (and one that
does not). Files are jsonl, csv or tsv, plain or gzip; pairs also in the forms that the STS tasks are handed out in, and
queries also as a BEIR-style folder.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ... import UsageError
from ...encoders.training.examples import Labelled, Queries, ScoredPairs
from ..evaluation.beir import read_dataset
from ..evaluation.errors import DatasetError
from ..evaluation.labelled import LABEL_COLUMNS, TEXT_COLUMNS, read_labelled
from ..evaluation.pairs import COLUMNS as PAIR_COLUMNS
from ..evaluation.pairs import read_pairs
from ..evaluation.tables import Content, is_jsonl, plain_name, read_content, records, rows

if TYPE_CHECKING:
    from ...encoders.training.examples import Examples

QUERY_COLUMNS = ("query", "question", "anchor")
POSITIVE_COLUMNS = ("positive", "passage", "answer_passage", "context", "document", "pos")
NEGATIVE_COLUMNS = ("negative", "hard_negative", "neg")
"""Names of the columns of a query, of the text that answers it and of one that does not, the first found counting."""

KINDS = {
    "query and positive, with or without negative": ("query", "positive"),
    "sentence1, sentence2 and score": ("sentence1", "sentence2", "score"),
    "text and label": ("text", "label"),
}
"""What `columns` may name, by kind."""

_ROLES = {
    "query": QUERY_COLUMNS, "positive": POSITIVE_COLUMNS, "negative": NEGATIVE_COLUMNS,
    "sentence1": PAIR_COLUMNS[0], "sentence2": PAIR_COLUMNS[1], "score": PAIR_COLUMNS[2],
    "text": TEXT_COLUMNS, "label": LABEL_COLUMNS,
}  # fmt: skip
_TRAINING_QRELS = "train"
_STS_INPUT = "sts.input."
"""How files of sentences are named whose scores lie in a file beside them."""

_STS_SCORE = 4
"""Place of the score among the STS benchmark's columns, which have no names."""


def read_examples(path: Path | str, *, columns: Mapping[str, str] | None = None, licence: str = "") -> Examples:
    """Read a labelled file.

    Parameters
    ----------
    path : Path
        A file of rows with named columns, one in an STS task's form, or a BEIR-style folder with a
        ``qrels/train.tsv``: no judgements are trained on that are there to measure by.
    columns : mapping of str to str, optional
        Names of the columns by what they hold: ``query``, ``positive``, ``negative``; ``sentence1``, ``sentence2``,
        ``score``; or ``text``, ``label``. By default the usual names.
    licence : str
        Of the data, to be noted in what is trained on it.

    Returns
    -------
    Labelled, ScoredPairs or Queries
        A row of several positives (a list, in jsonl) becomes several; of several negatives the first is taken.

    Raises
    ------
    slotrag.rag.evaluation.errors.DatasetError
        It cannot be read, or no kind fits its columns; the message names the line and the column.
    slotrag.UsageError
        `columns` names what none of the kinds has.
    """
    path = Path(path).expanduser()
    if columns is not None:
        _check_columns(columns)
    if path.is_dir() and (path / "queries.jsonl").is_file():
        return _from_beir(path, licence)
    if path.is_dir() or (columns is None and path.name.lower().startswith(_STS_INPUT)):
        return _pairs(path, None, licence)
    content = read_content(path)
    chosen = _kind(content, columns)
    if "query" in chosen:
        return _queries(content, chosen, licence)
    if "text" in chosen:
        found = read_labelled(path, columns=[chosen["text"], chosen["label"]])
        if len(set(found.labels)) < 2:
            raise DatasetError(path, f"all its texts have the label {found.labels[0]!r}; two labels are needed")
        return Labelled(texts=found.texts, labels=found.labels, name=found.name, sha256=content.sha256, licence=licence)
    return _pairs(path, [chosen[role] for role in _ROLES if role in chosen] or None, licence)


def _check_columns(columns: Mapping[str, str]) -> None:
    for role, name in columns.items():
        if role not in _ROLES or not name:
            raise UsageError(f"A column is named as ROLE=NAME, the role one of {', '.join(_ROLES)}, not {role!r}.")
    if not any(set(needed) <= set(columns) for needed in KINDS.values()):
        raise UsageError(f"Name the columns of one kind: {'; or '.join(KINDS)}.")


def _kind(content: Content, columns: Mapping[str, str] | None) -> dict[str, str]:
    """The names of the columns by role; empty for a file of pairs whose first line names none."""
    number, first = _first(content)
    if columns is not None:
        for name in columns.values():
            if name not in first:
                raise DatasetError(content.path, f"there is no column {name!r}; there are {', '.join(first)}", number)
        return dict(columns)
    by_small = {name.lower(): name for name in first}
    named = {role: by_small[known] for role, names in _ROLES.items() for known in reversed(names) if known in by_small}
    for needed in KINDS.values():
        if set(needed) <= set(named):
            extra = {"negative"} if "query" in needed else set()
            return {role: name for role, name in named.items() if role in {*needed, *extra}}
    if not is_jsonl(content) and _is_score(first[_STS_SCORE : _STS_SCORE + 1]):
        return {}
    raise DatasetError(
        content.path,
        f"its columns ({', '.join(first)}) are none of the kinds to train on: {'; or '.join(KINDS)}; name yours by "
        "--columns, as in --columns query=QUESTION,positive=PARAGRAPH",
        number,
    )


_STS_FIELDS = range(7)


def _is_score(fields: Sequence[str]) -> bool:
    """Whether the first line of a table is no head but a row of the STS benchmark."""
    try:
        return bool(fields) and math.isfinite(float(fields[0]))
    except ValueError:
        return False


def _first(content: Content) -> tuple[int, list[str]]:
    """Line number and column names of the first row."""
    if is_jsonl(content):
        number, record = next(records(content))
        return number, list(record)
    number, names = next(rows(content))
    return number, [name.strip() for name in names]


def _pairs(path: Path, columns: Sequence[str] | None, licence: str) -> ScoredPairs:
    found = read_pairs(path, columns=columns)
    return ScoredPairs(
        first=found.first, second=found.second, scores=found.gold, name=found.name, sha256=found.sha256,
        licence=licence,
    )  # fmt: skip


def _queries(content: Content, columns: Mapping[str, str], licence: str) -> Queries:
    triples = [
        (query, positive, negative)
        for number, record in records(content)
        for query, positive, negative in _triples(content.path, number, record, columns)
    ]
    return _as_queries(triples, plain_name(content.path), content.sha256, licence)


def _triples(
    path: Path, number: int, record: Mapping[str, Any], columns: Mapping[str, str]
) -> Iterator[tuple[str, str, str | None]]:
    query = _text(path, number, record, columns["query"])
    positives = _texts(path, number, record, columns["positive"])
    if not positives:
        raise DatasetError(path, f"there is no text in {columns['positive']!r}", number)
    negatives = _texts(path, number, record, columns["negative"]) if "negative" in columns else []
    for positive in positives:
        yield query, positive, negatives[0] if negatives else None


def _texts(path: Path, number: int, record: Mapping[str, Any], column: str) -> list[str]:
    """The text of a column, or the texts of a list in it; nothing where it is empty or left out."""
    value = record.get(column)
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return [text for text in cast("list[str]", value) if text.strip()]
    if value is None or value == "":
        return []
    return [_text(path, number, record, column)]


def _text(path: Path, number: int, record: Mapping[str, Any], column: str) -> str:
    value = record.get(column)
    if not isinstance(value, str) or not value.strip():
        raise DatasetError(path, f"there is no text in {column!r}", number)
    return value.strip()


def _as_queries(triples: Sequence[tuple[str, str, str | None]], name: str, sha256: str, licence: str) -> Queries:
    negatives = [negative for _, _, negative in triples]
    return Queries(
        queries=[query for query, _, _ in triples],
        positives=[positive for _, positive, _ in triples],
        negatives=negatives if any(negatives) else None,
        name=name,
        sha256=sha256,
        licence=licence,
    )


def _from_beir(folder: Path, licence: str) -> Queries:
    """Each judged query with each document that is relevant to it; its own negatives are left to the batch."""
    judgements = folder / "qrels" / f"{_TRAINING_QRELS}.tsv"
    if not judgements.is_file():
        raise DatasetError(judgements, "the file is missing; other judgements are for measuring and not trained on")
    data = read_dataset(folder, qrels=_TRAINING_QRELS)
    texts = {document.id: document.whole for document in data.documents}
    triples: list[tuple[str, str, str | None]] = [
        (data.queries[query], texts[document], None)
        for query, gains in data.judgements.items()
        for document, gain in gains.items()
        if gain > 0 and texts[document]
    ]
    if not triples:
        raise DatasetError(folder, "no document is judged relevant to a query")
    digests = [f"{query}\t{positive}" for query, positive, _ in triples]
    return _as_queries(triples, data.name, hashlib.sha256("\n".join(digests).encode()).hexdigest(), licence)
