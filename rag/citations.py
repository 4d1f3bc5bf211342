"""Which passages support which sentence of an answer. It knows an encoder, no decoder.

The marks are ours: the model's own ``[n]`` counts only where the passage n supports the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .sentences import sentences
from .words import content_tokens, held_share

if TYPE_CHECKING:
    from ..encoders.base import Encoder

UNSUPPORTED = "[?]"
"""The mark of a sentence that no passage of the context supports."""

OVERLAP = 0.7
"""Share of a sentence's content words from which a passage that holds them supports it."""

COSINE, SOME_OVERLAP = 0.65, 0.4
"""Cosine of a sentence and a sentence of the passage from which that supports it, at this lower overlap."""

MOST_MARKS = 2

_MARK = re.compile(r"\s*\[\s*\d{1,4}(?:\s*[,;]\s*\d{1,4})*\s*\]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class Source:
    """A passage that the decoder read.

    Attributes
    ----------
    vectors : numpy.ndarray
        Unit vectors of its sentences, float32, shape (sentences, dimension).
    """

    number: int
    text: str
    vectors: np.ndarray


@dataclass(frozen=True, slots=True)
class CitedText:
    """An answer with its marks.

    Attributes
    ----------
    text : str
        The answer with our marks ``[n]`` and `UNSUPPORTED`.
    numbers : list of int
        The numbers cited, in the order of their first mark.
    supported, total : int
        Sentences with support, and sentences that claim anything.
    """

    text: str
    numbers: list[int]
    supported: int
    total: int


def cite(text: str, sources: Sequence[Source], encoder: Encoder, *, question: str = "") -> CitedText:
    """Match every sentence of `text` to the passages that support it.

    A passage supports a sentence when it holds its numbers and most of its content words, or some of them and a
    sentence close in meaning. Of several that do, the closest to `question` and sentence together comes first.

    Parameters
    ----------
    sources : sequence of Source
        What the decoder read, the best passage first.
    """
    spans = sentences(text)
    claims = [_MARK.sub("", text[start:end]).strip() for start, end in spans]
    support = _support(claims, sources, encoder, question)
    known = {source.number for source in sources}
    pieces: list[str] = []
    cited: list[int] = []
    supported = total = at = 0
    for (start, end), claim, by_number in zip(spans, claims, support, strict=True):
        pieces.append(text[at:start])
        at = end
        chosen = _chosen(by_number, _own_numbers(text[start:end]))
        says_something = bool(content_tokens(claim))
        total += says_something
        supported += bool(chosen)
        marks = "".join(f"[{number}]" for number in chosen) or (UNSUPPORTED if says_something else "")
        pieces.append(f"{claim} {marks}" if marks and claim else claim)
        cited += [number for number in chosen if number not in cited]
    assert set(cited) <= known
    return CitedText("".join([*pieces, text[at:]]).strip(), cited, supported, total)


def supports(claim: str, passage: str, cosine: float) -> bool:
    """Whether `passage` supports `claim`, `cosine` being that of the claim and the passage's closest sentence."""
    if set(_NUMBER.findall(claim)) - set(_NUMBER.findall(passage)):
        return False
    share = held_share(claim, passage)
    return share >= OVERLAP or (cosine >= COSINE and share >= SOME_OVERLAP)


def _support(
    claims: Sequence[str], sources: Sequence[Source], encoder: Encoder, question: str
) -> list[dict[int, float]]:
    """For each claim the numbers of the sources that support it, with how well."""
    if not claims or not sources:
        return [{} for _ in claims]
    alone = encoder.encode_documents(claims)
    asked = encoder.encode_documents([f"{question} {claim}".strip() for claim in claims]) if question else alone
    found: list[dict[int, float]] = []
    for claim, vector, asked_vector in zip(claims, alone, asked, strict=True):
        scores: dict[int, float] = {}
        for source in sources:
            cosine = _closest(source, vector)
            if content_tokens(claim) and supports(claim, source.text, cosine):
                score = _closest(source, asked_vector) + held_share(claim, source.text)
                scores[source.number] = max(score, scores.get(source.number, -np.inf))
        found.append(scores)
    return found


def _closest(source: Source, vector: np.ndarray) -> float:
    return float((source.vectors @ vector).max()) if len(source.vectors) else -1.0


def _chosen(scores: dict[int, float], own: Sequence[int]) -> list[int]:
    """The numbers to show: the best source, and those the model named that support the sentence too."""
    if not scores:
        return []
    best = max(scores, key=lambda number: scores[number])
    agreed = [number for number in dict.fromkeys(own) if number in scores and number != best]
    return sorted([best, *agreed[: MOST_MARKS - 1]])


def _own_numbers(text: str) -> list[int]:
    return [int(number) for mark in _MARK.findall(text) for number in re.findall(r"\d+", mark)]
