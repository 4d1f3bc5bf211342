"""Languages by script and common words."""

import pytest
from slotrag.rag.language import can_write, language_of


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Where does the library keep its index?", "en"),
        ("FAISS", "en"),
        ("도서관은 어디에 있습니까?", "ko"),
        ("SQLite의 WAL 모드는 무엇인가요?", "ko"),
        ("図書館はどこですか", "ja"),
        ("图书馆在哪里", "zh"),
        ("Где находится библиотека?", "ru"),
        ("Wo ist die Bibliothek und wann wurde sie gebaut?", "de"),
        ("Où est la bibliothèque et quand est-elle ouverte ?", "fr"),
        ("¿Dónde está la biblioteca y cuándo abre?", "es"),
        ("What does the Korean word 책 mean in English?", "en"),
        ("Who wrote 'Die Leiden des jungen Werther'?", "en"),
        ("Die Hard cast", "en"),
        ("1234 ?!", "und"),
        ("", "und"),
        ("🙂", "und"),
    ],
)
def test_language_of(text, code):
    assert language_of(text) == code


def test_can_write():
    assert can_write(("en",), "en")
    assert not can_write(("en",), "ko")
    assert can_write(None, "ko"), "of an unknown model nothing is claimed"
    assert can_write(("multilingual",), "ko")
    assert can_write(("en",), "und")
