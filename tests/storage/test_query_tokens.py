"""Which words of a question are searched for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.storage.tokenise import query_tokens, tokens


def test_function_words_are_left_out_in_any_case() -> None:
    assert query_tokens("WHAT are the Laws of flight?") == tokens("Laws flight")


def test_words_are_found_in_texts_with_other_endings() -> None:
    assert set(query_tokens("Which libraries were cataloguing?")) <= set(tokens("The library's catalogue: a library"))


def test_a_question_of_function_words_alone_is_searched_for() -> None:
    assert query_tokens("Who am I?") == tokens("Who am I?")


@pytest.mark.parametrize("text", ["", "?!", " \u200b "])
def test_nothing_comes_of_nothing(text: str) -> None:
    assert query_tokens(text) == []


def test_a_repeated_word_counts_as_often_as_it_is_said() -> None:
    assert query_tokens("heat and more heat") == ["heat", "heat"]


def test_codes_keep_their_whole_and_joined_words_only_their_parts() -> None:
    assert tokens("error-404 x86_64 boundary-layer e.g.") == [
        "error", "404", "error-404", "x86", "64", "x86_64", "boundari", "layer", "e", "g",
    ]  # fmt: skip


@given(st.text())
def test_every_token_of_a_query_is_one_of_its_texts(text: str) -> None:
    found = query_tokens(text)
    assert set(found) <= set(tokens(text))
    assert bool(found) == bool(tokens(text))


def test_korean_is_searched_for_whole() -> None:
    assert query_tokens("도서관은 어디에 있나요") == tokens("도서관은 어디에 있나요")
