"""The compressor's network against the same computation by hand, and what it leaves alone."""

from __future__ import annotations

import pytest
import torch
from compressors import assert_same, by_hand, compressor
from slotrag import UsageError
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.rag.icae.configuration import CompressorConfig
from slotrag.rag.icae.model import CompressorModule

IDS = [5, 6, 7, 8, 11, 12, 40, 41, 300, 17, 9]
FORMS = [
    {},
    {"layout": "appended"},
    {"start": "authors", "read_out": 3},
    {"compressor": "memory-tokens"},
    {"compressor": "memory-tokens", "layout": "appended", "read_out": 2},
    {"compressor": "memory-tokens", "start": "authors", "layout": "appended", "read_out": 3},
    {"compressor": "memory-tokens", "start": "authors", "targets": ("q_proj", "v_proj")},
]
BIDIRECTIONAL = {"compressor": "memory-tokens", "bidirectional": True}


def run(module, *token_lists, left=False, **options):
    longest = max(map(len, token_lists))
    ids, mask = torch.full((len(token_lists), longest), 3), torch.zeros(len(token_lists), longest)
    for row, own in enumerate(token_lists):
        columns = slice(longest - len(own), longest) if left else slice(0, len(own))
        ids[row, columns], mask[row, columns] = torch.tensor(own), 1
    with torch.no_grad():
        return module(ids, mask, **options)


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2"])
@pytest.mark.parametrize("options", FORMS, ids=str)
def test_a_segment_is_what_the_paper_says(tiny_model, kind, options):
    module = compressor(tiny_model(kind), **options)
    slots, mask, positions = run(module, IDS)
    wanted, places = by_hand(tiny_model(kind), module, IDS, 3)
    assert slots.shape == (1, 3, 32) and mask.all() and positions[0].tolist() == places
    assert_same(slots[0], wanted)


