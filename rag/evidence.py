"""The sentences of the found passages that best support an answer. It knows an encoder, no decoder and no storage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..storage.tokenise import tokens
from .sentences import one_line, sentences, without_markers
from .words import content_tokens

if TYPE_CHECKING:
    from ..encoders.base import Encoder
    from .results import Hit

MOST_SENTENCES = 400
"""Sentences looked at for one question; those of the best passages first."""

LONGEST_SENTENCE = 500
"""Characters; a longer one is divided into its lines."""

WORDS_WEIGHT = 0.5
"""What holding all words of the question adds to a sentence's cosine, rare words counting more."""

FEWEST_WORDS = 4
"""Words from which a piece without a full stop tells something; a shorter one is a title, a cell or an item."""

_WORD = re.compile(r"[^\W_]")
_WORDS = re.compile(r"[^\W\d_]+|\d[\d.,]*")
_PAIRED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff]")
_ENDED = re.compile(r"""[.!?…。！？｡][)\]}»"'”’」』】*_`]*$""")
_HEADING = re.compile(r"(?:[ \t]*#{1,6}[ \t]+[^\n]*(?:\n\s*|$)|[^\n]+\n[ \t]*(?:={3,}|-{3,})[ \t]*(?:\n\s*|$))+")
_ROW = re.compile(r"^[ \t]*(?:\|.*\||\S.* \| .*\S)[ \t]*$", re.MULTILINE)
_MARKS = re.compile(r"(?:[>•▪◦]|[-*+](?=\s)|#{1,6}(?=\s))\s*")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a passage.

    Attributes
    ----------
    passage : int
        Place of its passage in the list of hits.
    start, end : int
        Characters ``[start, end)`` of the passage's text.
    text : str
        These, `readable`.
    score : float
        How well it fits the question; comparable within one question.
    vector : numpy.ndarray
        The encoder's unit vector, float32.
    """

    passage: int
    start: int
    end: int
    text: str
    score: float
    vector: np.ndarray


def rank_sentences(question: str, hits: Sequence[Hit], encoder: Encoder) -> list[Sentence]:
    """The sentences of `hits`, best support for `question` first, the same text once; headings only for want of others.

    The score is the cosine of sentence and question plus a share for the question's words that the sentence holds, a
    word that few of the sentences have counting more.
    """
    places = [
        (number, start, end)
        for number, hit in enumerate(hits)
        for start, end in _pieces(hit.text)
        if _WORD.search(without_markers(hit.text[start:end]))
    ]
    told = [(n, start, end) for n, start, end in places if not is_heading(hits[n].text[start:end], hits[n].heading)]
    places = (told or places)[:MOST_SENTENCES]
    if not places:
        return []
    texts = [readable(hits[number].text[start:end]) for number, start, end in places]
    vectors = encoder.encode_documents(texts)
    cosines = vectors @ encoder.encode_queries([question])[0]
    scores = cosines + WORDS_WEIGHT * _word_shares(question, texts)
    ranked = [
        Sentence(number, start, end, text, float(score), vector)
        for (number, start, end), text, vector, score in zip(places, texts, vectors, scores, strict=True)
    ]
    ranked.sort(key=lambda sentence: -sentence.score)
    seen: set[str] = set()
    return [sentence for sentence in ranked if not (sentence.text in seen or seen.add(sentence.text))]


def readable(text: str) -> str:
    """`text` as it is shown: prose on one line, without the marks of headings, list items and chat templates.

    Examples
    --------
    >>> readable("- They renewed it the\\n  same day.")
    'They renewed it the same day.'
    """
    text = without_markers(text).strip()
    mark = _MARKS.match(text)
    text = text[mark.end() :] if mark is not None else text
    return one_line(text.strip().strip("|").strip() if is_row(text) else text)


def is_row(text: str) -> bool:
    """Whether `text` is a row of a table, as readers write tables: cells with ``|`` between them.

    Examples
    --------
    >>> is_row("| Zen lamp | 45 EUR |"), is_row("name: Ada | phone: 12"), is_row("a sentence")
    (True, True, False)
    """
    return _ROW.fullmatch(text) is not None


def is_heading(text: str, headings: str = "") -> bool:
    """Whether `text` is nothing but a heading, by its marks or as one of the passage's own `headings`.

    Examples
    --------
    >>> is_heading("## Statutes"), is_heading("Statutes", "Choir > Statutes"), is_heading("Statutes bind us.")
    (True, True, False)
    """
    text = text.strip()
    found = _HEADING.match(text)
    if found is not None and found.end() == len(text):
        return True
    return not _ENDED.search(text) and bool(text) and " ".join(text.split()).casefold() in headings.casefold()


def tells(text: str) -> bool:
    """Whether `text` tells something by itself, which a title, an item or a cell of a table does not.

    Examples
    --------
    >>> tells("Choir statutes"), tells("x=1"), tells("Item."), tells("It rained."), tells("도서관은 월요일에 쉽니다.")
    (False, False, False, True, True)
    """
    text = without_markers(text).strip()
    if is_heading(text):
        return False
    words = _WORDS.findall(text)
    if _PAIRED.search(text):
        return len("".join(words)) >= (FEWEST_WORDS if _ENDED.search(text) else 2 * FEWEST_WORDS)
    return len(words) >= (2 if _ENDED.search(text) else FEWEST_WORDS)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """The sentences of `text` and the rows of its tables; what else has no sentences goes by its lines where it is
    long."""
    position = 0
    for row in _ROW.finditer(text):
        yield from _prose(text, position, row.start())
        yield row.span()
        position = row.end()
    yield from _prose(text, position, len(text))


def _prose(text: str, first: int, last: int) -> Iterator[tuple[int, int]]:
    for start, end in sentences(text[first:last]):
        start, end = first + start, first + end
        heading = _HEADING.match(text, start, end)
        if heading is not None and start < heading.end() < end:
            yield start, start + len(text[start : heading.end()].rstrip())
            start = heading.end()
        if end - start <= LONGEST_SENTENCE or "\n" not in text[start:end]:
            yield start, end
            continue
        for line in re.finditer(r"\S.*", text[start:end]):
            yield start + line.start(), start + line.start() + len(line.group().rstrip())


def _word_shares(question: str, texts: Sequence[str]) -> np.ndarray:
    """Share of the question's content tokens that each text holds, weighted by how few texts hold a token."""
    wanted = sorted(set(content_tokens(question)))
    if not wanted:
        return np.zeros(len(texts), np.float32)
    held = np.array([[token in there for token in wanted] for there in (set(tokens(text)) for text in texts)])
    weights = np.log(1 + (len(texts) + 1) / (held.sum(axis=0) + 0.5))
    return (held @ weights / weights.sum()).astype(np.float32)
