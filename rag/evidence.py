"""The sentences of the found passages that best support an answer. It knows an encoder, no decoder and no storage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..storage.tokenise import tokens
from .sentences import sentences
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

_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a passage.

    Attributes
    ----------
    passage : int
        Place of its passage in the list of hits.
    start, end : int
        Characters ``[start, end)`` of the passage's text.
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
    """The sentences of `hits`, best support for `question` first, the same text once.

    The score is the cosine of sentence and question plus a share for the question's words that the sentence holds, a
    word that few of the sentences have counting more.
    """
    places = [
        (number, start, end)
        for number, hit in enumerate(hits)
        for start, end in _pieces(hit.text)
        if _WORD.search(hit.text, start, end)
    ][:MOST_SENTENCES]
    if not places:
        return []
    texts = [hits[number].text[start:end] for number, start, end in places]
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


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """The sentences of `text`; what has no sentences (tables, code) goes by its lines where it is long."""
    for start, end in sentences(text):
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
