"""The retrieval query of a follow-up question, built from the conversation by rules. It calls no model.

A question that stands on its own is left alone; one that points back ("and in winter?", "who designed it?") gets the
words that earlier questions were about, and for pronouns the names of the last answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .context import Turn
from .sentences import sentences
from .words import content_tokens

MOST_CARRIED = 12
"""Words carried over at most."""

_OPENING = re.compile(
    r"^\s*(?:and|but|or|also|then|so|what about|how about|why not|what else|anything else|ok(?:ay)?,? (?:and|but)"
    r"|그럼|그러면|그리고|그런데|근데|또는|그건|그게|그곳|거기|그 외)\b",
    re.IGNORECASE,
)
_POINTING = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers|those|these|this|that one|this one|the (?:same|former"
    r"|latter|other|first one|second one|last one))\b"
    r"|(?:^|\s)(?:그것|이것|저것|그는|그가|그의|그녀|그들|거기|그곳|그때|해당)",
    re.IGNORECASE,
)
_EXPLETIVE = re.compile(
    r"\b(?:is|was|does|did|would|will|can|could|has) it (?:take|takes|cost|costs|true|possible|necessary|safe|legal"
    r"|been|mean|make|rain|snow)\b.*\b(?:to|that|for|if|when|in)\b|\b(?:this|these|those) \w+",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"^\s*(?:who|whom|whose|what|which|when|where|why|how|is|are|was|were|do|does|did|can|could|will|would|should|has"
    r"|have|name|list|tell|give|show|explain|describe|find|in (?:what|which)|on what|at what|by (?:what|whom))\b",
    re.IGNORECASE,
)
_KOREAN_TAIL = re.compile(r"(?:은|는|에는|에서는|에는요|은요|는요|도요|도)\s*\?*\s*$")
_NAME = re.compile(r"\b[A-Z][\w'’-]*(?:\s+(?:of|the|de|von|van)?\s*[A-Z][\w'’-]*)*")
_WORD = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")


def standalone(question: str, history: Sequence[Turn]) -> str:
    """`question` with what it refers to, for retrieval; unchanged where it refers to nothing.

    Examples
    --------
    >>> turns = [Turn("What are the opening hours of the Seoul museum?", "From nine to six.")]
    >>> standalone("And in winter?", turns)
    'opening hours Seoul museum And in winter?'
    >>> standalone("Who wrote the report on wind tunnels?", turns)
    'Who wrote the report on wind tunnels?'
    """
    topic: list[str] = []
    answer = ""
    for turn in history:
        topic = _merged(turn.question, topic, answer)[1]
        answer = turn.answer
    return _merged(question, topic, answer)[0]


def points_back(question: str) -> bool:
    """Whether `question` can only be understood from what came before."""
    if not content_tokens(question) or _OPENING.match(question):
        return True
    pointer = _POINTING.search(question)
    if pointer and not _EXPLETIVE.search(question) and not _names(question[: pointer.start()]):
        return True
    words = _WORD.findall(question)
    asks = _ASKING.match(question) is not None
    if re.search(r"[가-힣]", question):
        return len(words) <= 2 and _KOREAN_TAIL.search(question.strip()) is not None
    return not asks and question.rstrip().endswith("?") and len(content_tokens(question)) <= 2


def _merged(question: str, topic: list[str], answer: str) -> tuple[str, list[str]]:
    """The question for retrieval, and the words that it leaves as the topic."""
    own = _topic_words(question)
    if not topic or not points_back(question):
        return question, own
    carried = list(topic)
    if _POINTING.search(question):
        carried += [name for name in _answer_names(answer) if name not in carried]
    known = {token for word in own for token in content_tokens(word)}
    carried = [word for word in carried if not known & set(content_tokens(word))][:MOST_CARRIED]
    return " ".join([*carried, question]), (carried + own)[:MOST_CARRIED]


def _topic_words(question: str) -> list[str]:
    return [word for word in _WORD.findall(question) if content_tokens(word)]


def _names(text: str) -> list[str]:
    """Names in `text`, the first word of the sentence aside."""
    return [found.group() for found in _NAME.finditer(text) if text[: found.start()].strip()]


def _answer_names(answer: str) -> list[str]:
    """Names in the first sentence of an answer."""
    spans = sentences(answer)
    first = answer[slice(*spans[0])] if spans else ""
    return [name for name in (found.group() for found in _NAME.finditer(first)) if content_tokens(name)][:3]
