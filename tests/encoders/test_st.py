"""The encoder over sentence-transformers models: equality, prompts, fingerprints, and models that are refused."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pytest
from slotrag import SlotragError, UsageError
from slotrag.encoders import registry
from slotrag.encoders.backbones import catalogue
from slotrag.encoders.errors import EncoderUnavailable

TEXTS = ["The wing flutters.", "회의는 화요일에 열립니다.", "", "long " * 500]


@pytest.fixture(scope="module")
def whole_model(tiny_model, tmp_path_factory):
    """A tiny model with a pooling, a dense and a normalizing module, and prompts."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

    torch.manual_seed(0)
    body = Transformer(str(tiny_model("bert")), max_seq_length=40)
    modules = [body, Pooling(32, pooling_mode="mean"), Dense(32, 16), Normalize()]
    model = SentenceTransformer(modules=modules, device="cpu", prompts={"query": "ask: ", "passage": "text: "})
    folder = tmp_path_factory.mktemp("st") / "model"
    model.save(str(folder))
    return folder


@pytest.fixture
def model_copy(whole_model, tmp_path):
    return shutil.copytree(whole_model, tmp_path / "model")


def test_equals_the_library_with_the_models_prompts(whole_model, models):
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(whole_model), device="cpu")
    encoder = registry.create(f"st@({whole_model})", models)
    assert encoder.dimension == 16
    np.testing.assert_allclose(encoder.encode_queries(TEXTS), reference.encode_query(TEXTS), atol=1e-5)
    wanted = reference.encode([f"text: {text}" for text in TEXTS])
    np.testing.assert_allclose(encoder.encode_documents(TEXTS), wanted, atol=1e-5)
    assert np.abs(encoder.encode_queries(TEXTS[:1]) - encoder.encode_documents(TEXTS[:1])).max() > 1e-3
    assert encoder.forward_seconds > 0


def test_a_model_without_special_tokens_reads_an_empty_text(tiny_model, models, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    modules = [Transformer(str(tiny_model("qwen2"))), Pooling(32, pooling_mode="lasttoken")]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "causal"))
    encoder = registry.create(f"st@({tmp_path / 'causal'})", models)
    together = encoder.encode_documents(["", "wing flutter", "a"])
    alone = [encoder.encode_documents([text])[0] for text in ("", "wing flutter", "a")]
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_prompts_of_the_spec_come_first(whole_model, models):
    plain = registry.create(f"st@({whole_model}):query_prompt=(),document_prompt=()", models)
    asked = registry.create(f"st@({whole_model}):query_prompt=(wing: )", models)
    np.testing.assert_allclose(asked.encode_queries(["flutter"]), plain.encode_documents(["wing: flutter"]), atol=1e-5)
    np.testing.assert_array_equal(plain.encode_queries(TEXTS), plain.encode_documents(TEXTS))


def test_the_catalogues_prefixes_serve_where_the_model_has_no_prompts(model_copy, models, monkeypatch):
    settings = model_copy / "config_sentence_transformers.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "prompts": {}}))
    plain = registry.create(f"st@({model_copy})", models)
    monkeypatch.setattr("slotrag.encoders.st.known_entry", lambda name: catalogue.find("e5-small"))
    encoder = registry.create(f"st@({model_copy})", models)
    assert encoder.fingerprint != plain.fingerprint
    for encode, prefix in ((encoder.encode_queries, "query: "), (encoder.encode_documents, "passage: ")):
        wanted = plain.encode_documents([prefix + text for text in TEXTS[:3]])
        np.testing.assert_allclose(encode(TEXTS[:3]), wanted, atol=1e-5)


def change(file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))


def test_fingerprint_covers_every_module(model_copy, models):
    def fingerprint():
        return registry.create(f"st@({model_copy})", models).fingerprint

    seen = {fingerprint()}
    for name in ("model.safetensors", "2_Dense/model.safetensors"):
        change(model_copy / name)
        seen.add(fingerprint())
    pooling = model_copy / "1_Pooling" / "config.json"
    settings = json.loads(pooling.read_text())
    assert settings["pooling_mode"] == "mean"
    pooling.write_text(json.dumps({**settings, "pooling_mode": "max"}))
    seen.add(fingerprint())
    assert len(seen) == 4
    (model_copy / "README.md").write_text("Another description.")
    assert fingerprint() in seen


def test_a_missing_extra_is_named(whole_model, models, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EncoderUnavailable, match=r"pip install 'slotrag\[st\]'"):
        registry.create(f"st@({whole_model})", models)


def test_a_model_must_be_named(models):
    with pytest.raises(UsageError, match="name a sentence-transformers model"):
        registry.create("st", models)


def test_a_plain_language_model_is_pointed_to_mean(tiny_model, models):
    with pytest.raises(EncoderUnavailable, match="use mean@MODEL"):
        registry.create(f"st@({tiny_model('bert')})", models)


def edit_modules(folder, **changes):
    listing = folder / "modules.json"
    modules = json.loads(listing.read_text())
    modules[2].update(changes)
    listing.write_text(json.dumps(modules))


def test_code_of_the_models_own_is_never_run(model_copy, models):
    (model_copy / "own.py").write_text("raise SystemExit('code of a model was run')")
    edit_modules(model_copy, type="own.Module")
    with pytest.raises(EncoderUnavailable, match="code of its own"):
        registry.create(f"st@({model_copy})", models)


def test_pickles_are_never_opened(model_copy, models):
    (model_copy / "2_Dense" / "model.safetensors").rename(model_copy / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(EncoderUnavailable, match="pickles"):
        registry.create(f"st@({model_copy})", models)


def test_modules_outside_the_folder_are_refused(model_copy, models):
    edit_modules(model_copy, path="../elsewhere")
    with pytest.raises(SlotragError, match="outside its folder"):
        registry.create(f"st@({model_copy})", models)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '[{"path": "x"}]'])
def test_a_broken_module_list_is_said(content, model_copy, models):
    (model_copy / "modules.json").write_text(content)
    with pytest.raises(EncoderUnavailable):
        registry.create(f"st@({model_copy})", models)


def test_a_broken_model_is_said(model_copy, models):
    (model_copy / "2_Dense" / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(EncoderUnavailable, match="cannot be loaded"):
        registry.create(f"st@({model_copy})", models)


def test_max_length_and_its_bounds(whole_model, models):
    assert registry.create(f"st@({whole_model}):query_prompt=(),document_prompt=()", models).max_tokens == 38
    shorter = registry.create(f"st@({whole_model}):query_prompt=(),document_prompt=(),max_length=20", models)
    assert shorter.max_tokens == 18
    with pytest.raises(UsageError, match="at most 128"):
        registry.create(f"st@({whole_model}):max_length=129", models)
