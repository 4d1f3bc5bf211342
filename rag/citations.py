"""Which passages support which sentence of an answer. It knows an encoder, no decoder.

The marks are ours: the model's own ``[n]`` counts only where the passage n supports the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..storage.tokenise import tokens
from .sentences import one_line, sentences
from .words import content_tokens, held_share

if TYPE_CHECKING:
    from ..encoders.base import Encoder

UNSUPPORTED = "[?]"
"""The mark of a sentence that no passage of the context supports."""

OVERLAP = 0.8
"""Share of a sentence's content words from which a passage that holds them supports it."""

COSINE, SOME_OVERLAP, PAIRED_OVERLAP = 0.65, 0.65, 0.4
"""Cosine of a sentence and a sentence of the passage from which that supports it, at this lower overlap; the last is
for scripts whose tokens are pairs of characters, where every particle costs a share."""

NEAR = 0.05
"""Clauses of the passage that hold a share of the words as near as this to the best one are read for their denial."""

MOST_MARKS = 2

_MARK = re.compile(r"\s*\[\s*\d{1,4}(?:\s*[,;]\s*\d{1,4})*\s*\]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_FENCE = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_IN_TICKS = re.compile(r"`+([^`\n]+)`+")
_IDENTIFIER = re.compile(
    r"(?<!\S)--?[A-Za-z]\w*|\w*[^\W_]_\w+|\b[A-Za-z]+\d\w*|\b[a-z]+[A-Z]\w*|\b[\w.]+(?=\(\))|\b[a-z]\w+\.[a-z]\w+"
)
_NAME = re.compile(r"(?<=[a-z0-9,] )[A-Z][\w’'-]+")
_CODE_SIGNS = re.compile(r"[{}`;=]|\w\(|^\s*(?:def|class|import|return)\b", re.MULTILINE)
_PAIRED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff]")
_DENIAL = re.compile(
    r"\b(?:not(?!\s+only\b)|no(?!\.?\s*\d)|never|none|nobody|nothing|neither|nor|cannot|without)\b|n['’]t\b"
    r"|않|없|아니|아닙|아닌|못\s?[하한할함합해했]|(?<!\w)안\s",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[,;:](?=\s)|\s[–—-]\s|\s(?=(?:but|and|while|although|whereas|because)\s)")


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
    claims : list of (str, int)
        The supported sentences, each with the number of its best source.
    """

    text: str
    numbers: list[int]
    supported: int
    total: int
    claims: list[tuple[str, int]] = field(default_factory=list)


def cite(text: str, sources: Sequence[Source], encoder: Encoder, *, question: str = "") -> CitedText:
    """Match every sentence of `text` to the passages that support it.

    A block of code counts as one sentence. What `supports` one is told there; of several passages that do, the closest
    to `question` and sentence together comes first.

    Parameters
    ----------
    sources : sequence of Source
        What the decoder read, the best passage first.
    """
    spans = _spans(text)
    claims = [_claim(text[start:end]) for start, end in spans]
    support = _support(claims, sources, encoder, question)
    known = {source.number for source in sources}
    pieces: list[str] = []
    cited: list[int] = []
    held: list[tuple[str, int]] = []
    supported = total = at = 0
    for (start, end), claim, by_number in zip(spans, claims, support, strict=True):
        pieces.append(text[at:start])
        at = end
        chosen = _chosen(by_number, _own_numbers(text[start:end]))
        says_something = bool(content_tokens(claim))
        total += says_something
        supported += bool(chosen)
        marks = "".join(f"[{number}]" for number in chosen) or (UNSUPPORTED if says_something else "")
        gap = "\n" if _FENCE.match(claim) else " "
        pieces.append(f"{claim}{gap}{marks}" if marks and claim else claim)
        if chosen:
            held.append((claim, max(chosen, key=lambda number: by_number[number])))
        cited += [number for number in chosen if number not in cited]
    assert set(cited) <= known
    return CitedText("".join([*pieces, text[at:]]).strip(), cited, supported, total, held)


def unsupported(text: str) -> list[str]:
    """The sentences of an answer that bear the mark `UNSUPPORTED`.

    Examples
    --------
    >>> unsupported("It opens at nine. [1] Penguins breed. [?]")
    ['Penguins breed.']
    """
    found: list[str] = []
    before = ""
    for start, end in _spans(text):
        piece = text[start:end]
        if piece.startswith(UNSUPPORTED):
            found.append(before)
            piece = piece[len(UNSUPPORTED) :].strip()
        elif piece.endswith(UNSUPPORTED):
            found.append(piece[: -len(UNSUPPORTED)].strip())
        before = piece or before
    return [_claim(piece) for piece in found if piece]


def supports(claim: str, passage: str, cosine: float) -> bool:
    """Whether `passage` supports `claim`, `cosine` being that of the claim and the passage's closest sentence.

    It must hold every number, name and identifier of the claim, all words of code and most words of prose, and neither
    deny what the claim affirms nor affirm what that denies. Closeness in meaning alone is no support.

    Examples
    --------
    >>> text = "The hall is open daily, but not in July."
    >>> [supports(claim, text, 0.9) for claim in ("The hall is open daily.", "The hall is open in July.")]
    [True, False]
    """
    if set(_NUMBER.findall(claim)) - set(_NUMBER.findall(passage)):
        return False
    if not _holds_names(claim, passage):
        return False
    share = held_share(claim, passage)
    some = PAIRED_OVERLAP if _PAIRED.search(claim) else SOME_OVERLAP
    needed = 1.0 if _FENCE.match(claim) else some if cosine >= COSINE else OVERLAP
    return share >= needed and _same_polarity(claim, passage)


def closest_sentence(claim: str, texts: Sequence[str]) -> int:
    """Place of the one of `texts` that holds most words of `claim`; of several the shortest that denies as it does."""
    shares = [held_share(claim, text) for text in texts]
    agree = [bool(_DENIAL.search(claim)) == bool(_DENIAL.search(text)) for text in texts]
    return max(range(len(texts)), key=lambda place: (shares[place], agree[place], -len(texts[place])))


def _holds_names(claim: str, passage: str) -> bool:
    """Whether `passage` holds the identifiers of `claim` as they stand, and its names in some form."""
    identifiers = [*_IDENTIFIER.findall(claim), *(word for part in _IN_TICKS.findall(claim) for word in part.split())]
    folded = passage.casefold()
    for word in identifiers:
        if not re.search(rf"(?<!\w){re.escape(word.casefold())}(?!\w)", folded):
            return False
    there = set(tokens(passage))
    named = [token for name in _NAME.findall(claim) for token in content_tokens(name)]
    return there.issuperset(named) and (not _CODE_SIGNS.search(claim) or there.issuperset(content_tokens(claim)))


def _same_polarity(claim: str, passage: str) -> bool:
    """Whether one of the clauses of `passage` that hold most of `claim` denies just when the claim does."""
    clauses: list[str] = []
    for start, end in sentences(passage):
        sentence = passage[start:end]
        clauses += [sentence, *_CLAUSE_END.split(sentence)]
    shares = [held_share(claim, clause) for clause in clauses]
    best = max(shares, default=0.0)
    denies = _DENIAL.search(claim) is not None
    return any(
        share >= best - NEAR and denies == (_DENIAL.search(clause) is not None)
        for share, clause in zip(shares, clauses, strict=True)
    )


def _spans(text: str) -> list[tuple[int, int]]:
    """The sentences of `text`, each block of code between fences being one."""
    found: list[tuple[int, int]] = []
    at = 0
    for fence in _FENCE.finditer(text):
        found += [(at + start, at + end) for start, end in sentences(text[at : fence.start()])]
        found.append((fence.start(), fence.start() + len(fence.group().rstrip())))
        at = fence.end()
    return [*found, *((at + start, at + end) for start, end in sentences(text[at:]))]


def _claim(text: str) -> str:
    """`text` as it is shown, without the model's marks; in code they are indices."""
    return text if _FENCE.match(text) else one_line(_MARK.sub("", text).strip())


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
