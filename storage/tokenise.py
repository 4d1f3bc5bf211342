"""Text to the tokens of the lexical index. It knows no SQL.

Words in Latin script are folded (case, width, accents) and stemmed by Snowball's English algorithm; a run of Hangul,
Kana and Han becomes its pairs of neighbouring characters, which finds a noun whatever particle follows it; other
scripts go by word. A code such as ``x86_64`` or ``error-404`` gives its parts and itself, words joined by a hyphen or a
full stop give their parts only.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import lru_cache

import Stemmer

from .function_words import FUNCTION_WORDS

VERSION = f"4 unicode {unicodedata.unidata_version} stemmer {Stemmer.version()}"
"""Changes when the same text may give other tokens; an index of another version is built anew."""

_PAIRED = (
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Kana and iteration marks
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:[._\-][a-z0-9]+)*")
_PAIRED_START = re.compile(rf"[{_PAIRED}]")
_SEPARATOR = re.compile(r"[._\-]")
_CODE = re.compile(r"[\d_]")
_LATIN = re.compile(r"[a-z\u00df-\u024f\u1e00-\u1eff]+")
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200c\u200d\u2060\ufeff"))
"""Soft hyphens and joiners: they stand within words and are not typed by whoever searches."""
_PARTICLES = re.compile(
    "들?(?:에서|에게|한테|으로|까지|부터|보다|처럼|만큼|조차|마저|만으로)(?:는|은|도|만|의|나|서|써|부터|까지)?"
    "|들?이(?:라는|라고|라도|라면|라서|라며|라는데|지만|었다|었고|에요|므로|니까|든지|나마)|들?입니다|들?입니까|이었습니다"
)
"""Korean particles and forms of "to be" of three syllables and more; shorter ones need not be known."""
_LAST_MARK = 0x1E95A
_LONGEST = 64
_stemmers = threading.local()


def tokens(text: str) -> list[str]:
    """The index tokens of `text`, in order.

    >>> tokens("The libraries' error-404")
    ['the', 'librari', 'error', '404', 'error-404']
    >>> tokens("도서관에서 책을")
    ['도서', '서관', '관에', '에서', '책', '책을']
    """
    return [token for word in _words(text) for token in _word_tokens(word)]


def query_tokens(text: str) -> list[str]:
    """The tokens of `text` that are worth searching for: without English function words, unless nothing else is there.

    >>> query_tokens("What is the height of the wing?")
    ['height', 'wing']
    >>> query_tokens("to be or not to be")
    ['to', 'be', 'or', 'not', 'to', 'be']
    """
    words = _words(text)
    telling = [word for word in words if word not in FUNCTION_WORDS]
    return [token for word in telling or words for token in _word_tokens(word)]


def _words(text: str) -> list[str]:
    if text.isascii():
        return _bounded(_ASCII_WORD.findall(text.lower()))
    return _bounded(_word_pattern().findall(_folded(text)))


def _bounded(words: list[str]) -> list[str]:
    """`words` with those cut to pieces that are longer than any word of a language, such as encoded data."""
    if max(map(len, words), default=0) <= _LONGEST:
        return words
    return [piece for word in words for piece in (_pieces(word) if len(word) > _LONGEST else (word,))]


def _pieces(word: str) -> list[str]:
    """Overlapping pieces of a run that goes by pairs, the starts of the parts of any other word."""
    if _PAIRED_START.match(word):
        return [word[at : at + _LONGEST] for at in range(0, len(word) - 1, _LONGEST - 1)]
    return [part[:_LONGEST] for part in _SEPARATOR.split(word)]


@lru_cache(maxsize=1)
def _word_pattern() -> re.Pattern[str]:
    """Words of any script: runs that go by pairs, or letters and digits with their combining marks, joined or not."""
    marks = "".join(chr(c) for c in range(0x300, _LAST_MARK + 1) if unicodedata.category(chr(c)) in ("Mn", "Mc"))
    letter = rf"(?:(?![{_PAIRED}])[^\W_][{marks}]*)"
    return re.compile(rf"[{_PAIRED}]+|{letter}+(?:[._\-]{letter}+)*")


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).casefold()).translate(_INVISIBLE)


@lru_cache(maxsize=65536)
def _word_tokens(word: str) -> tuple[str, ...]:
    if _PAIRED_START.match(word):
        return tuple(_pairs(word))
    parts = _SEPARATOR.split(word)
    if len(parts) == 1:
        return (_stemmed(word),)
    stems = tuple(_stemmed(part) for part in parts)
    return (*stems, word) if _CODE.search(word) else stems


def _pairs(run: str) -> list[str]:
    """Pairs of neighbours. A run of two or three may be a one-syllable noun with a particle, as may a longer one that
    goes on like a long particle, so its first character stands alone too."""
    if len(run) == 1:
        return [run]
    pairs = [run[at : at + 2] for at in range(len(run) - 1)]
    return [run[0], *pairs] if len(run) <= 3 or _PARTICLES.fullmatch(run, 1) else pairs


def _stemmed(word: str) -> str:
    if word.isdigit() or not _LATIN.match(word):
        return word
    plain = word if word.isascii() else _without_accents(word)
    return _stemmer().stemWord(plain)


def _without_accents(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))


def _stemmer() -> Stemmer.Stemmer:
    if not hasattr(_stemmers, "english"):
        _stemmers.english = Stemmer.Stemmer("english")
    return _stemmers.english