@pytest.mark.parametrize("options", [FORMS[2], FORMS[4]], ids=str)
def test_an_attention_window_shorter_than_the_segment_slides_over_it(tiny_model, options):
    module = compressor(tiny_model("mistral"), **options)
    assert module.tree.config.sliding_window < len(IDS * 4)
    slots = run(module, IDS, IDS * 4)[0]
    for row, ids in enumerate([IDS, IDS * 4]):
        wanted, _ = by_hand(tiny_model("mistral"), module, ids, len(ids) // 4 + (len(ids) % 4 > 0))
        assert_same(slots[row, : len(wanted)], wanted)


def test_memory_tokens_that_see_each_other(tiny_model):
    one_way = compressor(tiny_model("llama"), compressor="memory-tokens")
    both_ways = compressor(tiny_model("llama"), **BIDIRECTIONAL)
    found = [run(module, IDS)[0][0] for module in (one_way, both_ways)]
    assert not torch.allclose(found[0][0], found[1][0], atol=1e-3)
    # The last memory token sees all others either way in the first layer, which is the only one here.
    assert_same(found[0][2], found[1][2])
    # A text's own states do not change by what follows: with one memory token there is nothing to see.
    assert_same(*(run(module, IDS, slot_counts=[1])[0] for module in (one_way, both_ways)))


@pytest.mark.parametrize("options", [*FORMS, BIDIRECTIONAL], ids=str)
def test_batch_order_and_padding_change_nothing(tiny_model, options):
    module = compressor(tiny_model("llama"), **options)
    texts = [IDS, [9], IDS[::-1] + IDS[:6], IDS[2:7]]
    alone = [run(module, text) for text in texts]
    for order in ([0, 1, 2, 3], [3, 2, 0, 1]):
        for left in (False, True):
            slots, mask, positions = run(module, *(texts[at] for at in order), left=left)
            for row, at in enumerate(order):
                count = alone[at][0].shape[1]
                assert mask[row].tolist() == [True] * count + [False] * (slots.shape[1] - count)
                assert_same(slots[row, :count], alone[at][0][0])
                assert (slots[row, count:] == 0).all()
                assert torch.equal(positions[row, :count], alone[at][2][0])


def test_counts_and_rates_can_be_asked_for(tiny_model):
    module = compressor(tiny_model("llama"))
    assert run(module, IDS, rate=1)[0].shape[1] == len(IDS)
    assert run(module, IDS, IDS[:4], slot_counts=[6, 4])[1].sum(dim=1).tolist() == [6, 4]
    pooled = module.slots(run(module, IDS, IDS[:4], rate=2), [11, 4])
    assert [(len(slots), slots.tokens, slots.span) for slots in pooled] == [(6, 11, 11), (2, 4, 4)]
    numbered = compressor(tiny_model("llama"), layout="appended")
    assert [slots.span for slots in numbered.slots(run(numbered, IDS), [11])] == [3]
    memory = compressor(tiny_model("llama"), compressor="memory-tokens", memory_rows=12)
    for bad, message in (([12], "cannot have 12"), ([0], "cannot have 0"), ([1, 1], "2 numbers")):
        with pytest.raises(ValueError, match=message):
            run(module, IDS, slot_counts=bad)
    with pytest.raises(ValueError, match="the table has 12"):
        run(memory, IDS * 3, slot_counts=[13])
    with pytest.raises(ValueError, match="1 to 48 tokens"):
        run(module, IDS * 5)
    with pytest.raises(ValueError, match="1 to 48 tokens"):
        module(torch.tensor([IDS]), torch.zeros(1, len(IDS)))


def test_the_residual_start_is_the_mean_of_the_embeddings(tiny_model):
    model = FrozenLM.load(tiny_model("llama"), causal=True)
    for form in ("pooled", "memory-tokens"):
        module = CompressorModule(model, CompressorConfig.for_model(model, compressor=form, segment_tokens=16))
        slots = run(module, IDS[:8])[0][0]
        embeddings = module.tree.get_input_embeddings()(torch.tensor(IDS[:8]))
        assert_same(slots, embeddings.reshape(2, 4, -1).mean(dim=1))


def test_the_first_table_looks_like_token_embeddings(tiny_model):
    model = FrozenLM.load(tiny_model("llama"), causal=True)
    config = CompressorConfig.for_model(model, compressor="memory-tokens", segment_tokens=64, rate=1)
    table, again = (CompressorModule(model, config, seed=5).table for _ in range(2))
    embeddings = model.module().get_input_embeddings().weight
    assert torch.equal(table, again) and table.shape == (67, 32)
    assert (table.std(dim=0) / embeddings.std(dim=0)).log().abs().max() < 0.5
    assert not torch.equal(table, CompressorModule(model, config, seed=6).table)


def test_the_decoder_never_changes(tiny_model):
    from slotrag.rag.decoder import Decoder

    decoder = Decoder(FrozenLM.load(tiny_model("llama"), causal=True), "tiny")
    before = {name: value.clone() for name, value in decoder.module.state_dict().items()}

    def logits():
        with torch.no_grad():
            return decoder.module(torch.tensor([IDS])).logits

    quiet = logits()
    module = compressor(tiny_model("llama"), compressor="memory-tokens")
    assert torch.equal(logits(), quiet)
    optimizer = torch.optim.AdamW(module.trainable().values(), lr=0.1)
    module(torch.tensor([IDS]), torch.ones(1, len(IDS)))[0].square().sum().backward()
    optimizer.step()
    assert torch.equal(logits(), quiet)
    assert not any("lora" in name for name, _ in decoder.module.named_modules())
    after = decoder.module.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    shared = decoder.module.get_input_embeddings().weight.data_ptr()
    assert module.tree.get_input_embeddings().weight.data_ptr() == shared


@pytest.mark.parametrize("options", [{}, {"compressor": "memory-tokens"}], ids=str)
def test_gradients_reach_lora_table_and_projection_alone(tiny_model, options):
    module = compressor(tiny_model("llama"), **options)
    module.train()
    assert not module.training and not module.tree.training
    module(torch.tensor([IDS]), torch.ones(1, len(IDS)))[0].square().sum().backward()
    trained = module.trainable()
    reached = {id(parameter) for parameter in module.parameters() if parameter.grad is not None}
    own = {name: parameter for name, parameter in trained.items() if name != "table" or options}
    assert reached == {id(parameter) for parameter in own.values()}
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in own.values())
    frozen = [parameter for parameter in module.parameters() if not any(parameter is own for own in trained.values())]
    assert frozen and not any(parameter.requires_grad for parameter in frozen)
    assert {name.split(".")[-1] for name in trained} == {"lora_A", "lora_B", "table", "projection"}
    assert all(name.startswith("layers.0.") for name in trained if "lora" in name)


