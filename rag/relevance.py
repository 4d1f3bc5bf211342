"""Whether a passage found has to do with the question: above the noise, or holding its rare words. It knows no SQL.

A passage is relevant when its cosine is above the collection's noise level (what unrelated questions reach, see
`noise`), or when it holds all the rare words of the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..storage.tokenise import tokens

RARE_SHARE = 0.01
"""A word is rare when at most this share of the passages holds it, or two passages."""

_RARE_COUNT = 2
_WORD = re.compile(r"\w+")
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff]")
_IDEOGRAPHS = re.compile("[\u30a1-\u30fc\u3400-\u4dbf\u4e00-\u9fff]+")

_FUNCTION_WORDS = """
a about after all also am an and any are as at be because been before being between both but by can could did do does
doing done during each else ever every few for from get give given go had has have having he her here him his how i if
in into is it its just kind know let like made make many may me might more most much must my name no nor not of off on
one or other our out over own please said same say she should show since so some such take tell than that the their
them then there these they thing this those through to too under until up us use used was way we were what when where
whether which while who whom whose why will with without would yes you your
"""
_KOREAN_QUESTION_WORDS = """
무엇 무슨 누구 누가 언제 어디 어느 어떤 어떻 어째 얼마 몇몇 왜요 이유 있는 있나 있습 있었 없는 없나 입니 인가
이며 하는 하나 하였 했나 했습 한다 합니
되는 되나 되었 됐나 된다 대해 대한 관한 관해 위해 위한 따라 통해 그리 그것 이것 저것 알려 말해 설명 주세
"""
_IGNORED = frozenset(token for text in (_FUNCTION_WORDS, _KOREAN_QUESTION_WORDS) for token in tokens(text))


@dataclass(frozen=True, slots=True)
class Judge:
    """Says which passages are relevant to one question in one collection.

    Attributes
    ----------
    noise_level : float or None
        None until measured: the cosine then says nothing.
    rare : frozenset of str
        The question's rare words as index tokens; empty where it has none.
    """

    noise_level: float | None
    rare: frozenset[str]

    @classmethod
    def of(cls, question: str, *, noise_level: float | None, counts: Mapping[str, int], passages: int) -> Judge:
        """The judge for `question`; `counts` says how many of the `passages` hold each of `question_words`."""
        limit = max(_RARE_COUNT, RARE_SHARE * passages)
        rare = frozenset(word for word in question_words(question) if counts.get(word, 0) <= limit)
        return cls(noise_level, rare)

    def relevant(self, cosine: float | None, text: str) -> bool:
        """Whether a passage of this cosine and with this text (heading included) is relevant."""
        if cosine is not None and self.noise_level is not None and cosine > self.noise_level:
            return True
        return bool(self.rare) and self.rare <= set(tokens(text))


def question_words(question: str) -> list[str]:
    """The words of a question that say what it is about, as index tokens, each once.

    Of a Korean word only its beginning counts, as a particle may follow; of Chinese and Japanese only Han and Katakana.

    Examples
    --------
    >>> question_words("What is the boiling point of xenon?")
    ['boil', 'point', 'xenon']
    >>> question_words("경복궁은 언제 지어졌나요?")
    ['경복', '지어']
    """
    found = (token for word in _WORD.findall(question) for token in _stems(word))
    return [token for token in dict.fromkeys(found) if token not in _IGNORED]


def _stems(word: str) -> Iterator[str]:
    if _HANGUL.search(word):
        first = next(iter(tokens(word)), "")
        if len(first) > 1 or not _HANGUL.match(first):
            yield first
    elif _IDEOGRAPHS.search(word):
        for run in _IDEOGRAPHS.findall(word):
            yield from tokens(run)
    else:
        yield from tokens(word)
