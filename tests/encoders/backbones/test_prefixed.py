"""States behind a shared head: equal to reading it every time, whatever the padding, attention and threads."""

from __future__ import annotations

import threading

import pytest
import torch
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.backbones.prefixed import PrefixedLM

CAUSAL = ["llama", "qwen2", "gemma2", "mistral", "gpt2", "opt", "gpt-neox"]
HEAD = [3, 20, 30]
RESTS = [[5, 6, 7], [9], [4, 8, 15, 16, 23, 42, 10, 11], [12, 13]]
PREPENDING = {"copied": range(1, 3), "placeholder": "zeros"}
LONG = [list(range(20, 110)), [7] * 60, [9]]


@pytest.mark.parametrize("kind", CAUSAL)
@pytest.mark.parametrize("layer", [0, 2, 3])
def test_the_states_are_those_of_the_whole_prompt(tiny_model, kind, layer):
    model = FrozenLM.load(tiny_model(kind))
    states, mask = PrefixedLM(model, HEAD, layer).states(RESTS)
    whole, whole_mask = model.states_at([HEAD + rest for rest in RESTS], layer)
    assert torch.equal(mask, whole_mask[:, len(HEAD) :])
    torch.testing.assert_close(states, whole[:, len(HEAD) :], atol=1e-5, rtol=1e-5)
    last = PrefixedLM(model, HEAD, layer).last_states(RESTS)
    torch.testing.assert_close(last, torch.stack([row[own][-1] for row, own in zip(states, mask, strict=True)]))


@pytest.mark.parametrize("kind", CAUSAL)
@pytest.mark.parametrize("placeholder", ["zeros", "mean"])
def test_sharing_the_head_changes_nothing_with_token_prepending(tiny_model, kind, placeholder):
    model = FrozenLM.load(tiny_model(kind))
    options = {"copied": range(1, 3), "placeholder": placeholder}
    for layer in (2, 3):
        shared = PrefixedLM(model, HEAD, layer, **options)
        first, again = shared.last_states(RESTS), shared.last_states(RESTS)
        alone = PrefixedLM(model, HEAD, layer, share_head=False, **options).last_states(RESTS)
        torch.testing.assert_close(first, alone, atol=1e-5, rtol=1e-5)
        assert torch.equal(first, again)
        one_by_one = torch.cat([shared.last_states([rest]) for rest in RESTS])
        torch.testing.assert_close(one_by_one, first, atol=1e-5, rtol=1e-5)


# An attention window counts columns, padding at the left too: those models are padded at the right only.
@pytest.mark.parametrize("kind", [kind for kind in CAUSAL if kind not in ("gemma2", "mistral")])
@pytest.mark.parametrize("share", [True, False])
def test_padding_at_the_left_gives_the_same_states(tiny_model, kind, share):
    model = FrozenLM.load(tiny_model(kind))
    rests = RESTS + LONG
    right, left = (
        PrefixedLM(model, HEAD, 3, padding=padding, share_head=share, **PREPENDING).last_states(rests)
        for padding in ("right", "left")
    )
    torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["gemma2", "mistral"])
def test_a_text_longer_than_the_attention_window(tiny_model, kind):
    model = FrozenLM.load(tiny_model(kind))
    assert model.config.sliding_window < 90
    states, _ = PrefixedLM(model, HEAD, 3).states(LONG)
    whole, _ = model.token_states([HEAD + rest for rest in LONG])
    torch.testing.assert_close(states, whole[:, len(HEAD) :], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in CAUSAL if kind != "gemma2"])
