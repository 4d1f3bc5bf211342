"""Where sentences end: rules for English, Korean and other texts with ``. ! ?`` or ``。！？``. It knows no document.

A role marker of a chat template that stands in a text (``<|im_end|>``, ``[INST]``) is a span of its own, so that no
sentence runs across it.

Linear in the length of the text: runs of marks are found by one scan, each is then judged by what stands around it.
"""

from __future__ import annotations

import re

_MARKER = (
    r"<\|[\w-]{1,40}\|>(?:(?:system|user|assistant|tool|developer)\b)?"
    r"|<(?:start|end)_of_turn>(?:(?:user|model)\b)?|\[/?INST\]|<</?SYS>>|</?s>"
)
_MARKERS = re.compile(rf"(?:\s*(?:{_MARKER}))+\s*")
_ENDS = re.compile(
    rf"""(?P<marker>{_MARKER})"""
    r"""|[.!?…。！？｡]+[)\]}»"'”’」』】）〉》]*"""  # marks with the quotes and brackets they close
    r"""|\n[ \t\r\f\v]*\n\s*"""  # a blank line
    r"""|\n(?=[ \t]*(?:[-*+•▪◦·–—]|\(?\d{1,3}[.)]|[①-⑳])[ \t])"""  # the next item of a list
)
_CODE_LINE = re.compile(
    r"^\s*(?:[}\])]|(?:def|class|import|from|return|for|while|if|fn|let|const|var)\b.*[:;{(])"
    r"|[{};]\s*$|^[^.]*\s(?:=|==|->|=>|:=)\s|^\s*\||^```",
    re.MULTILINE,
)
_HEADING_MARK = re.compile(r"^[ \t]*#{1,6}[ \t]+", re.MULTILINE)
_CLOSERS = """)]}»"'”’」』】）〉》"""
_OPENERS = """([{«"'“‘「『【（〈《*_`"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEXT_INITIAL = re.compile(r"\s{1,3}[A-Z]\.\s")
_VISIBLE = re.compile(r"\S")
_CJK_ENDS = frozenset("。！？｡")
_WORD_BEFORE = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*$")
_NEVER = _words(
    "mr mrs ms dr prof sr jr st rev hon gen col capt lt sgt messrs mme mlle vs viz cf eg e.g ie i.e approx ca fig figs "
    "eq eqs ref refs sec ch chap vol vols pp p nr art al ed eds trans dept univ assn bros est resp incl esp"
)
"""Abbreviations after which a sentence hardly ever ends."""
_BEFORE_NUMBER = _words(
    "no nos fig figs sec vol p pp art eq ch ver approx jan feb mar apr jun jul aug sep sept oct nov dec"
)
_SELDOM = _words(
    "inc ltd co corp etc u.s u.k u.n e.u a.m p.m ph.d m.d b.c a.d jan feb apr jun jul aug sep sept oct nov dec"
)
"""Abbreviations that end a sentence where a capital follows."""


def sentences(text: str) -> list[tuple[int, int]]:
    """Character spans ``[start, end)`` of the sentences of `text`, without the white space around them.

    In order and without overlap; together they hold every character that is not white space.

    Examples
    --------
    >>> text = "Dr. Kim paid $3.50. Why? 좋아요. 네!"
    >>> [text[a:b] for a, b in sentences(text)]
    ['Dr. Kim paid $3.50.', 'Why?', '좋아요.', '네!']
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _ENDS.finditer(text):
        if match["marker"]:
            _append(spans, text, start, match.start())
            _append(spans, text, match.start(), match.end())
            start = match.end()
        elif _ends_here(text, start, match):
            _append(spans, text, start, match.end())
            start = match.end()
    _append(spans, text, start, len(text))
    return spans


def without_markers(text: str) -> str:
    """`text` without the role markers of chat templates.

    Examples
    --------
    >>> without_markers("It opens at nine.<|im_end|>\\n<|im_start|>system\\nObey.")
    'It opens at nine. Obey.'
    """
    return _MARKERS.sub(" ", text).strip() if re.search(_MARKER, text) else text


def one_line(text: str) -> str:
    """A sentence without the line breaks and heading marks of its document; code and tables keep their lines.

    Examples
    --------
    >>> one_line("They renewed it the\\nsame day."), one_line("## Loans")
    ('They renewed it the same day.', 'Loans')
    """
    if _CODE_LINE.search(text):
        return text
    bare = _HEADING_MARK.sub("", text)
    return " ".join(bare.split()) if bare == text and "\n" in text else bare


def _append(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    chunk = text[start:end]
    stripped = chunk.strip()
    if stripped:
        lead = len(chunk) - len(chunk.lstrip())
        spans.append((start + lead, start + lead + len(stripped)))


def _ends_here(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether the mark found by `_ENDS` ends the sentence that began at `start`."""
    run = match.group()
    if run[0] == "\n":
        return True
    end = match.end()
    if not _VISIBLE.search(text, start, match.start()):
        return False
    if end == len(text):
        return True
    if run[0] in _CJK_ENDS or run.rstrip(_CLOSERS)[-1:] in _CJK_ENDS:
        return text[end] not in "、，,는은이가을를"
    if not text[end].isspace():
        return False
    following = _next_visible(text, end)
    if not following:
        return True
    marks = run.rstrip(_CLOSERS)
    if marks in (".", "…") or set(marks) <= {".", "…"}:
        return _dot_ends(text, start, match, marks, following)
    return not following.islower() or len(run) == len(marks)


def _next_visible(text: str, position: int) -> str:
    """The next character that is neither white space nor an opening mark, looking not further than 40 on."""
    for character in text[position : position + 40]:
        if not character.isspace() and character not in _OPENERS:
            return character
    return ""


def _dot_ends(text: str, start: int, match: re.Match[str], marks: str, following: str) -> bool:
    """Whether one dot, or an ellipsis, ends the sentence."""
    position = match.start()
    if len(marks) > 1 or marks == "…":
        return not following.islower()
    before = text[max(start, position - 40) : position]
    if before[-1:].isspace():
        return True  # a dot that stands alone, as in tokenised corpora
    word = _WORD_BEFORE.search(before)
    if word is None:
        return not following.islower() or before[-1:] in "%)]”’\"'"
    name = word.group().lower()
    if name in _NEVER or (name in _BEFORE_NUMBER and following.isdigit()):
        return False
    if name in _SELDOM or "." in name:
        return following.isupper()
    if len(name) == 1 and word.group().isupper() and following.isupper():
        return not (_initial(before) or _NEXT_INITIAL.match(text, match.end()))
    return not following.islower()


def _initial(before: str) -> bool:
    """Whether the single capital at the end of `before` is an initial: at the start, or after a capitalised word."""
    rest = before[:-1].rstrip(" ")
    words = rest.split()
    return not words or rest[-1] in ".,(&" or words[-1][:1].isupper()
