"""Short answers as spans: which questions, which candidates, which clause; with scripted and real models."""

import pytest
import scripted
from hypothesis import given
from hypothesis import strategies as st
from slotrag.encoders.backbones.chat_template import Message
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.rag.decoder import Decoder
from slotrag.rag.events import CancelToken
from slotrag.rag.spans import MOST_WORDS, asks_briefly, choose_span, clause

SENTENCES = [
    "The museum was built in 1887 by the architect Anna Kern, who died in Graz.",
    "It holds forty paintings (and two statues).",
]


@pytest.mark.parametrize(
    ("question", "brief"),
    [
        ("Who designed the tower?", True),
        ("When does it open?", True),
        ("How many books does it hold?", True),
        ("Which city is the capital?", True),
        ("What is the name of the river?", True),
        ("Where are the settings kept?", True),
        ("Why does the index grow?", False),
        ("How do I add a folder?", False),
        ("Explain who may write to the library.", False),
        ("What is the difference between the two modes?", False),
        ("Summarize the report.", False),
        ("What did the architect call for?", True),
        ("Tell me about the museum.", False),
    ],
)
def test_asks_briefly(question, brief):
    assert asks_briefly(question) is brief


def preferring(text, **options):
    """A decoder whose model finds one text the likeliest continuation."""
    return Decoder(scripted.model(text, **options), "scripted")


@pytest.mark.parametrize(
    ("question", "preferred", "expected"),
    [
        ("When was the museum built?", " 1887", "1887"),
        ("Who built the museum?", " Anna Kern", "Anna Kern"),
        ("How many paintings does it hold?", " forty paintings", "forty paintings"),
    ],
)
def test_the_likeliest_span_is_chosen(question, preferred, expected):
    decoder = preferring(preferred)
    span = choose_span(question, SENTENCES, decoder, decoder.render([Message("user", question)]))
    assert SENTENCES[span.sentence][span.start : span.end] == expected


def test_a_span_of_the_wrong_kind_or_an_echo_costs():
    decoder = preferring(" museum", confidence=1.0)
    span = choose_span("When was the museum built?", SENTENCES[:1], decoder, decoder.render([Message("user", "x")]))
    assert "1887" in SENTENCES[0][span.start : span.end]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt2", "opt"])
def test_spans_of_any_model_are_whole_words(tiny_model, kind):
    decoder = Decoder(FrozenLM.load(tiny_model(kind), causal=True, device="cpu"), kind)
    prompt = decoder.render([Message("user", "When?")], "Answer:")
    span = choose_span("When?", SENTENCES, decoder, prompt)
    sentence = SENTENCES[span.sentence]
    text = sentence[span.start : span.end]
    assert 1 <= len(text.split()) <= MOST_WORDS
    assert span.start == 0 or not sentence[span.start - 1].isalnum()
    assert span.end == len(sentence) or not sentence[span.end].isalnum()
    assert choose_span("When?", SENTENCES, decoder, prompt) == span


def test_nothing_to_choose_from_and_cancelling():
    decoder = preferring(" x")
    prompt = decoder.render([Message("user", "When?")])
    assert choose_span("When?", [], decoder, prompt) is None
    assert choose_span("When?", ["of the"], decoder, prompt) is None
    cancel = CancelToken()
    cancel.cancel()
    assert choose_span("When?", SENTENCES, decoder, prompt, cancel) is None


@given(st.text(alphabet="ab ,;:()–-.x", max_size=90), st.data())
def test_a_clause_is_a_part_that_holds_the_span(sentence, data):
    start = data.draw(st.integers(0, len(sentence)))
    end = data.draw(st.integers(start, len(sentence)))
    part = clause(sentence, start, end)
    assert part in sentence
    inner = sentence[start:end].strip(" ,;:–—-()")
    assert inner in part or inner.removesuffix(" )") in part


def test_a_short_clause_takes_its_neighbours():
    text = "In 1887, the old museum was built on the hill above the town, and Anna Kern, an architect of Graz, drew it."
    assert clause(text, 0, 7) == "In 1887, the old museum was built on the hill above the town, and Anna Kern"
    assert clause(text, text.index("drew"), len(text) - 1) == text.removeprefix("In 1887, ")
