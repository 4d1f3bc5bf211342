"""Plans within the decoder's window: long questions, histories, passages; what is left out is said."""

import pytest
import scripted
from answers import hit
from hypothesis import given
from hypothesis import strategies as st
from slotrag import SlotragError, UsageError
from slotrag.encoders.registry import create
from slotrag.rag.context import SlotsUnavailable, Turn, check_form, cut, numbers_of, plan
from slotrag.rag.decoder import Decoder
from slotrag.rag.evidence import rank_sentences

TEXT = "The museum was built in 1887 by Anna Kern. It opens at nine. Tickets cost four euros. "


@pytest.fixture(scope="module")
def encoder(hashing_encoder):
    return create(hashing_encoder)


def decoder(window, *, small):
    made = Decoder(scripted.model("Yes.", window=window), "scripted")
    made.small = small
    return made


def planned(encoder, reader, question="When was the museum built?", hits=None, **options):
    hits = [hit(1, TEXT), hit(2, "The library holds many books.")] if hits is None else hits
    ranked = rank_sentences(question, hits, encoder)
    made = plan(question, hits, ranked, reader, **options)
    assert len(made.ids) + made.max_tokens <= reader.window
    return made, reader.template._tokenizer.decode(made.ids)


def test_a_small_decoder_reads_the_best_sentences(encoder):
    made, prompt = planned(encoder, decoder(2048, small=True), max_tokens=64)
    assert "built in 1887" in prompt
    assert made.notices == []
    assert {item.form for item in made.items} == {"text"}
    assert made.items[0].passage_id == 101


def test_a_larger_decoder_reads_numbered_passages_and_history(encoder):
    history = [Turn("Is there a museum?", "There is one.")]
    made, prompt = planned(encoder, decoder(2048, small=False), history=history, max_tokens=64)
    assert TEXT.strip() in prompt
    assert "[2] The library" in prompt
    assert "There is one." in prompt
    assert [item.number for item in made.items] == [1, 2]


@pytest.mark.parametrize("small", [True, False])
def test_many_long_passages_are_cut_and_said(encoder, small):
    hits = [hit(i, f"Passage {i} about the museum built then. " + TEXT * 9) for i in range(1, 30)]
    made, _ = planned(encoder, decoder(700, small=small), hits=hits, max_tokens=100, context_tokens=4000)
    if not small:
        assert any("did not fit" in notice for notice in made.notices)
    assert made.items


def test_one_passage_longer_than_the_window_is_cut(encoder):
    made, prompt = planned(encoder, decoder(600, small=False), hits=[hit(1, TEXT * 60)], max_tokens=64)
    assert "Passage [1] was cut" in made.notices[0]
    assert "The museum was built" in prompt


@pytest.mark.parametrize("small", [True, False])
def test_long_question(encoder, small):
    made, _ = planned(encoder, decoder(512, small=small), "museum " * 2000, max_tokens=64)
    assert any("question" in notice for notice in made.notices)


def test_long_history_keeps_the_newest_turns(encoder):
    history = [Turn(f"Question {i}?", f"Answer {i}. " + "word " * 10) for i in range(40)]
    made, prompt = planned(encoder, decoder(2048, small=False), history=history, max_tokens=64)
    assert "Question 39?" in prompt
    assert "Question 0?" not in prompt
    assert any("earlier turns" in notice for notice in made.notices)


def test_long_reply_is_limited(encoder):
    made, _ = planned(encoder, decoder(1024, small=True), max_tokens=5000)
    assert made.max_tokens == 512
    assert any("limited to 512" in notice for notice in made.notices)


def test_a_window_without_room_is_refused(encoder):
    with pytest.raises(SlotragError, match="too small"):
        planned(encoder, decoder(40, small=False))


@given(
    st.integers(330, 1200),
    st.booleans(),
    st.text(max_size=300),
    st.lists(st.text(min_size=1, max_size=400), min_size=1, max_size=5),
    st.lists(st.tuples(st.text(max_size=80), st.text(max_size=200)), max_size=4),
    st.integers(1, 400),
)
def test_no_plan_exceeds_the_window(encoder, window, small, question, texts, turns, reply):
    hits = [hit(i, text) for i, text in enumerate(texts, start=1)]
    history = [Turn(*turn) for turn in turns]
    planned(encoder, decoder(window, small=small), question, hits, history=history, max_tokens=reply)


def test_numbers_of_coinciding_hits():
    hits = [hit(1, "a"), hit(2, "b"), hit(3, "a"), hit(4, "c")]
    assert numbers_of(hits) == [1, 2, 1, 4]


def test_forms():
    check_form("auto")
    check_form("text")
    with pytest.raises(SlotsUnavailable, match="--context text"):
        check_form("slots")
    with pytest.raises(UsageError, match="auto, text, slots"):
        check_form("vectors")


@given(st.text(max_size=80), st.integers(0, 40))
def test_cut_keeps_a_beginning_within_the_limit(text, limit):
    short = cut(text, limit, len)
    assert len(short) <= max(limit, 0) or short == ""
    assert short == text or text.startswith(short.removesuffix(" …"))
