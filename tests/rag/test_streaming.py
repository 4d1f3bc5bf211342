"""Streaming text: split characters, control tokens, stop strings; the joined pieces are the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.rag.streaming import REPLACEMENT, TextStream


def decode(ids):
    return bytes(token for token in ids if token < 256).decode("utf-8", "replace")


def stream_all(ids, **options):
    stream = TextStream(decode, **options)
    pieces = [stream.feed(token) for token in ids]
    pieces.append(stream.finish())
    assert "".join(pieces) == stream.text
    assert all(REPLACEMENT not in piece for piece in pieces)
    return pieces, stream


@given(st.text())
def test_bytes_of_any_text_come_out_whole(text):
    _, stream = stream_all(text.encode("utf-8", "ignore"))
    assert stream.text == text.encode("utf-8", "ignore").decode().replace(REPLACEMENT, "")


@given(st.binary())
def test_any_bytes_stream_without_replacement_characters(data):
    _, stream = stream_all(data)
    assert stream.text == data.decode("utf-8", "replace").replace(REPLACEMENT, "")


@pytest.mark.parametrize("text", ["한국어 문장", "👩‍👩‍👧 family", "e\u0301te\u0301"])
def test_a_character_is_shown_once_it_is_whole(text):
    pieces, _ = stream_all(text.encode())
    assert [piece for piece in pieces if piece] == list(text)


def test_unfinished_character_at_the_end_is_left_out():
    _, stream = stream_all("가나".encode()[:-1])
    assert stream.text == "가"


def test_hidden_tokens_are_not_shown():
    _, stream = stream_all([97, 300, 98, 301], hidden={300, 301})
    assert stream.text == "ab"


@given(st.text(alphabet="ab\nUser:", max_size=40))
def test_text_ends_before_a_stop_string(text):
    _pieces, stream = stream_all(text.encode(), stop_strings=["\nUser:", "bbb"])
    ends = [place for marker in ("\nUser:", "bbb") if (place := text.find(marker)) >= 0]
    assert stream.text == (text[: min(ends)] if ends else text)
    assert stream.stopped == bool(ends)


def test_beginning_of_a_stop_string_is_held_back_only_while_it_may_become_one():
    pieces, _ = stream_all(b"a\nUs\nx", stop_strings=["\nUser:"])
    assert pieces == ["a", "", "", "", "\nUs", "\nx", ""]


@pytest.mark.parametrize(
    "text", ["The boundary layer grows.", "문서를 색인하고 질문에 답합니다. 🙂", " leading", "a  b\n\n c"]
)
def test_pieces_of_a_real_tokenizer_join_to_its_text(text):
    import tiny_models

    tokenizer = tiny_models.train_byte_bpe(begins=False)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    stream = TextStream(lambda part: tokenizer.decode(part, clean_up_tokenization_spaces=False))
    pieces = [stream.feed(token) for token in ids]
    assert "".join(pieces) + stream.finish() == text
    assert len([piece for piece in pieces if piece]) > 1


def test_pieces_of_a_sentence_piece_tokenizer_keep_their_spaces():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {"<unk>": 0, "▁one": 1, "▁two": 2, "s": 3, "▁": 4, ",": 5}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Metaspace()
    words.decoder = decoders.Metaspace()
    stream = TextStream(words.decode)
    assert [stream.feed(token) for token in (1, 2, 3, 5, 1)] == ["one", " two", "s", ",", " one"]
