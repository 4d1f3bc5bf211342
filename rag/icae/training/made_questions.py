"""Questions that a text itself gives, with the answer taken from it. It knows no model; nothing is written by one.

They make a decoder look things up in what it reads: a gap in a sentence, what stands after some words, what is said of
a name. They are many and cheap, where questions of people are few.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from ...sentences import sentences
from .sources import Asked

_WORD = re.compile(r"\w+(?:[.,'’-]\w+)*")
_LEAST_WORDS, _MOST_WORDS = 6, 40
_SHORT = 60


def made_questions(text: str, count: int, seed: int) -> list[Asked]:
    """`count` questions at most, different ones, the same for the same text and seed.

    Examples
    --------
    >>> text = "The bridge over the Aar was opened in 1844 after three years of work by Otto Weil."
    >>> found = made_questions(text, 2, seed=1)
    >>> all(answer in text for asked in found for answer in asked.answers)
    True
    """
    draw = random.Random(f"{seed} {text}")
    usable = [text[start:end] for start, end in sentences(text) if _is_usable(text[start:end])]
    whole = _plain(text)
    found: dict[str, Asked] = {}
    for _ in range(3 * count):
        if len(found) == count or not usable:
            break
        asked = draw.choice(_KINDS)(draw.choice(usable), draw)
        if asked is not None and _is_told_once(asked, whole):
            found.setdefault(asked.question, asked)
    return list(found.values())


def _is_usable(sentence: str) -> bool:
    words = _WORD.findall(sentence)
    letters = sum(character.isalpha() or character.isspace() for character in sentence)
    return _LEAST_WORDS <= len(words) <= _MOST_WORDS and letters > 0.75 * len(sentence) and "\n\n" not in sentence


def _is_told_once(asked: Asked, whole: str) -> bool:
    """Whether the words that the question shows stand in one place of the text, on one line, only."""
    shown = re.findall(r'"([^"]*)"', asked.question)
    return all(whole.count(part) == 1 for one in shown for part in one.split(" ____ ") if part != "____")


def _gap(sentence: str, draw: random.Random) -> Asked | None:
    """A number, a name or a long word is left out."""
    words = list(_WORD.finditer(sentence))[1:]
    telling = [word for word in words if _tells(word.group())]
    if not telling:
        return None
    rare = [word for word in telling if word.group()[0].isdigit() or word.group()[0].isupper()]
    chosen = draw.choice(rare or telling)
    start, end = _whole_name(words, chosen)
    before, after = _plain(sentence[:start]), _plain(sentence[end:])
    # Some words around it will do: the whole sentence would say all but the answer.
    before, after = " ".join(before.split()[-8:]), " ".join(after.split()[:8])
    if len(before.split()) < 2 or '"' in before + after:
        return None
    shown = f"{before} ____ {after}".strip()
    ask = draw.choice(('What is missing in "{}"?', 'Fill the gap: "{}"', 'Which words belong in "{}"?'))
    return Asked(ask.format(shown), (sentence[start:end],))


def _following(sentence: str, draw: random.Random) -> Asked | None:
    """What comes after some words."""
    words = list(_WORD.finditer(sentence))
    if len(words) < 10:
        return None
    at = draw.randint(4, len(words) - 4)
    shown = _plain(sentence[words[max(0, at - 6)].start() : words[at - 1].end()])
    rest = sentence[words[at - 1].end() : words[min(len(words), at + 8) - 1].end()].strip()
    if not rest or not rest[0].isalnum() or '"' in shown:
        return None
    ask = draw.choice(('What comes after "{}"?', 'How does the text go on after "{}"?', 'Continue: "{}"'))
    return Asked(ask.format(shown), (rest,))


def _about(sentence: str, draw: random.Random) -> Asked | None:
    """The sentence that speaks of a name or a number."""
    words = list(_WORD.finditer(sentence))[1:]
    named = [word for word in words if word.group()[0].isdigit() or word.group()[0].isupper()]
    if not named:
        return None
    start, end = _whole_name(words, draw.choice(named))
    name = sentence[start:end]
    if '"' in name or len(name) > _SHORT or len(name) < 3:
        return None
    ask = draw.choice(('What does the text say about "{}"?', 'Which sentence names "{}"?', 'What is said of "{}"?'))
    return Asked(ask.format(name), (_plain(sentence),))


_KINDS: tuple[Callable[[str, random.Random], Asked | None], ...] = (_gap, _gap, _following, _about)


def _tells(word: str) -> bool:
    return word[0].isdigit() or word[0].isupper() or len(word) > 6


def _whole_name(words: list[re.Match[str]], word: re.Match[str]) -> tuple[int, int]:
    """The span of the capitalised words in a row that `word` is one of, else that of `word`."""
    start, end = word.span()
    if not word.group()[0].isupper():
        return start, end
    for other in _names_before(words, word):
        start = other.start()
    for other in words:
        if other.start() == end + 1 and other.group()[0].isupper():
            end = other.end()
    return start, end


def _names_before(words: list[re.Match[str]], word: re.Match[str]) -> Iterator[re.Match[str]]:
    start = word.start()
    for other in reversed(words):
        if other.end() == start - 1 and other.group()[0].isupper():
            yield other
            start = other.start()


def _plain(text: str) -> str:
    return " ".join(text.split())
