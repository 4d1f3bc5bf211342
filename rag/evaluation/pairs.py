"""Reads pairs of sentences with a gold similarity, in the forms that the STS tasks are handed out in.

STS benchmark (seven columns without names), SICK and KorSTS (columns with names), STS12-16 (``STS.input.*.txt`` with
``STS.gs.*.txt`` beside it, or a folder of them), and csv, tsv or jsonl with named columns. It knows no encoder.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import UsageError
from .errors import DatasetError
from .tables import Content, is_jsonl, plain_name, read_content, records, rows

COLUMNS = (
    ("sentence1", "sentence_a", "sentencea", "text1", "text_a", "s1"),
    ("sentence2", "sentence_b", "sentenceb", "text2", "text_b", "s2"),
    ("score", "relatedness_score", "similarity_score", "similarity", "gold", "label"),
)
"""Names of the first sentence's, the second's and the gold score's column, the first that is there counting."""

LEAST_PAIRS = 3

_BENCHMARK_FIELDS = (5, 6, 4)
_INPUT, _GOLD = ("sts.input.", ".input."), ("STS.gs.", ".gs.")


@dataclass(frozen=True, slots=True)
class Pairs:
    """Sentence pairs.

    Attributes
    ----------
    first, second : list of str
    gold : list of float
        How alike the two are, by whatever scale.
    sha256 : str
        Of the file's bytes, or over those of several.
    """

    name: str
    first: list[str]
    second: list[str]
    gold: list[float]
    sha256: str

    def __len__(self) -> int:
        return len(self.gold)

    def sample(self, most: int) -> Pairs:
        """At most `most` pairs, evenly spread over the file, in its order."""
        if most >= len(self):
            return self
        kept = [number * len(self) // most for number in range(most)]
        return Pairs(
            self.name,
            [self.first[place] for place in kept],
            [self.second[place] for place in kept],
            [self.gold[place] for place in kept],
            self.sha256,
        )


def read_pairs(path: Path, *, gold: Path | None = None, columns: Sequence[str] | None = None) -> Pairs:
    """Read a file of pairs, or a folder of ``STS.input.*.txt`` as one set.

    Parameters
    ----------
    gold : Path, optional
        The scores of a file that holds sentences only, a line each; found by its name where it is the usual one.
    columns : sequence of three str, optional
        Names of the columns of the two sentences and the score; by default one of `COLUMNS`.

    Raises
    ------
    DatasetError
        It cannot be read, a line is malformed, or there are fewer than `LEAST_PAIRS` pairs or no two different scores.
    slotrag.UsageError
        Not three columns.
    """
    path = Path(path)
    if columns is not None and (len(columns) != len(COLUMNS) or not all(columns)):
        raise UsageError("Name three columns, FIRST,SECOND,SCORE: of the two sentences and their score.")
    if path.is_dir():
        return _checked(_folder(path), path)
    content = read_content(path)
    found = _with_gold_file(content, gold) if gold or _gold_of(path) else _alone(content, columns)
    return _checked(found, path)


def _alone(content: Content, columns: Sequence[str] | None) -> Pairs:
    first, second, scores = [], [], []
    for number, left, right, score in _fields(content, columns):
        first.append(_sentence(content.path, number, left))
        second.append(_sentence(content.path, number, right))
        scores.append(_score(content.path, number, score))
    return Pairs(_name(content.path), first, second, scores, content.sha256)


def _fields(content: Content, columns: Sequence[str] | None) -> Iterator[tuple[int, Any, Any, Any]]:
    """Line number, two sentences and score of each row."""
    if columns is None and not is_jsonl(content):
        number, head = next(rows(content))
        if not _named(content, head):
            yield from _benchmark(content, number, head)
            return
    chosen = None
    for number, record in records(content):
        chosen = chosen or _chosen(content, record, columns)
        missing = [name for name in chosen if name not in record]
        if missing:
            raise DatasetError(content.path, f"the line has no {missing[0]!r}", number)
        yield number, record[chosen[0]], record[chosen[1]], record[chosen[2]]


def _named(content: Content, head: Sequence[str]) -> bool:
    names = {name.strip().lower() for name in head}
    return all(names & set(known) for known in COLUMNS)


def _chosen(content: Content, record: Mapping[str, Any], columns: Sequence[str] | None) -> list[str]:
    if columns is not None:
        for name in columns:
            if name not in record:
                there = ", ".join(record)
                raise DatasetError(content.path, f"there is no column {name!r}; there are {there}", 1)
        return list(columns)
    by_small = {name.lower(): name for name in record}
    chosen = []
    for known in COLUMNS:
        name = next((by_small[name] for name in known if name in by_small), None)
        if name is None:
            there = ", ".join(record)
            raise DatasetError(
                content.path, f"there is no column {known[0]!r}; there are {there}; name yours by --columns", 1
            )
        chosen.append(name)
    return chosen


def _benchmark(content: Content, number: int, head: Sequence[str]) -> Iterator[tuple[int, str, str, str]]:
    """The seven columns of the STS benchmark, and more that name sources."""
    if len(head) <= max(_BENCHMARK_FIELDS):
        raise DatasetError(
            content.path,
            "the first line names no columns sentence1, sentence2 and score, and it is none of the STS benchmark's "
            "seven columns; name yours by --columns FIRST,SECOND,SCORE, or the file of the scores by --gold",
            number,
        )
    for line, fields in rows(content):
        if len(fields) <= max(_BENCHMARK_FIELDS):
            raise DatasetError(content.path, f"the line has {len(fields)} fields of 7 with tabs between them", line)
        left, right, score = (fields[place] for place in _BENCHMARK_FIELDS)
        yield line, left, right, score


def _with_gold_file(content: Content, gold: Path | None) -> Pairs:
    """Sentences from one file, scores from another; an empty line of scores leaves its pair out."""
    path = gold or _gold_of(content.path)
    assert path is not None
    sentences, scores = _lines(content), _lines(scored := read_content(path))
    if len(sentences) != len(scores):
        raise DatasetError(path, f"it holds {len(scores)} lines, {content.path.name} {len(sentences)}")
    first, second, kept = [], [], []
    for number, (line, score) in enumerate(zip(sentences, scores, strict=True), start=1):
        if not score.strip():
            continue  # not judged, as most pairs of STS16
        fields = line.split("\t")
        if len(fields) < 2:
            raise DatasetError(content.path, "a line is two sentences with a tab between them", number)
        first.append(_sentence(content.path, number, fields[0]))
        second.append(_sentence(content.path, number, fields[1]))
        kept.append(_score(path, number, score))
    return Pairs(_name(content.path), first, second, kept, _over([content.sha256, scored.sha256]))


def _folder(path: Path) -> Pairs:
    files = [file for file in sorted(path.iterdir()) if _gold_of(file) is not None]
    if not files:
        raise DatasetError(path, "the folder holds no STS.input.*.txt with its STS.gs.*.txt; name a file")
    parts = [_with_gold_file(read_content(file), None) for file in files]
    return Pairs(
        path.resolve().name,
        [text for part in parts for text in part.first],
        [text for part in parts for text in part.second],
        [score for part in parts for score in part.gold],
        _over([part.sha256 for part in parts]),
    )


def _gold_of(path: Path) -> Path | None:
    """The file of scores that lies beside a file of sentences, by the names of STS12-16."""
    place = path.name.lower().find(_INPUT[1])
    if not path.name.lower().startswith(_INPUT[0]) or place < 0:
        return None
    name = path.name[:place] + _GOLD[1] + path.name[place + len(_INPUT[1]) :]
    return next((file for file in (path.with_name(name), path.with_name(name + ".gz")) if file.is_file()), None)


def _lines(content: Content) -> list[str]:
    lines = content.text.split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if not lines[-1] else lines)]


def _sentence(path: Path, number: int, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DatasetError(path, "a sentence is missing", number)
    return value.strip()


def _score(path: Path, number: int, value: Any) -> float:
    try:
        score = float(value)
    except (TypeError, ValueError):
        score = math.nan
    if not math.isfinite(score) or isinstance(value, bool):
        raise DatasetError(path, f"the score is a number, not {value!r}", number)
    return score


def _checked(pairs: Pairs, path: Path) -> Pairs:
    if len(pairs) < LEAST_PAIRS:
        raise DatasetError(path, f"it holds {len(pairs)} judged pairs, which is too few to measure on")
    if len(set(pairs.gold)) < 2:
        raise DatasetError(path, "all its scores are equal, so that nothing can be measured by them")
    return pairs


def _name(path: Path) -> str:
    name = plain_name(path)
    return name.rpartition(".")[0] or name


def _over(digests: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()
