"""What a reproduction, an answer and a loss are worth, as numbers. It knows no model and no tokenizer.

BLEU: Papineni et al., "BLEU: a method for automatic evaluation of machine translation", ACL 2002, section 2; the
corpus form without smoothing. F1 and exact match normalise as SQuAD's (Rajpurkar et al., EMNLP 2016, section 6).
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence

NUMBER, NAME, OTHER = "number", "name", "other"

_LONGEST = 4
_WORD = re.compile(r"\w+(?:[.,'’-]\w+)*")
_ENDS_A_SENTENCE = re.compile(r"(?:^|[.!?:\n])[\s\"'“‘(\[*#-]*$")


def bleu(references: Sequence[Sequence[Sequence[object]]], hypotheses: Sequence[Sequence[object]]) -> float:
    """Corpus BLEU of up to 4-grams, between 0 and 1.

    Parameters
    ----------
    references : sequence of sequences of sequences
        For each hypothesis one or several references, each a sequence of tokens or words.
    hypotheses : sequence of sequences

    Examples
    --------
    >>> bleu([["the cat is on the mat".split()]], ["the cat is on the mat".split()])
    1.0
    """
    matches, totals = [0] * _LONGEST, [0] * _LONGEST
    length = wanted = 0
    for allowed, written in zip(references, hypotheses, strict=True):
        length += len(written)
        wanted += min((len(one) for one in allowed), key=lambda size: (abs(size - len(written)), size))
        for size in range(1, _LONGEST + 1):
            found = _grams(written, size)
            most: Counter[tuple[object, ...]] = Counter()
            for one in allowed:
                most |= _grams(one, size)
            matches[size - 1] += sum((found & most).values())
            totals[size - 1] += max(len(written) - size + 1, 0)
    if not all(matches):
        return 0.0
    mean = sum(math.log(part / whole) for part, whole in zip(matches, totals, strict=True)) / _LONGEST
    return math.exp(mean + min(0.0, 1 - wanted / length))


def exact_prefix(reference: Sequence[object], hypothesis: Sequence[object]) -> float:
    """Share of `reference` that `hypothesis` begins with.

    Examples
    --------
    >>> exact_prefix([1, 2, 3, 4], [1, 2, 5])
    0.5
    """
    same = 0
    for one, other in zip(reference, hypothesis, strict=False):
        if one != other:
            break
        same += 1
    return same / len(reference) if reference else 1.0


def recovery(*, none: float, slots: float, text: float) -> float | None:
    """(loss without context - loss with slots) / (loss without context - loss with the text).

    Returns
    -------
    float or None
        1 where slots are worth the text, 0 where they are worth nothing; None where the text itself brings nothing.
    """
    return (none - slots) / (none - text) if none > text else None


def normalised(text: str) -> str:
    """SQuAD's normal form: lower case, no punctuation, no articles, single spaces."""
    text = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def answer_f1(reply: str, answers: Sequence[str]) -> float:
    """Word F1 of the normal forms with the answer that fits best.

    Examples
    --------
    >>> round(answer_f1("in 1844, after a delay", ["1844"]), 2)
    0.4
    """
    return max((_f1(normalised(reply).split(), normalised(answer).split()) for answer in answers), default=0.0)


def exact_match(reply: str, answers: Sequence[str]) -> bool:
    """Whether the normal form of `reply` is that of one of the answers."""
    return any(normalised(reply) == normalised(answer) for answer in answers)


def token_kinds(pieces: Sequence[str]) -> list[str]:
    """What each token of a text is part of: ``number`` (a word with a digit), ``name`` or ``other``.

    A name is a capitalised word that does not open a sentence, or one that is all capitals.

    Parameters
    ----------
    pieces : sequence of str
        The tokens' own texts; joined they are the text.

    Examples
    --------
    >>> token_kinds(["The", " bridge", " of", " Ber", "n", " opened", " in", " 18", "44", "."])
    ['other', 'other', 'other', 'name', 'name', 'other', 'other', 'number', 'number', 'other']
    """
    text = "".join(pieces)
    marked = [OTHER] * len(text)
    for word in _WORD.finditer(text):
        kind = _kind(text, word)
        if kind != OTHER:
            marked[word.start() : word.end()] = [kind] * (word.end() - word.start())
    kinds, start = [], 0
    for piece in pieces:
        found = set(marked[start : start + len(piece)])
        kinds.append(next((kind for kind in (NUMBER, NAME) if kind in found), OTHER))
        start += len(piece)
    return kinds


def _kind(text: str, word: re.Match[str]) -> str:
    letters = word.group()
    if any(character.isdigit() for character in letters):
        return NUMBER
    if not letters[0].isupper():
        return OTHER
    if len(letters) > 1 and letters.isupper():
        return NAME
    # Enough of what stands before to see whether a sentence ends there.
    return OTHER if _ENDS_A_SENTENCE.search(text[max(0, word.start() - 12) : word.start()]) else NAME


def _grams(words: Sequence[object], size: int) -> Counter[tuple[object, ...]]:
    return Counter(tuple(words[start : start + size]) for start in range(len(words) - size + 1))


def _f1(ours: Sequence[str], theirs: Sequence[str]) -> float:
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0
