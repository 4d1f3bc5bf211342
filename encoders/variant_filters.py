"""Which written variants of a text are fit to stand for it. It knows no model; cosines are given to it."""

from __future__ import annotations

import re
from collections.abc import Sequence

VERSION = 1
"""Counted up when another variant is dropped, or cleaned otherwise, than before."""

REASONS = ("empty", "truncated", "loop", "refusal", "preamble", "too long", "duplicate", "far")
"""Why a variant is dropped, in the order in which it is looked at."""

_REFUSAL = re.compile(
    r"(?:i['’]?m sorry|i am sorry|sorry,|i apologi[sz]e|i can(?:not|['’]t)|i (?:am|['’]m) (?:not able|unable)|"
    r"as an ai\b|i don['’]t have|unfortunately, i)",
    re.IGNORECASE,
)
_PREAMBLE = re.compile(
    r"(?:sure\b[,!.:]|certainly\b[,!.:]|of course[,!.:]|okay[,!.:]|(?:sure, )?here(?:['’]s| is| are)\b.{0,60}:|"
    r"(?:the |a )?(?:paraphrase|rewritten|summary|rewrite|reworded|concise)\b[^.]{0,40}:|(?:paraphrased|reworded) )",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?s>|<\|[\w-]{1,40}\|>|\[/?INST\]")
_QUOTES = ('""', "''", "“”", "‘’", "**", "``")


def cleaned(text: str) -> str:
    """A variant on one line, without the marks of a conversation and quotes around the whole.

    Examples
    --------
    >>> cleaned(' "A dog runs."</s>\\nSentence: A cat')
    'A dog runs.'
    """
    line = _TAG.sub(" ", text).lstrip().split("\n", 1)[0]
    line = " ".join(line.split())
    for opening, closing in _QUOTES:
        inner = line[1:-1]
        if len(line) > 2 and line[0] == opening and line[-1] == closing and opening not in inner:
            line = inner.strip()
    return line


def normal_form(text: str) -> str:
    """What two variants have in common that differ in case, punctuation and white space only."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def written_problem(text: str, stop_reason: str) -> str | None:
    """Why a cleaned variant cannot be used, judged by itself; None where it can.

    Examples
    --------
    >>> written_problem("Sure, here is a paraphrase:", "eos"), written_problem("A dog", "length")
    ('preamble', 'truncated')
    """
    if not normal_form(text):
        return "empty"
    if stop_reason == "length":
        return "truncated"
    if stop_reason == "loop":
        return "loop"
    if _REFUSAL.match(text):
        return "refusal"
    if _PREAMBLE.match(text):
        return "preamble"
    return None


def duplicates(original: str, variants: Sequence[str]) -> list[bool]:
    """Which of `variants` say nothing that the original or an earlier one does not say in the same words."""
    seen = {normal_form(original)}
    found = []
    for variant in variants:
        form = normal_form(variant)
        found.append(form in seen)
        seen.add(form)
    return found


def mark_duplicates(piece: str, kept: list[str], variants: list[tuple[str, str]]) -> None:
    """Give those of `variants`, (text, problem), that repeat `piece`, one of `kept` or an earlier one that problem; the
    others that have none are added to `kept`."""
    usable = [place for place, (_, problem) in enumerate(variants) if not problem]
    texts = [*kept, *(variants[place][0] for place in usable)]
    for place, repeats in zip(usable, duplicates(piece, texts)[len(kept) :], strict=True):
        if repeats:
            variants[place] = (variants[place][0], "duplicate")
        else:
            kept.append(variants[place][0])
