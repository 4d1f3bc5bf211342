"""A compressor at work: segments, batches, order, other rates, and several threads at once."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from compressors import SEGMENT, assert_same, compressor
from slotrag import UsageError
from slotrag.encoders import registry
from slotrag.encoders.backbones.chat_template import Message
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.backbones.store import ModelStore
from slotrag.rag.decoder import Decoder
from slotrag.rag.icae.compressor import BATCH_TOKENS, TrainedCompressor, _batches
from slotrag.rag.icae.reading import Beside, conversation, reading_prompt
from tiny_models import CORPUS


@pytest.fixture
def make(tiny_model):
    def made(kind="llama", **options):
        module = compressor(tiny_model(kind), **options)
        return TrainedCompressor(FrozenLM.load(tiny_model(kind), causal=True), module, "h")

    return made


@pytest.mark.parametrize("options", [{}, {"layout": "appended"}, {"compressor": "memory-tokens"}], ids=str)
def test_a_long_text_is_its_segments_one_after_the_other(make, options):
    made = make(**options)
    ids = [5 + at % 300 for at in range(2 * SEGMENT + 7)]
    (whole,) = made.compress_ids([ids])
    pieces = [ids[at : at + 35] for at in range(0, len(ids), 35)]
    assert len(pieces) == 3
    alone = [made.compress_ids([piece])[0] for piece in pieces]
    assert_same(whole.rows, np.concatenate([piece.rows for piece in alone]))
    begins = np.cumsum([0] + [piece.span for piece in alone])
    places = [piece.positions + begin for piece, begin in zip(alone, begins, strict=False)]
    assert whole.positions.tolist() == np.concatenate(places).tolist() and whole.tokens == len(ids)
    assert whole.span == (len(whole) if made.config.layout == "appended" else len(ids))
    assert whole.rows.dtype == np.float32 and whole.positions.max() < whole.span


def test_texts_in_any_order_and_company_get_the_same_slots(make):
    made = make()
    texts = [*CORPUS, "", "a", " ".join(CORPUS)]
    alone = [made.compress([text])[0] for text in texts]
    assert len(alone[6]) == 0 and alone[6].rows.shape == (0, 32)
    order = [8, 0, 6, 3, 7, 5, 1, 4, 2]
    for place, found in zip(order, made.compress([texts[at] for at in order]), strict=True):
        assert_same(found.rows, alone[place].rows)
        assert found.positions.tolist() == alone[place].positions.tolist()
    assert [slots.tokens for slots in alone] == [len(made.token_ids(text)) for text in texts]
    assert made.compress([]) == []


def test_markers_in_a_text_are_characters(make):
    made = make()
    ids = made.token_ids("<s>a</s>")
    assert 0 not in ids and 1 not in ids and ids


def test_batches_are_small_and_told_of(make):
    lengths = [500, 3, 512, 512, 40, 512, 1, 2000, 512]
    batches = _batches(lengths)
    assert sorted(at for batch in batches for at in batch) == list(range(9))
    assert all(len(batch) == 1 or len(batch) * max(lengths[at] for at in batch) <= BATCH_TOKENS for batch in batches)
    calls: list[int] = []
    ids = [[5, 6, 7] * 15] * 100
    assert len(make().compress_ids(ids, lambda: calls.append(1))) == 100 and len(calls) == 3

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make().compress_ids(ids, stop)


def test_another_rate_is_another_fingerprint(make):
    made = make(rate=4)
    half = made.at_rate(2)
    (text,) = CORPUS[:1]
    assert (made.rate, made.fingerprint, half.rate, half.fingerprint) == (4, "h", 2, "h-rate=2")
    assert made.at_rate(4).fingerprint == "h"
    tokens = len(made.token_ids(text))
    assert [len(one.compress([text])[0]) for one in (made, half)] == [-(-tokens // 4), -(-tokens // 2)]
    with pytest.raises(UsageError, match="from 1 on"):
        made.at_rate(0.5)
    memory = make(compressor="memory-tokens", memory_rows=16)
    assert memory.at_rate(3).rate == 3
    with pytest.raises(UsageError, match="rate is at least 3"):
        memory.at_rate(2)


def test_threads_compress_encode_and_answer_as_if_alone(generator):
    """One model's tensors under three users at once; every one has its own module tree."""
    model = FrozenLM.load(generator, causal=True)
    made = [
        TrainedCompressor(model, compressor(generator, compressor=name), name) for name in ("pooled", "memory-tokens")
    ]
    encoder = registry.create(f"tp@({generator})", ModelStore(offline=True))
    decoder = Decoder(model, "tiny")
    passages = made[0].compress(CORPUS[:3])

    def answer():
        def build(gap):
            return [Message("user", f"Context: {gap}\n\nQuestion: who?")]

        parts = conversation(decoder.template, build, [[Beside([[slots] for slots in passages])]])
        generation = decoder.generate(reading_prompt(parts), max_tokens=12)
        list(generation)
        return list(generation.token_ids)

    def plain():
        generation = decoder.generate(decoder.render([Message("user", CORPUS[0])]), max_tokens=12)
        list(generation)
        return list(generation.token_ids)

    jobs = [
        lambda: [slots.rows for slots in made[0].compress(CORPUS)],
        lambda: [slots.rows for slots in made[1].compress(CORPUS)],
        lambda: encoder.encode_documents(CORPUS),
        answer,
        plain,
    ]
    threads_before = torch.get_num_threads()
    quiet = [job() for job in jobs]
    found: list[list] = [[] for _ in jobs]
    start = threading.Barrier(len(jobs))

    def work(at):
        start.wait()
        for _ in range(4):
            found[at].append(jobs[at]())

    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.get_num_threads() == threads_before
    for wanted, busy in zip(quiet, found, strict=True):
        assert len(busy) == 4
        for values in busy:
            for own, other in zip(wanted, values, strict=True):
                np.testing.assert_array_equal(own, other)
