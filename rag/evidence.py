"""The sentences of the found passages that best support an answer. It knows an encoder, no decoder and no storage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .sentences import sentences
from .words import held_share

if TYPE_CHECKING:
    from ..encoders.base import Encoder
    from .results import Hit

MOST_SENTENCES = 400
"""Sentences looked at for one question; those of the best passages first."""

WORDS_WEIGHT = 0.2
"""What holding all words of the question adds to a sentence's cosine."""

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

    The score is the cosine of sentence and question plus a share for the question's words that the sentence holds.
    """
    places = [
        (number, start, end)
        for number, hit in enumerate(hits)
        for start, end in sentences(hit.text)
        if _WORD.search(hit.text, start, end)
    ][:MOST_SENTENCES]
    if not places:
        return []
    texts = [hits[number].text[start:end] for number, start, end in places]
    vectors = encoder.encode_documents(texts)
    cosines = vectors @ encoder.encode_queries([question])[0]
    ranked = [
        Sentence(number, start, end, text, float(cosine) + WORDS_WEIGHT * held_share(question, text), vector)
        for (number, start, end), text, vector, cosine in zip(places, texts, vectors, cosines, strict=True)
    ]
    ranked.sort(key=lambda sentence: -sentence.score)
    seen: set[str] = set()
    return [sentence for sentence in ranked if not (sentence.text in seen or seen.add(sentence.text))]
