"""Tokenizing: what is cut, what is kept, and where the tokens stand in the text."""

from __future__ import annotations

import pytest
import tiny_models
from hypothesis import given
from hypothesis import strategies as st
from slotrag import SlotragError
from slotrag.encoders.tokens import TextTokens, readable, untouched_copy

TOKENIZERS = {
    "word piece": tiny_models.train_word_piece(),
    "byte bpe": tiny_models.train_byte_bpe(begins=False),
    "byte bpe with <s>": tiny_models.train_byte_bpe(begins=True),
}
each_tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
words = st.sampled_from(["the", "wing", "flutter", "회의", "3.14", "e\u0301", "🚀"])
texts = st.text(max_size=40) | st.lists(words, max_size=60).map(" ".join)


def reference(tokenizer, text, longest):
    return tokenizer(text, truncation=True, max_length=longest)["input_ids"]


@each_tokenizer
@given(text=texts, prefix=st.sampled_from(["", "query: ", "passage: "]), longest=st.integers(16, 40))
def test_ids_are_those_of_transformers(tokenizer, text, prefix, longest):
    text = readable(text)
    # transformers sets truncation on the tokenizer for good, so each side works on its own.
    tokens = TextTokens(untouched_copy(tokenizer), longest, prefix)
    assert tokens.ids([text], prefix) == [reference(tokenizer, prefix + text, longest) or [tokens._stand_in]]


@each_tokenizer
@given(text=texts)
def test_offsets_are_within_the_text_and_in_order(tokenizer, text):
    tokens = TextTokens(untouched_copy(tokenizer), 64, "passage: ")
    for prefix in ("", "passage: "):
        spans = tokens.offsets(text, prefix)
        assert all(0 <= start <= end <= len(text) for start, end in spans)
        assert spans == sorted(spans)


@each_tokenizer
def test_a_long_text_gives_the_same_ids_as_its_beginning(tokenizer):
    tokens = TextTokens(untouched_copy(tokenizer), 20)
    words = " ".join(f"word{number} flutter" for number in range(50))
    unbroken = "flutter" * 30
    long_texts = [words * 400, words, unbroken * 400, unbroken, " " * 20_000 + words, words + "\n" * 30_000]
    ids = tokens.ids(long_texts)
    assert ids[0] == ids[1] == ids[5]
    assert ids[4] == reference(tokenizer, long_texts[4], 20)
    assert ids[2] == reference(tokenizer, long_texts[2], 20)
    assert all(len(row) <= 20 for row in ids)


@each_tokenizer
def test_only_the_end_of_the_text_is_cut(tokenizer):
    tokens = TextTokens(untouched_copy(tokenizer), 12, "passage: ")
    short, long = tokens.ids(["wing", "wing " * 100], "passage: ")
    frame = untouched_copy(tokenizer).encode("").ids
    assert len(long) == 12
    assert [number for number in long if number in frame] == frame
    assert long[:3] == short[:3]


def test_the_longer_prefix_leaves_a_query_less_room():
    tokens = TextTokens(untouched_copy(TOKENIZERS["word piece"]), 30, "p ", "a very long instruction for queries: ")
    text = "wing " * 100
    assert [len(row) for row in tokens.ids([text], "p ")] == [30]
    assert [len(row) for row in tokens.ids([text], "a very long instruction for queries: ")] == [30]


def test_a_query_gets_no_more_of_its_tokens_in_than_a_passage():
    tokens = TextTokens(untouched_copy(TOKENIZERS["word piece"]), 30, "a long prefix for every passage: ", "q ")
    text = "wing " * 100
    one_word = len(tokens.ids(["wing"], "q ")[0]) - 1
    assert len(tokens.ids([text], "q ")[0]) == one_word + tokens.max_tokens


def test_no_room_for_the_text_is_said():
    with pytest.raises(SlotragError, match="shorter prefix or a larger max_length"):
        TextTokens(untouched_copy(TOKENIZERS["word piece"]), 6, "a long prefix for every passage: ")


@given(
    st.text(alphabet=st.characters(), max_size=20) | st.text(alphabet=st.sampled_from("a\ud800\udfff가"), max_size=9)
)
def test_readable_text_can_be_encoded_and_keeps_its_places(text):
    found = readable(text)
    found.encode()
    assert len(found) == len(text)
    assert all(new == old or "\ud800" <= old <= "\udfff" for new, old in zip(found, text, strict=True))
