"""Short answers that can only be words of the supporting sentences. It knows a decoder, no documents.

A small model writes "118 fumbles" over a text that says four; asked how likely it finds each span of the text as the
answer, it is right far more often. The span decides which clause is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..storage.tokenise import tokens
from .words import content_tokens

if TYPE_CHECKING:
    from .decoder import Decoder
    from .events import CancelToken

MOST_WORDS = 8
"""Longest span, in words."""

LIKELY_STARTS = 10
"""Starts looked at further; the likelihood of their first token chooses them."""

END_WEIGHT, RANK_COST, TYPE_COST, ECHO_COST = 0.3, 3.0, 4.0, 5.0
"""In nats: weight of ending here; cost of each place in the ranking of the sentences, of the wrong kind of span, and of
saying only words of the question."""

SHORTEST_CLAUSE = 15
"""Words; a shorter clause is shown with its neighbour."""

_SHORT = re.compile(
    r"\b(?:who|whom|whose|when|where|what|which"
    r"|how (?:many|much|old|long|far|often|tall|high|large|big|fast|deep|wide|late|early))\b",
    re.IGNORECASE,
)
_LONG = re.compile(
    r"\b(?:why|explain|describe|summar|compare|list|how (?:do|does|did|is|are|was|were|can|could|should|to)\b|steps?\b"
    r"|what (?:is|are) the (?:difference|reason|purpose|meaning))",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\b(?:when|(?:what|which) (?:year|date|day|month|century|percent\w*|number)|how (?:many|much|old|long|far|often"
    r"|tall|high|large|big|fast|deep|wide))\b",
    re.IGNORECASE,
)
_NAMED = re.compile(r"\b(?:who|whom|whose|where)\b", re.IGNORECASE)
_QUANTITY = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred|thousand"
    r"|million|billion|half|dozen|once|twice|century|never|always)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\S+")
_EDGES = ".,;:!?()[]{}\"'“”‘’«»"
_CUT = re.compile(r"[,;:](?=\s)|\s[–—-]\s|[()]")


@dataclass(frozen=True, slots=True)
class Span:
    """A span of a sentence: `sentence` is its place in the list, ``[start, end)`` its characters."""

    sentence: int
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class _Start:
    """All spans with one beginning: the ids of the longest, and the ends as (number of ids, character)."""

    sentence: int
    start: int
    ids: list[int]
    ends: list[tuple[int, int]]


def asks_briefly(question: str) -> bool:
    """Whether a few words answer `question` (a name, a date, a number, a thing).

    Examples
    --------
    >>> asks_briefly("Who designed the tower?"), asks_briefly("How does the cache work?")
    (True, False)
    """
    return _SHORT.search(question) is not None and _LONG.search(question) is None


def choose_span(
    question: str,
    sentences: Sequence[str],
    decoder: Decoder,
    prompt: Sequence[int],
    cancel: CancelToken | None = None,
) -> Span | None:
    """The span of `sentences` that `decoder` finds the likeliest reply.

    Parameters
    ----------
    sentences : sequence of str
        The best first.
    prompt : sequence of int
        The rendered prompt, which shows the sentences and ends where the answer begins.

    Returns
    -------
    Span or None
        None without any candidate, or when cancelled.
    """
    from ..encoders.backbones.generation import Prompt
    from ..encoders.backbones.scoring import score_continuations

    starts = [start for place, text in enumerate(sentences) for start in _starts(place, text, decoder)]
    plain = decoder.template.tokens.plain
    scored = score_continuations(
        decoder.module,
        Prompt([list(prompt)]),
        [start.ids for start in starts],
        end_ids={*decoder.stop_ids, *plain("."), *plain("\n")},
        most=LIKELY_STARTS,
        cancelled=None if cancel is None else lambda: cancel.cancelled,
    )
    found = []
    for one in scored or ():
        start = starts[one.place]
        sums = one.tokens.cumsum()
        for count, end in start.ends:
            text = sentences[start.sentence][start.start : end]
            # Divided by the root of the length: the sum favours single words, the mean whole clauses.
            likeliness = float(sums[count - 1]) / count**0.5 + END_WEIGHT * float(one.ends[count - 1])
            score = likeliness - RANK_COST * start.sentence - _misfit(question, text)
            found.append(Span(start.sentence, start.start, end, score))
    return max(found, key=lambda span: span.score, default=None)


def clause(sentence: str, start: int, end: int) -> str:
    """The clause of `sentence` around ``[start, end)``, or as much of it as makes a readable statement.

    Examples
    --------
    >>> text = "After the war, when money was scarce, the bridge over the river Aar was rebuilt in stone by Otto Weil."
    >>> clause(text, text.index("Otto"), len(text) - 1)
    'when money was scarce, the bridge over the river Aar was rebuilt in stone by Otto Weil.'
    """
    cuts = [0, *(found.end() for found in _CUT.finditer(sentence)), len(sentence)]
    first = max(number for number, cut in enumerate(cuts) if cut <= start)
    last = min(number for number, cut in enumerate(cuts) if cut >= end)
    while len(sentence[cuts[first] : cuts[last]].split()) < SHORTEST_CLAUSE and (first or last < len(cuts) - 1):
        if first:
            first -= 1
        else:
            last += 1
    return sentence[cuts[first] : cuts[last]].strip(" ,;:–—-(").removesuffix(" )")


def _starts(place: int, sentence: str, decoder: Decoder) -> list[_Start]:
    words = [found.span() for found in _WORD.finditer(sentence)]
    plain = decoder.template.tokens.plain
    # A word inside a text carries the space before it, unless the tokenizer puts one before every text.
    lead = " " if len(plain(" a")) == len(plain("a")) else ""
    starts = []
    for number, (start, _) in enumerate(words):
        stop = words[min(len(words), number + MOST_WORDS) - 1][1]
        start += len(sentence[start:stop]) - len(sentence[start:stop].lstrip(_EDGES))
        if not _begins(sentence[start:stop]):
            continue
        ids = plain(lead + sentence[start:stop])
        ends = []
        for _, word_end in words[number : number + MOST_WORDS]:
            end = start + len(sentence[start:word_end].rstrip(_EDGES))
            if end <= start or not content_tokens(sentence[start:end].split()[-1]):
                continue
            part = plain(lead + sentence[start:end])
            # Where the cut changes the tokens before it, the span is no beginning of the longest one.
            if part and ids[: len(part)] == part:
                ends.append((len(part), end))
        if ends:
            starts.append(_Start(place, start, ids[: ends[-1][0]], ends))
    return starts


def _begins(text: str) -> bool:
    """Whether an answer may begin so: with a word of its own or an article, not with a link word."""
    word = text.split()[0].strip(_EDGES).lower() if text.strip() else ""
    return word in ("the", "a", "an") or bool(content_tokens(word))


def _misfit(question: str, text: str) -> float:
    """What `text` costs for being of the wrong kind, or for only repeating `question`."""
    cost = 0.0
    if _COUNTED.search(question) and not _QUANTITY.search(text):
        cost += TYPE_COST
    # A script without capitals says nothing about names.
    if _NAMED.search(question) and text.upper() != text.lower() and text == text.lower():
        cost += TYPE_COST
    asked = set(tokens(question))
    said = content_tokens(text)
    return cost + (ECHO_COST if said and asked.issuperset(said) else 0.0)
