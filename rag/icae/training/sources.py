"""Reads what is trained on: texts from files and folders of any kind, questions from rows. It knows no tokenizer.

Rows are JSON lines with ``text``, or with ``passage``, ``question`` and ``answer``; JSON in SQuAD's form has its
paragraphs and questions read. Any other file is read as `index` reads it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .... import UsageError
from ....encoders.backbones.digests import sha256_of
from ...documents import NoText, ReadError, UnsupportedFile
from ...readers.registry import read_parts

_PASSAGE = ("passage", "context", "text")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that a text answers.

    Attributes
    ----------
    question : str
    answers : tuple of str
        Accepted ones, the one to be learned first; never empty.
    """

    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text and what is asked about it."""

    text: str
    asked: tuple[Asked, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A file or folder of texts.

    Attributes
    ----------
    path : Path
    licence : str
        As its user names it.
    """

    path: Path
    licence: str = ""

    @property
    def name(self) -> str:
        """Name of the file or folder."""
        return self.path.resolve().name

    def files(self) -> list[Path]:
        """The files in it, in an order that does not depend on the machine; hidden ones are left out.

        Raises
        ------
        slotrag.UsageError
            There is no such file or folder.
        """
        if self.path.is_file():
            return [self.path]
        if not self.path.is_dir():
            raise UsageError(f"There is nothing to train on at {self.path}; name a file or folder that is there.")
        found = (path for path in self.path.rglob("*") if path.is_file())
        inside = ((path.relative_to(self.path).as_posix(), path) for path in found)
        return [path for name, path in sorted(inside) if not any(part.startswith(".") for part in name.split("/"))]

    def sha256(self) -> str:
        """Hash of the content: of the file, or of the names and contents of all files of the folder."""
        files = self.files()
        if files == [self.path]:
            return sha256_of(self.path)
        lines = (f"{path.relative_to(self.path).as_posix()}\0{sha256_of(path)}\n" for path in files)
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()

    def texts(self, skipped: list[str] | None = None) -> Iterator[SourceText]:
        """The texts, one after the other; files without text are told to `skipped`.

        Raises
        ------
        slotrag.UsageError
            The one file that is named cannot be read, or a row has no text.
        """
        for path in self.files():
            try:
                yield from _texts(path)
            except (ReadError, NoText, UnsupportedFile) as error:
                if path == self.path:
                    raise UsageError(f"{path} cannot be trained on: {error}.") from error
                if skipped is not None:
                    skipped.append(f"{path}: {error}")


class WordRuns:
    """Tells whether a text shares a run of words with texts that it must not share any with.

    Parameters
    ----------
    length : int
        Words of a run. 13 is what language models' data are cleaned of benchmarks by (Brown et al., 2020, appendix C).

    Examples
    --------
    >>> runs = WordRuns(3)
    >>> runs.add("The bridge was opened in 1844.")
    >>> runs.shared("It says: the BRIDGE was wide"), runs.shared("The bridge is wide")
    (True, False)
    """

    def __init__(self, length: int = 13) -> None:
        self._length = length
        self._known: set[bytes] = set()

    def add(self, text: str) -> None:
        """Take in the runs of `text`; a shorter text counts as one run."""
        self._known.update(self._runs(text))

    def shared(self, text: str) -> bool:
        """Whether `text` has one of them."""
        return bool(self._known) and any(run in self._known for run in self._runs(text))

    def _runs(self, text: str) -> Iterator[bytes]:
        words = [word.lower() for word in _WORD.findall(text)]
        for start in range(max(len(words) - self._length, 0) + 1):
            run = " ".join(words[start : start + self._length])
            if run:
                yield hashlib.blake2b(run.encode("utf-8", "surrogateescape"), digest_size=8).digest()


def with_licences(paths: Sequence[Path], licences: Sequence[str]) -> list[Source]:
    """Sources with their licences: one for each path, or one for all.

    Raises
    ------
    slotrag.UsageError
        Another number of them.
    """
    if len(licences) not in (0, 1, len(paths)):
        raise UsageError(f"--licence is given once, or once for each of the {len(paths)} --data, not {len(licences)}x.")
    named = list(licences) if len(licences) == len(paths) else [*licences, ""][:1] * len(paths)
    return [Source(path, licence) for path, licence in zip(paths, named, strict=True)]


def _texts(path: Path) -> Iterator[SourceText]:
    if path.suffix.lower() == ".jsonl":
        return _rows(path)
    if path.suffix.lower() == ".json":
        squad = _squad(path)
        if squad is not None:
            return squad
    return (SourceText(document.text) for document in read_parts(path))


def _rows(path: Path) -> Iterator[SourceText]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise UsageError(
                    f"{path}, line {number} is not JSON ({error}); put it right or leave it out."
                ) from None
            name = next((name for name in _PASSAGE if isinstance(row, dict) and isinstance(row.get(name), str)), None)
            if name is None:
                raise UsageError(f"{path}, line {number} has no {' or '.join(map(repr, _PASSAGE))}; name the text so.")
            yield SourceText(row[name], _asked(row.get("question"), row.get("answer")))


def _asked(question: object, answer: object) -> tuple[Asked, ...]:
    if not (isinstance(question, str) and isinstance(answer, str) and question.strip() and answer.strip()):
        return ()
    return (Asked(question.strip(), (answer.strip(),)),)


def _squad(path: Path) -> Iterator[SourceText] | None:
    """Paragraphs with their questions, None where the file is of another form."""
    try:
        value: Any = json.loads(path.read_bytes())
        articles = value["data"]
        return iter([_paragraph(found) for article in articles for found in article["paragraphs"]])
    except (ValueError, TypeError, KeyError, IndexError):
        return None


def _paragraph(value: Any) -> SourceText:
    asked = []
    for question in value["qas"]:
        answers = tuple(dict.fromkeys(str(answer["text"]) for answer in question["answers"]))
        if answers:
            asked.append(Asked(str(question["question"]), answers))
    return SourceText(str(value["context"]), tuple(asked))
