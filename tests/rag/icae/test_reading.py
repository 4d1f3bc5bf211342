"""Text and slots in one prompt: rows, positions, and what the decoder makes of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from compressors import assert_same, compressor
from slotrag.encoders.backbones.chat_template import Message
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.rag.decoder import Decoder
from slotrag.rag.icae.reading import (
    Beside,
    conversation,
    placed,
    reading_form,
    reading_inputs,
    reading_prompt,
)
from slotrag.rag.icae.slots import Slots, joined

WIDTH = 32


def slots(positions, span, seed=0):
    rows = np.random.default_rng(seed).normal(size=(len(positions), WIDTH)).astype(np.float32)
    return Slots(rows, np.array(positions, dtype=np.int64), span, span)


A, B = slots([1, 4, 7], 9, 1), slots([0, 3], 5, 2)


def places(parts, **options):
    laid, after = placed(parts, **options)
    return [place for one in laid for place in one.positions], after


@pytest.fixture
def decoder(tiny_model):
    return Decoder(FrozenLM.load(tiny_model("llama"), causal=True), "tiny")


def logits(decoder, inputs):
    with torch.no_grad():
        return decoder.module(**inputs._asdict(), use_cache=False).logits


def test_text_follows_the_span_of_slots():
    assert places([[5, 6], A, [7, 8]], parallel=True) == ([0, 1, 3, 6, 9, 11, 12], 13)
    assert places([A, torch.zeros(1, WIDTH), [7]], parallel=False) == ([1, 4, 7, 9, 10], 11)


def test_passages_beside_each_other():
    parts = [[5, 6], Beside([[[9], A], [[9, 9], B]]), [7]]
    assert places(parts, parallel=True) == ([0, 1, 2, 4, 7, 10, 2, 3, 4, 7, 12], 13)
    assert places(parts, parallel=False) == ([0, 1, 2, 4, 7, 10, 12, 13, 14, 17, 19], 20)
    assert places([[5], Beside([]), [6]], parallel=True) == ([0, 1], 2)


def test_segments_of_a_text_are_joined():
    whole = joined([A, B], WIDTH)
    assert whole.positions.tolist() == [1, 4, 7, 9, 12] and (whole.tokens, whole.span) == (14, 14)
    assert np.array_equal(whole.rows, np.concatenate([A.rows, B.rows]))
    nothing = joined([], WIDTH)
    assert nothing.rows.shape == (0, WIDTH) and nothing.span == 0
    with pytest.raises(ValueError, match="2 positions for 3 slots"):
        Slots(A.rows, B.positions, 9, 9)


def test_text_alone_gives_the_logits_of_its_ids_bit_for_bit(decoder):
    inputs = reading_inputs(decoder.module.get_input_embeddings(), [[[5, 6, 7], [8, 9]]])
    ids = torch.tensor([[5, 6, 7, 8, 9]])
    with torch.no_grad():
        wanted = decoder.module(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits
    assert torch.equal(logits(decoder, inputs), wanted)


@pytest.mark.parametrize("positions", ["parallel", "sequential"])
def test_a_batch_is_what_each_prompt_is_alone(decoder, positions):
    table = decoder.module.get_input_embeddings()
    prompts = [[[5, 6], A, [7, 8]], [[9], Beside([[A], [B]]), [10]], [[11, 12, 13]], [B, [4]]]
    alone = [logits(decoder, reading_inputs(table, [prompt], positions=positions))[0] for prompt in prompts]
    for padding in ("right", "left"):
        inputs = reading_inputs(table, prompts, positions=positions, padding=padding)
        assert inputs.attention_mask.sum(dim=1).tolist() == [len(row) for row in alone]
        found = logits(decoder, inputs)
        for row, wanted in enumerate(alone):
            own = found[row, inputs.attention_mask[row].bool()]
            assert_same(own, wanted)


def test_every_row_sees_all_rows_before_it(decoder):
    """The attention is not cut where positions have gaps, as it would be without the mask."""
    table = decoder.module.get_input_embeddings()
    prompt = [[5, 6], A, Beside([[A], [B]]), [7, 8]]
    inputs = reading_inputs(table, [prompt])
    rows = inputs.inputs_embeds.requires_grad_()
    decoder.module(**inputs._asdict(), use_cache=False).logits[0, -1].square().sum().backward()
    assert rows.grad is not None and (rows.grad[0].abs().sum(dim=1) > 0).all()
    with torch.no_grad():
        whole = logits(decoder, inputs)
        cut = decoder.module(
            inputs_embeds=inputs.inputs_embeds, position_ids=inputs.position_ids, use_cache=False
        ).logits
    assert not torch.allclose(whole, cut, atol=1e-3)


def test_gradients_go_through_a_prompt_to_the_compressor(tiny_model, decoder):
    module = compressor(tiny_model("llama"), compressor="memory-tokens")
    made = module.slots(module(torch.tensor([[5, 6, 7, 8, 9]]), torch.ones(1, 5)), [5])
    inputs = reading_inputs(decoder.module.get_input_embeddings(), [[[1], *made, [7, 8]]])
    decoder.module(**inputs._asdict(), use_cache=False).logits[0, -1].square().sum().backward()
    assert all(parameter.grad is not None for parameter in module.trainable().values())
    assert all(parameter.grad is None for parameter in decoder.module.parameters())


def test_the_decoding_loop_reads_the_same_prompt(decoder):
    from slotrag.encoders.backbones.prefill import PromptReader

    parts = [[5, 6], Beside([[A], [B]]), [7, 8]]
    prompt = reading_prompt(parts)
    assert prompt.row_positions == places(parts, parallel=True)[0]
    wanted = logits(decoder, reading_inputs(decoder.module.get_input_embeddings(), [parts]))[0, -1]
    for chunk in (3, 64):
        read = PromptReader(decoder.module, [prompt]).read(chunk, lambda: False)
        assert read is not None
        assert_same(read[0], wanted)
    assert decoder.generate(prompt, max_tokens=4)
    with pytest.raises(ValueError, match="ends with text"):
        reading_prompt([[5], A])
    with pytest.raises(ValueError, match="at least one row"):
        reading_inputs(decoder.module.get_input_embeddings(), [[[]]])
    with pytest.raises(ValueError, match="parallel or sequential"):
        reading_prompt([[5]], positions="beside")


def test_a_conversation_has_parts_in_its_gaps(decoder):
    def build(gap):
        return [Message("system", "Be brief."), Message("user", f"First {gap} and {gap}\nWho?")]

    parts = conversation(decoder.template, build, [[A], [B, [4]]], "Answer:")
    assert parts[1] is A and parts[3] is B and parts[4] == [4]
    text = decoder.template.tokens.decode
    assert [text(parts[at]).split() for at in (0, 2, 5)] == [
        ["Be", "brief.", "User:", "First"],
        ["and"],
        ["Who?", "Assistant:Answer:"],
    ]
    # Without gaps it is what the decoder renders, markers of the template in what people write included.
    for content in ("Who is it?", "Is </s> a marker, or User: one?"):
        turns = [Message("user", content)]
        assert conversation(decoder.template, lambda gap, turns=turns: turns, []) == [decoder.render(turns)]
    with pytest.raises(ValueError, match="1 fillings for 2 gaps"):
        conversation(decoder.template, build, [[A]])


def test_forms_ask_for_what_their_names_say(tiny_model, decoder):
    module = compressor(tiny_model("llama"))
    chat = reading_form("chat-repeat", decoder.template, 1, module.special_row)
    text = decoder.template.tokens.decode
    before, inside, after = chat.autoencoding(A)
    assert inside is A and "Repeat the following text exactly:" in text(before) and "Assistant:" in text(after)
    assert "Continue the following text:" in text(chat.continuation(A)[0])
    asked = chat.instruction([Beside([[A], [B]])], "Who wrote it?")
    assert isinstance(asked[1], Beside) and "Who wrote it?" in text(asked[2]) and chat.ending == [1]
    authors = reading_form("authors", decoder.template, 1, module.special_row)
    slots_first, special = authors.autoencoding(A)
    assert slots_first is A and torch.equal(special, module.table[0:1])
    assert authors.continuation(A) == [A]
    opened, *context, special, question, closed = authors.instruction([A, B], "Who?")
    tokens = decoder.template.tokens
    assert opened == [*tokens.opening(), *tokens.marked("[INST]")] and context == [A, B]
    assert torch.equal(special, module.table[2:3])
    assert question == tokens.plain("Who?") and closed == tokens.marked("[/INST]")
