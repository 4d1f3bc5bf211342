"""The one-word encoders: against a reference written from the definition, their prompts, cuts, layers and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from slotrag import SlotragError, UsageError
from slotrag.encoders import registry
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.calibration import Calibration, save_calibration
from slotrag.encoders.one_word import scan_states
from slotrag.encoders.postprocessing_fit import fit
from slotrag.encoders.prompts import DEMONSTRATIONS, PROMPTS

TEXTS = [
    "The wing bends under load.",
    "What does heat do?",
    "a",
    "",
    'He said "stop" <PST>',
    "회의는 화요일에 열립니다.",
]
LONG = "heat flows through the thin skin of the wing " * 40


def norm(states, weight):
    return states / torch.sqrt(states.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def rotated(heads, positions):
    """Rotary positions, halves rotated: heads of shape (tokens, heads, width)."""
    half = heads.shape[-1] // 2
    angles = positions[:, None] * 10000.0 ** (-torch.arange(half) / half)
    cos, sin = angles.cos().repeat(1, 2)[:, None], angles.sin().repeat(1, 2)[:, None]
    return heads * cos + torch.cat([-heads[..., half:], heads[..., :half]], dim=-1) * sin


def attention(states, weights, layer, heads=4, shared=2):
    """Causal grouped attention from the definition."""
    name = f"layers.{layer}.self_attn"
    length = len(states)
    positions = torch.arange(length, dtype=torch.float32)
    split = [
        (states @ weights[f"{name}.{part}_proj.weight"].T).view(length, count, -1)
        for part, count in (("q", heads), ("k", shared), ("v", shared))
    ]
    query, key, value = rotated(split[0], positions), rotated(split[1], positions), split[2]
    mixed = []
    for head in range(heads):
        own = head * shared // heads
        scores = query[:, head] @ key[:, own].T / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
        mixed.append(scores.softmax(-1) @ value[:, own])
    return torch.cat(mixed, dim=-1) @ weights[f"{name}.o_proj.weight"].T


def reference(weights, rows, *, pst=None, start=1, end=1):
    """All states of the last token of a Llama, Token Prepending in the loop over its layers."""
    states, last = rows, []
    for layer in range(3):
        last.append(states[-1])
        if pst is not None and start <= layer < end:
            states = states.clone()
            states[pst] = states[-1]
        own = f"layers.{layer}"
        states = states + attention(norm(states, weights[f"{own}.input_layernorm.weight"]), weights, layer)
        inner = norm(states, weights[f"{own}.post_attention_layernorm.weight"])
        gate, up = (inner @ weights[f"{own}.mlp.{part}_proj.weight"].T for part in ("gate", "up"))
        states = states + (torch.nn.functional.silu(gate) * up) @ weights[f"{own}.mlp.down_proj.weight"].T
    return [*last, norm(states, weights["norm.weight"])[-1]]


def reference_vectors(folder, text, *, layer, copies=None, prompt="eol", placeholder="zeros"):
    """The vector of one text, from the text to the unit vector."""
    model = FrozenLM.load(folder)
    weights = dict(model.module().named_parameters())
    table = weights["embed_tokens.weight"]
    tokenizer = model.tokenizer

    def embedded(words):
        return table[torch.tensor(tokenizer(words, add_special_tokens=False).input_ids)]

    before = PROMPTS[prompt][0].before
    text = text.replace('"', "'")
    bos = table[torch.tensor([tokenizer.bos_token_id])]
    with torch.no_grad():
        if copies is None:
            states = reference(weights, torch.cat([bos, embedded(f'{before} "{text}" means in one word:"')]))
        else:
            row = torch.zeros(1, 32) if placeholder == "zeros" else table.mean(0, keepdim=True)
            head = torch.cat([bos, embedded(before + " ")])
            rows = torch.cat([head, row, embedded(f' "{text}" means in one word:"')])
            states = reference(weights, rows, pst=len(head), start=copies[0], end=copies[1])
    return (states[layer] / states[layer].norm()).numpy()


@pytest.mark.parametrize("layer", [1, 2, 3])
@pytest.mark.parametrize("prompt", ["eol", "cot"])
def test_equals_the_definition(tiny_model, models, layer, prompt):
    folder = tiny_model("llama")
    encoder = registry.create(f"prompteol@({folder}):layer={layer},prompt={prompt}", models)
    wanted = [reference_vectors(folder, text, layer=layer, prompt=prompt) for text in TEXTS]
    np.testing.assert_allclose(encoder.encode_documents(TEXTS), wanted, atol=1e-5)


@pytest.mark.parametrize("copies", [(1, 1), (1, 2), (1, 3), (2, 3), (2, 2)])
@pytest.mark.parametrize("placeholder", ["zeros", "mean"])
def test_token_prepending_equals_the_definition(tiny_model, models, copies, placeholder):
    folder = tiny_model("llama")
    for layer in (2, 3):
        spec = f"tp@({folder}):layer={layer},start={copies[0]},exit={copies[1]},placeholder={placeholder}"
        encoder = registry.create(spec, models)
        wanted = [reference_vectors(folder, t, layer=layer, copies=copies, placeholder=placeholder) for t in TEXTS]
        np.testing.assert_allclose(encoder.encode_documents(TEXTS), wanted, atol=1e-5)
        np.testing.assert_allclose(encoder.encode_queries(TEXTS), wanted, atol=1e-5)


def test_copying_changes_the_vector_and_not_copying_is_a_row_of_its_own(tiny_model, models):
    folder = tiny_model("llama")
    plain, placed, copied = (
        registry.create(spec, models).encode_documents(TEXTS)
        for spec in (f"prompteol@({folder})", f"tp@({folder}):exit=1", f"tp@({folder}):exit=2")
    )
    for one, other in ((plain, placed), (placed, copied), (plain, copied)):
        assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("prompt", ["eol", "metaeol"])
@pytest.mark.parametrize("name", ["prompteol", "tp"])
def test_a_scan_holds_the_vectors_of_every_layer(tiny_model, models, name, prompt, tmp_path):
    folder = larger_window(tmp_path)
    copies = ",exit=2" if name == "tp" else ""
    encoder = registry.create(f"{name}@({folder}):prompt={prompt}{copies}", models)
    states = scan_states(encoder, TEXTS)
    assert states.shape == (4, len(TEXTS), 32) and states.dtype == np.float32
    for layer in (2, 3):
        unit = states[layer] / np.linalg.norm(states[layer], axis=1, keepdims=True)
        own = registry.create(f"{name}@({folder}):prompt={prompt},layer={layer}{copies}", models)
        np.testing.assert_allclose(own.encode_documents(TEXTS), unit, atol=1e-5)


def larger_window(folder):
    import tiny_models

    return tiny_models.write("llama", folder / "model", max_position_embeddings=512)


def test_several_prompts_are_the_mean_of_their_raw_states(tmp_path, models):
    folder = larger_window(tmp_path)
    found = scan_states(registry.create(f"prompteol@({folder}):prompt=metaeol,max_length=400", models), TEXTS)
    assert len(PROMPTS["metaeol"]) == 8
    weights_of_each = []
    for template in PROMPTS["metaeol"]:
        tokenizer, model = FrozenLM.load(folder).tokenizer, FrozenLM.load(folder)
        ids = [tokenizer(template.fill(text.replace('"', "'"))).input_ids for text in TEXTS]
        states, mask = model.states_at(ids, 2)
        weights_of_each.append(states[torch.arange(len(ids)), mask.sum(1) - 1].numpy())
    np.testing.assert_allclose(found[2], np.mean(weights_of_each, axis=0), atol=1e-4)


def test_a_demonstration_stands_before_the_prompt(tmp_path, models):
    folder = larger_window(tmp_path)
    text, word = DEMONSTRATIONS["moons"]
    encoder = registry.create(f"prompteol@({folder}):demonstration=moons", models)
    tokenizer, model = FrozenLM.load(folder).tokenizer, FrozenLM.load(folder)
    whole = f'This sentence : "{text}" means in one word:"{word}". This sentence : "A wing." means in one word:"'
    states, _ = model.states_at([tokenizer(whole).input_ids], 2)
    wanted = states[0, -1] / states[0, -1].norm()
    np.testing.assert_allclose(encoder.encode_documents(["A wing."])[0], wanted.numpy(), atol=1e-5)


def test_quotes_become_single_and_a_question_stays_one(tiny_model, models):
    encoder = registry.create(f"prompteol@({tiny_model('llama')})", models)
    double, single, plain, asked = encoder.encode_documents(['a "b" c', "a 'b' c", "Is it so.", "Is it so?"])
    np.testing.assert_allclose(double, single, atol=1e-6)
    assert np.abs(plain - asked).max() > 1e-3
    assert encoder.token_offsets('a "b" c') == encoder.token_offsets("a 'b' c")


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt2", "mistral", "gemma2"])
@pytest.mark.parametrize("name", ["prompteol", "tp"])
def test_the_tail_survives_and_the_window_is_never_exceeded(tiny_model, models, kind, name, monkeypatch):
    from slotrag.encoders.backbones.prefixed import PrefixedLM

    encoder = registry.create(f"{name}@({tiny_model(kind)})", models)
    tokenizer = FrozenLM.load(tiny_model(kind)).tokenizer
    lists: list[list[int]] = []
    heads: list[int] = []
    real = PrefixedLM.last_states

    def kept(self, token_lists):
        lists.extend(list(ids) for ids in token_lists)
        heads.append(self.head_length)
        return real(self, token_lists)

    monkeypatch.setattr(PrefixedLM, "last_states", kept)
    texts = [LONG, "." * 500, "가" * 300, "\U0001f680" * 90, "- " * 300, "</s><s>" * 50, '"' * 400, "ab." * 100]
    encoder.encode_documents(texts)
    assert len(lists) == len(texts)
    for ids in lists:
        assert len(ids) + heads[0] <= 128
        assert tokenizer.decode(ids).endswith('means in one word:"')
        if name == "tp":
            assert ids[0] == 0


def test_markers_in_a_text_are_text(tiny_model, models, monkeypatch):
    from slotrag.encoders.backbones.prefixed import PrefixedLM

    encoder = registry.create(f"tp@({tiny_model('llama')})", models)
    seen: list[list[int]] = []
    monkeypatch.setattr(PrefixedLM, "last_states", lambda self, lists: seen.extend(lists) or torch.ones(len(lists), 32))
    encoder.encode_documents(["</s> <s> <pad> <PST>"])
    special = FrozenLM.load(tiny_model("llama")).tokenizer.all_special_ids
    assert not set(special) & set(seen[0][1:])
    assert len(FrozenLM.load(tiny_model("llama")).tokenizer) == 500


def test_the_fingerprint_follows_what_changes_a_vector(tiny_model, models):
    def fingerprint(spec):
        return registry.create(spec.format(tiny_model("llama")), models).fingerprint

    first = fingerprint("tp@({})")
    same = ["tp@({}):layer=2", "tp@({}):start=1", "tp@({}):exit=2", "tp@({}):calibration=none,max_length=128"]
    assert {fingerprint(spec) for spec in same} == {first}, "the copies end below the layer that is read"
    nothing = fingerprint("tp@({}):exit=1")
    assert fingerprint("tp@({}):start=2,exit=2") == nothing != fingerprint("prompteol@({})")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("prompteol@({llama}):layer=0", "between 1 and 3"),
        ("prompteol@({llama}):layer=-4", "between 1 and 3"),
        ("prompteol@({llama}):layer=4", "between 1 and 3"),
        ("prompteol@({llama}):prompt=best", "eol, cot, knowledge, metaeol"),
        ("prompteol@({llama}):demonstration=mine", "none, orchard"),
        ("prompteol@({llama}):exit=2", "no parameter 'exit'"),
        ("tp@({llama}):start=0", "at least 1"),
        ("tp@({llama}):start=2,exit=1", "at least 2"),
        ("tp@({llama}):exit=4", "at most 3"),
        ("tp@({llama}):placeholder=ones", "zeros, mean"),
        ("tp@({llama}):max_length=129", "at most 128"),
        ("tp@({llama}):calibration=0123456789abcdef", "not on this machine"),
        ("prompteol@({bert})", "not a causal language model"),
    ],
)
def test_wrong_parameters_are_refused(spec, message, tiny_model, models):
    with pytest.raises(UsageError, match=message):
        registry.create(spec.format(llama=tiny_model("llama"), bert=tiny_model("bert")), models)


def test_a_prompt_without_room_for_text_is_refused(tiny_model, models):
    with pytest.raises(SlotragError, match="larger max_length"):
        registry.create(f"prompteol@({tiny_model('llama')}):max_length=12", models)


def test_a_calibration_gives_what_the_spec_leaves_open(tiny_model, tmp_path):
    from slotrag.encoders.backbones.store import ModelStore

    models = ModelStore(tmp_path, offline=True)
    folder = str(tiny_model("llama"))
    suggested = fit("mean", [np.random.default_rng(0).normal(size=(200, 32)).astype(np.float32)])
    parameters = {"prompt": "cot", "layer": "1", "exit": "1"}
    made = Calibration("tp", models.weights_sha256(folder), parameters, suggested)
    save_calibration(made, models)
    encoder = registry.create(f"tp@({folder}):calibration={made.hash}", models)
    plain = registry.create(f"tp@({folder}):prompt=cot,layer=1,exit=1", models)
    assert encoder.fingerprint == plain.fingerprint and plain.postprocessing is None
    assert encoder.spec == f"tp@{folder}:calibration={made.hash}" and plain.spec.startswith(
        f"tp@{folder}:calibration=none"
    )
    assert encoder.postprocessing == suggested
    np.testing.assert_array_equal(encoder.encode_documents(TEXTS), plain.encode_documents(TEXTS))
    own = registry.create(f"tp@({folder}):calibration={made.hash},layer=2", models)
    assert own.fingerprint == registry.create(f"tp@({folder}):prompt=cot,layer=2,exit=1", models).fingerprint
    with pytest.raises(UsageError, match="made for the encoder 'tp'"):
        registry.create(f"prompteol@({folder}):calibration={made.hash}", models)
    with pytest.raises(UsageError, match="made for another model"):
        registry.create(f"tp@({tiny_model('qwen2')}):calibration={made.hash}", models)


def test_a_shipped_calibration_is_named_in_the_spec(tiny_model, tmp_path, monkeypatch):
    from slotrag.encoders import calibration
    from slotrag.encoders.backbones.store import ModelStore

    models = ModelStore(tmp_path, offline=True)
    folder = str(tiny_model("llama"))
    made = Calibration("prompteol", models.weights_sha256(folder), {"prompt": "cot", "layer": "1"})
    save_calibration(made, models)
    monkeypatch.setattr(calibration, "shipped_for", lambda name, weights: made.hash)
    encoder = registry.create(f"prompteol@({folder})", models)
    assert encoder.spec == f"prompteol@{folder}:calibration={made.hash}"
    plain = registry.create(f"prompteol@({folder}):calibration=none", models)
    assert plain.fingerprint != encoder.fingerprint


def test_the_unembedding_is_the_models(tiny_model, models):
    for name in ("prompteol", "tp", "echo", "mean"):
        encoder = registry.create(f"{name}@({tiny_model('llama')})", models)
        assert encoder.unembedding().shape == (500, encoder.dimension)
    with pytest.raises(UsageError, match="no unembedding"):
        registry.create(f"mean@({tiny_model('bert')})", models).unembedding()