def test_weights_go_from_one_module_to_another(tiny_model):
    first, second = (compressor(tiny_model("llama"), seed=seed) for seed in (1, 2))
    assert not torch.allclose(run(first, IDS)[0], run(second, IDS)[0], atol=1e-3)
    second.load_weights(first.weights())
    assert torch.equal(run(first, IDS)[0], run(second, IDS)[0])
    for broken in ({}, {**first.weights(), "more": first.weights()["table"]}, {**first.weights(), "table": [0.0]}):
        with pytest.raises((ValueError, AttributeError)):
            second.load_weights(broken)
    assert torch.equal(run(first, IDS)[0], run(second, IDS)[0])


def test_weights_of_16_bits_keep_adapters_of_32(tiny_model):
    model = FrozenLM.load(tiny_model("llama"), causal=True, dtype="bfloat16")
    module = CompressorModule(model, CompressorConfig.for_model(model, segment_tokens=16))
    module(torch.tensor([IDS]), torch.ones(1, len(IDS)))[0].square().sum().backward()
    assert module.tree.get_input_embeddings().weight.dtype == torch.bfloat16
    assert all(parameter.dtype == torch.float32 for parameter in module.trainable().values())
    gradient = module.trainable()["projection"].grad
    assert gradient is not None and torch.isfinite(gradient).all() and gradient.dtype == torch.float32


def test_the_attention_is_never_left_to_guess_packed_sequences(tiny_model, monkeypatch):
    from transformers import masking_utils

    def guess(*arguments):
        raise AssertionError("transformers was left to find packed sequences")

    kinds, forms = ("llama", "mistral"), [*FORMS, BIDIRECTIONAL]
    modules = [compressor(tiny_model(kind), segment_tokens=24, **form) for kind in kinds for form in forms]
    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", guess)
    for module in modules:
        run(module, IDS)
        run(module, IDS, IDS[:3])
    with pytest.raises(AssertionError, match="packed"):
        modules[0].tree(torch.tensor([IDS]), position_ids=torch.arange(0, 22, 2)[None], use_cache=False)


def test_models_that_cannot_serve_are_refused(tiny_model):
    llama = FrozenLM.load(tiny_model("llama"), causal=True)
    config = CompressorConfig.for_model(llama)
    with pytest.raises(UsageError, match="width 64"):
        CompressorModule(llama, config.with_(width=64))
    with pytest.raises(UsageError, match="window is 128"):
        CompressorModule(llama, config.with_(segment_tokens=129))
    gpt2 = FrozenLM.load(tiny_model("gpt2"), causal=True)
    with pytest.raises(UsageError, match="no projection q_proj"):
        CompressorModule(gpt2, CompressorConfig.for_model(gpt2))
    bert = FrozenLM.load(tiny_model("bert"))
    with pytest.raises(UsageError, match="no causal language model"):
        CompressorModule(bert, CompressorConfig.for_model(bert))
    mistral = FrozenLM.load(tiny_model("mistral"), causal=True)
    with pytest.raises(UsageError, match="reaches 40 tokens back"):
        CompressorModule(mistral, CompressorConfig.for_model(mistral, **BIDIRECTIONAL))
    flash = FrozenLM.load(tiny_model("llama"), causal=True)
    tree = flash.module().base_model
    tree.config._attn_implementation_internal = "flash_attention_2"
    flash.tree_to = lambda layer: tree
    with pytest.raises(UsageError, match="sdpa or eager"):
        CompressorModule(flash, config)


@pytest.mark.parametrize("options", [*FORMS[:4], BIDIRECTIONAL], ids=str)
def test_eager_attention_gives_the_same(tiny_model, options):
    fast = compressor(tiny_model("llama"), **options)
    slow = CompressorModule(FrozenLM.load(tiny_model("llama"), causal=True, attention="eager"), fast.config)
    slow.load_weights(fast.weights())
    assert slow.tree.config._attn_implementation == "eager"
    assert_same(run(slow, IDS, IDS[:5])[0], run(fast, IDS, IDS[:5])[0])
