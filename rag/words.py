"""Words that carry meaning, for comparing short texts. It knows no model; the tokens are those of the lexical index."""

from __future__ import annotations

from ..storage.tokenise import tokens

_EMPTY_WORDS = (
    "a an the of and or to in on at by for from with as is are was were be been being am it its this that these those"
    " he she they i you we him her them his their our my your who whom whose what which when where how why has have had"
    " do does did done not no but if then than so such also too very there here about into over under between can could"
    " may might must will would shall should one ones some any each both many much more most other according context"
    " answer question passage text me us name tell please"
    " 무엇 무슨 언제 어디 어느 누구 누가 어떤 어떻게 왜 얼마 몇 그리고 그러면 그럼 또는"
    " 있다 있는 있나요 인가요 입니까 합니까 나요 까요"
)
_EMPTY = frozenset(token for word in _EMPTY_WORDS.split() for token in tokens(word))


def content_tokens(text: str) -> list[str]:
    """Index tokens of `text` without those that every text has, in order.

    Examples
    --------
    >>> content_tokens("The treaties of 1648 were signed in Münster.")
    ['treati', '1648', 'sign', 'munster']
    """
    return [token for token in tokens(text) if token not in _EMPTY]


def held_share(part: str, whole: str) -> float:
    """Share of the content tokens of `part` that `whole` holds; 0 where `part` has none.

    Examples
    --------
    >>> held_share("signed in 1648", "The treaty was signed in October 1648.")
    1.0
    """
    wanted = content_tokens(part)
    there = set(tokens(whole))
    return sum(token in there for token in wanted) / len(wanted) if wanted else 0.0