def test_eager_attention_agrees(tiny_model, kind):
    eager, sdpa = (
        PrefixedLM(FrozenLM.load(tiny_model(kind), attention=attention), HEAD, 3, **PREPENDING).last_states(RESTS)
        for attention in ("eager", "sdpa")
    )
    torch.testing.assert_close(eager, sdpa, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", CAUSAL)
def test_states_of_all_layers_are_those_of_each(tiny_model, kind):
    model = FrozenLM.load(tiny_model(kind))
    every = PrefixedLM(model, HEAD, 3, **PREPENDING).last_states_of_all_layers(RESTS)
    assert every.shape == (4, 4, 32)
    for layer in range(4):
        own = PrefixedLM(model, HEAD, layer, **PREPENDING).last_states(RESTS)
        torch.testing.assert_close(every[layer], own, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="all layers"):
        PrefixedLM(model, HEAD, 2).last_states_of_all_layers(RESTS)


def test_the_head_is_read_once_and_the_layers_above_never(tiny_model, monkeypatch):
    from slotrag.encoders.backbones.layers import decoder_layers

    model = FrozenLM.load(tiny_model("llama"))
    kind = type(decoder_layers(model.module())[0])
    forward, seen = kind.forward, []

    def counted(self, states, *args, **options):
        seen.append(tuple(states.shape[:2]))
        return forward(self, states, *args, **options)

    monkeypatch.setattr(kind, "forward", counted)
    prefixed = PrefixedLM(model, HEAD, 2)
    prefixed.last_states(RESTS)
    prefixed.last_states(RESTS[:1])
    assert seen == [(1, 3), (1, 3), (4, 8), (4, 8), (1, 3), (1, 3)]


def test_threads_with_different_rows_do_not_meet(tiny_model):
    prefixed = PrefixedLM(FrozenLM.load(tiny_model("llama")), HEAD, 3, **PREPENDING)
    parts = [RESTS[number:] + LONG[number % 3 :] for number in range(4)]
    expected = [prefixed.last_states(part) for part in parts]
    every = [prefixed.last_states_of_all_layers(part) for part in parts]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(8):
            if not torch.equal(prefixed.last_states(parts[number]), expected[number]):
                wrong.append(number)
            if not torch.equal(prefixed.last_states_of_all_layers(parts[number]), every[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number % 4,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_decoder_over_the_same_weights_notices_nothing(tiny_model):
    decoder = FrozenLM.load(tiny_model("llama"), causal=True)
    tree = decoder.module()
    ids = torch.tensor([HEAD + RESTS[2]])
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    before = tree.generate(ids, **options)
    weights = {name: value.clone() for name, value in tree.state_dict().items()}
    PrefixedLM(decoder, HEAD, 2, **PREPENDING).last_states(RESTS)
    PrefixedLM(decoder, HEAD, 3, copied=range(1, 3), placeholder="mean").last_states(RESTS)
    assert torch.equal(tree.generate(ids, **options), before)
    assert torch.equal(decoder.module().generate(ids, **options), before)
    assert all(torch.equal(value, weights[name]) for name, value in tree.state_dict().items())
    assert decoder.module().get_input_embeddings().weight.shape[0] == decoder.config.vocab_size


@pytest.mark.parametrize("kind", CAUSAL)
def test_bfloat16_is_near(tiny_model, kind):
    exact = PrefixedLM(FrozenLM.load(tiny_model(kind)), HEAD, 2, **PREPENDING).last_states(RESTS)
    half = PrefixedLM(FrozenLM.load(tiny_model(kind), dtype="bfloat16"), HEAD, 2, **PREPENDING).last_states(RESTS)
    assert half.dtype == torch.float32
    cosines = torch.nn.functional.cosine_similarity(exact, half)
    # Eight bits of mantissa through two layers of weights that are wilder than a trained model's.
    assert (cosines > 0.998).all() and (cosines < 1).any()


@pytest.mark.parametrize(
    ("head", "options", "rests"),
    [
        ([], {}, RESTS),
        (HEAD, {"copied": range(2), "placeholder": "zeros"}, RESTS),
        (HEAD, {"copied": range(1, 2)}, RESTS),
        (HEAD, {}, []),
        (HEAD, {}, [[1], []]),
        (HEAD, {}, [[1] * 126]),
    ],
)
def test_what_makes_no_sense_is_refused(tiny_model, head, options, rests):
    with pytest.raises(ValueError):
        PrefixedLM(FrozenLM.load(tiny_model("llama")), head, 3, **options).states(rests)
