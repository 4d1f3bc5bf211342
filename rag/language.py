"""Which language a text is in, as far as its script and commonest words tell. It knows no model.

Enough to see that a decoder can't write the language of a question; it is no general language identifier.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

_SCRIPTS = {
    "HANGUL": "ko",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "CJK": "zh",
    "CYRILLIC": "ru",
    "ARABIC": "ar",
    "HEBREW": "he",
    "GREEK": "el",
    "THAI": "th",
    "DEVANAGARI": "hi",
    "BENGALI": "bn",
    "TAMIL": "ta",
    "TELUGU": "te",
    "GEORGIAN": "ka",
    "ARMENIAN": "hy",
    "LATIN": "latin",
}

# Words that are frequent in one language and rare in the others.
_WORDS = {
    "en": "the of and is are was were what who when where which why how did does do in to a an for with on that this",
    "de": "der die das und ist sind war was wer wann wo welche warum wie wurde nicht ein eine mit auf für von zu dem",
    "fr": "le la les des et est sont était quel quelle qui quand où pourquoi comment une un du dans pour avec sur pas",
    "es": "el los las y es son fue qué quién cuándo dónde cuál por cómo una un del en para con sobre no que se su",
    "it": "il lo gli e è sono era che chi quando dove quale perché come una un del della nel per con su non di si",
    "pt": "o os as e é são foi que quem quando onde qual por como uma um do da no na para com sobre não se em",
    "nl": "de het een en is zijn was wat wie wanneer waar welke waarom hoe niet met op voor van te dat die in",
}
_WORD_SETS = {code: frozenset(words.split()) for code, words in _WORDS.items()}


def language_of(text: str) -> str:
    """ISO 639-1 code of the language that most of `text` is in; ``und`` without letters.

    Latin script without a telling word counts as English, Han without kana as Chinese. A Hangul or kana minority
    decides, as names and technical terms in such texts are often Latin.

    Examples
    --------
    >>> language_of("Where was the treaty signed?"), language_of("FAISS 색인은 어디에 저장되나요?")
    ('en', 'ko')
    >>> language_of("Wann wurde der Vertrag unterzeichnet?"), language_of("?? 42")
    ('de', 'und')
    """
    letters = Counter(_script(character) for character in text if character.isalpha())
    letters.pop("", None)
    total = sum(letters.values())
    if not total:
        return "und"
    if letters["ko"] >= 0.2 * total:
        return "ko"
    if letters["ja"] and letters["ja"] + letters["zh"] >= 0.2 * total:
        return "ja"
    code = letters.most_common(1)[0][0]
    return _latin_language(text) if code == "latin" else code


def can_write(languages: Sequence[str] | None, code: str) -> bool:
    """Whether a decoder of these languages writes `code`; unknown on either side counts as yes."""
    return languages is None or not languages or code == "und" or code in languages or "multilingual" in languages


def _script(character: str) -> str:
    name = unicodedata.name(character, "")
    return _SCRIPTS.get(name.split(" ")[0].split("-")[0], "")


def _latin_language(text: str) -> str:
    words = Counter(re.findall(r"[^\W\d_]+", text.lower()))
    scores = {code: sum(words[word] for word in known) for code, known in _WORD_SETS.items()}
    best = max(scores, key=lambda code: (scores[code], code == "en"))
    # One shared little word ("die", "in", "a") is no sign of another language.
    return best if scores[best] >= 2 and scores[best] > scores["en"] else "en"
