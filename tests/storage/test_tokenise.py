"""Text to tokens, in several scripts."""

from __future__ import annotations

import threading
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.storage.tokenise import query_tokens, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("?!… — «»", []),
        ("\u200b", []),
        ("Running runs RUN", ["run", "run", "run"]),
        ("Straße café naïve", ["strass", "cafe", "naiv"]),
        ("ｆｕｌｌ ﬁne", ["full", "fine"]),
        ("x86_64", ["x86", "64", "x86_64"]),
        ("error-404", ["error", "404", "error-404"]),
        ("foo.bar", ["foo", "bar"]),
        ("v1.2.3", ["v1", "2", "3", "v1.2.3"]),
        ("__init__ -x-", ["init", "x"]),
        ("snake_case", ["snake", "case", "snake_case"]),
        ("co\u00adoperate", ["cooper"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("Ελλάδα", ["ελλάδα"]),
        ("책", ["책"]),
        ("책을", ["책", "책을"]),
        ("도서관에서", ["도서", "서관", "관에", "에서"]),
        ("GPU를 쓴다", ["gpu", "를", "쓴", "쓴다"]),
        ("東京都", ["東", "東京", "京都"]),
        ("漢字かな交じり", ["漢字", "字か", "かな", "な交", "交じ", "じり"]),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("도서관", "도서관에서는 조용히 한다"),
        ("도서관을", "도서관에서"),
        ("학교를", "학교에"),
        ("책이", "책을 읽는다"),
        ("책", "책에서"),
        ("한국어검색", "한국어 검색은 어렵다"),
        ("한국어 검색", "한국어검색"),
        ("404", "error-404"),
        ("error-404", "Error 404"),
        ("x86", "x86_64"),
        ("library", "Libraries"),
        ("cafe", "Café"),
        ("می خواهم", "می خواهم بروم"),
    ],
)
def test_a_query_shares_a_token_with_the_text(query: str, text: str) -> None:
    assert set(tokens(query)) & set(tokens(text))


NOUNS = ["책", "물", "집", "학교", "김치", "도서관", "컴퓨터", "서울특별시", "데이터베이스"]
WRITTEN = (
    "이 가 은 는 을 를 에 의 와 과 로 만 도 이나 에서 에게 한테 으로 까지 부터 보다 처럼 들을 에서는 에서도 에서부터 "
    "으로는 으로부터 에게는 까지도 부터는 보다는 만으로는 이라는 이라고 이지만 입니다 이었다 들에게는 들이라는"
)
PARTICLES = ["", *WRITTEN.split()]


@pytest.mark.parametrize("noun", NOUNS)
@pytest.mark.parametrize("asked", PARTICLES)
def test_a_korean_noun_is_found_with_any_particle(noun: str, asked: str) -> None:
    query = set(query_tokens(noun + asked))
    assert not [written for written in PARTICLES if not query & set(tokens(noun + written))]


@given(st.lists(st.sampled_from(NOUNS), min_size=2, max_size=5).filter(lambda words: max(map(len, words)) > 1))
def test_a_korean_phrase_is_found_with_and_without_spaces(words: list[str]) -> None:
    apart, joined = " ".join(words), "".join(words)
    assert set(query_tokens(apart)) & set(tokens(joined)) and set(query_tokens(joined)) & set(tokens(apart))


@given(st.text())
def test_spelling_does_not_matter(text: str) -> None:
    composed = tokens(unicodedata.normalize("NFC", text))
    assert tokens(unicodedata.normalize("NFD", text)) == composed


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_has_no_way_of_its_own(text: str) -> None:
    assert tokens(text + " é")[:-1] == tokens(text)


@given(st.text())
def test_tokens_can_be_stored(text: str) -> None:
    for token in tokens(text):
        assert token.encode()
        assert "\0" not in token
        assert not any(character.isspace() for character in token)


@given(st.text())
def test_a_query_asks_for_words_of_its_text_and_for_something(text: str) -> None:
    asked, held = query_tokens(text), tokens(text)
    assert set(asked) <= set(held)
    assert bool(asked) == bool(held)


@pytest.mark.parametrize("character", ["a", "1", "가", "a.", "漢", "é"])
def test_endless_words_are_cut(character: str) -> None:
    found = tokens(character * 100_000)
    assert found
    assert max(map(len, found)) <= 64


def test_a_long_run_gives_every_pair() -> None:
    run = "".join(chr(0xAC00 + number) for number in range(1000))
    assert set(tokens(run)) == {run[at : at + 2] for at in range(999)}


def test_threads_do_not_disturb_each_other() -> None:
    words = [f"{stem}{number}ing{ending}" for stem in ("walk", "talk") for number in "abcdef" for ending in ("", "s")]
    expected = tokens(" ".join(words * 50))
    failures: list[int] = []

    def work(number: int) -> None:
        if any(tokens(" ".join(words * 50)) != expected for _ in range(20)):
            failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
