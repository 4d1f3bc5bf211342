"""The mean encoder: equal to sentence-transformers, its layers, lengths and prefixes, and what it refuses."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import tiny_models
import torch
from slotrag import SlotragError, UsageError
from slotrag.encoders import registry

TEXTS = [
    "The boundary layer on a flat plate grows with the distance from its leading edge.",
    "Heat transfer at supersonic speed",
    "회의는 화요일 오후 세 시에 열립니다.",
    "",
    "a",
    "  spaces   and\n\nlines  ",
    " ".join(f"word {number} of a long text" for number in range(300)),
]


def reference(folder):
    """Mean vectors as sentence-transformers computes them."""
    import sentence_transformers

    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    return lambda texts: model.encode(texts, normalize_embeddings=True, show_progress_bar=False)


def test_equals_sentence_transformers(models):
    encoder = registry.create("mean", models)
    wanted = reference(models.resolve("minilm-l6"))(TEXTS)
    np.testing.assert_allclose(encoder.encode_documents(TEXTS), wanted, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_queries(TEXTS), wanted, atol=1e-5)
    assert (encoder.spec, encoder.dimension, encoder.max_tokens) == ("mean@minilm-l6", 384, 254)


def test_prefixes_of_e5_and_its_length_equal_sentence_transformers(models):
    encoder = registry.create("mean@e5-small", models)
    plain = reference(models.resolve("e5-small"))
    for prefix, encode in (("passage: ", encoder.encode_documents), ("query: ", encoder.encode_queries)):
        np.testing.assert_allclose(encode(TEXTS), plain([prefix + text for text in TEXTS]), atol=1e-5)
    nearest = encoder.encode_documents(TEXTS[:3]) @ encoder.encode_queries(["회의 시간이 언제인가요?"])[0]
    assert nearest.argmax() == 2


@pytest.mark.parametrize("kind", ["bert", "llama", "qwen2", "gpt2", "opt"])
def test_equals_the_plain_formula_for_every_architecture(kind, tiny_model, models):
    from transformers import AutoModel, AutoTokenizer

    folder = tiny_model(kind)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    texts = [text for text in TEXTS if text][:-1]
    causal = kind != "bert"
    for layer, sink in ((-1, True), (2, True), (0, True), *([(-1, False), (2, False)] if causal else [])):
        named = f",sink={str(sink).lower()}" if causal else ""
        encoder = registry.create(f"mean@({folder}):layer={layer}{named}", models)
        wanted = []
        for text in texts:
            with torch.no_grad():
                states = model(torch.tensor([tokenizer(text).input_ids]), output_hidden_states=True).hidden_states
            counted = states[layer][0] if sink or states[layer].shape[1] == 1 else states[layer][0, 1:]
            mean = counted.mean(dim=0).numpy()
            wanted.append(mean / np.linalg.norm(mean))
        np.testing.assert_allclose(encoder.encode_documents(texts), wanted, atol=2e-5)


def test_the_first_token_of_a_causal_model_is_left_out_by_default(tiny_model, models):
    folder = tiny_model("llama")
    default = registry.create(f"mean@({folder})", models)
    without, whole = (registry.create(f"mean@({folder}):sink={flag}", models) for flag in ("false", "true"))
    assert default.fingerprint == without.fingerprint != whole.fingerprint
    np.testing.assert_array_equal(default.encode_documents(TEXTS), without.encode_documents(TEXTS))
    assert abs(default.encode_documents(TEXTS) - whole.encode_documents(TEXTS)).max() > 1e-3
    plain, same = (registry.create(f"mean@({tiny_model('bert')}){flag}", models) for flag in ("", ":sink=true"))
    assert plain.fingerprint == same.fingerprint


def test_the_length_comes_from_the_model(tiny_model, models, tmp_path):
    folder = shutil.copytree(tiny_model("bert"), tmp_path / "model")
    assert registry.create(f"mean@({folder})", models).max_tokens == 126
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 50}))
    assert registry.create(f"mean@({folder})", models).max_tokens == 48
    assert registry.create(f"mean@({folder}):max_length=128", models).max_tokens == 126
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 5000}))
    assert registry.create(f"mean@({folder})", models).max_tokens == 126


def test_fingerprint_follows_what_changes_a_vector_and_nothing_else(tiny_model, models, tmp_path):
    folder = shutil.copytree(tiny_model("bert"), tmp_path / "model")

    def fingerprint(parameters=""):
        return registry.create(f"mean@({folder}){parameters}", models).fingerprint

    first = fingerprint()
    moved = shutil.copytree(folder, tmp_path / "moved")
    assert registry.create(f"mean@({moved})", models).fingerprint == first
    assert fingerprint(":layer=3") == fingerprint(":layer=-1") == fingerprint(":dtype=float32,max_length=128") == first
    others = [
        fingerprint(f":{change}") for change in ("layer=2", "query_prefix=q", "passage_prefix=q", "dtype=bfloat16")
    ]
    assert len({first, *others}) == 5
    tiny_models.write("bert", tmp_path / "other", seed=1)
    assert registry.create(f"mean@({tmp_path / 'other'})", models).fingerprint != first


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("layer=4", "between -4 and 3"),
        ("layer=-5", "between -4 and 3"),
        ("layer=last", "whole number"),
        ("max_length=129", "at most 128"),
        ("max_length=-1", "at least 0"),
        ("dtype=float8", "float32, bfloat16, float16"),
        ("prefix=x", "no parameter 'prefix'"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message, tiny_model, models):
    with pytest.raises(UsageError, match=message):
        registry.create(f"mean@({tiny_model('bert')}):{parameters}", models)


def test_a_prefix_without_room_for_text_is_refused(tiny_model, models):
    with pytest.raises(SlotragError, match="shorter prefix"):
        registry.create(f"mean@({tiny_model('bert')}):max_length=4,query_prefix=(a long prefix: )", models)


def test_unknown_backbones_are_refused(models, tmp_path):
    with pytest.raises(SlotragError):
        registry.create("mean@minilm-l7", models)
    with pytest.raises(SlotragError):
        registry.create(f"mean@({tmp_path})", models)


def test_forward_seconds_grow_and_are_most_of_the_time(models):
    import time

    encoder = registry.create("mean", models)
    encoder.encode_documents(TEXTS)
    before, started = encoder.forward_seconds, time.perf_counter()
    encoder.encode_documents(TEXTS[:3] * 20)
    took, forward = time.perf_counter() - started, encoder.forward_seconds - before
    assert 0.5 * took < forward <= took
    encoder.encode_documents([])
    assert encoder.forward_seconds == before + forward
