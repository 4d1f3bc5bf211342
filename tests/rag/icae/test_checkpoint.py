"""Compressors as files: named by their content, refused where they do not belong."""

from __future__ import annotations

import json

import numpy as np
import pytest
from compressors import compressor
from slotrag import SlotragError
from slotrag.encoders.backbones.store import ModelStore
from slotrag.rag.icae.checkpoint import (
    FOLDER,
    CompressorCheckpoint,
    CompressorDamaged,
    CompressorMismatch,
    CompressorMissing,
    find_compressor,
    save_compressor,
    shipped_compressor,
    write_compressor,
)
from slotrag.rag.icae.compressor import TrainedCompressor


@pytest.fixture
def store(tmp_path):
    return ModelStore(tmp_path / "models", offline=True)


@pytest.fixture
def base(tiny_model):
    return str(tiny_model("llama"))


def checkpoint_of(module, store, base, **facts):
    facts = {"base_weights": store.weights_sha256(base), "tokenizer": store.tokenizer_sha256(base), **facts}
    return CompressorCheckpoint(module.config, module.weights(), **facts)


def test_what_was_saved_compresses_as_before(store, base, tiny_model):
    module = compressor(tiny_model("llama"), compressor="memory-tokens")
    saved = checkpoint_of(module, store, base, training={"data": [{"name": "a", "licence": "CC0"}]}, measured={"x": 1})
    path = save_compressor(saved, store)
    assert path == store.folder / FOLDER / f"{saved.hash}.json"
    found = find_compressor(saved.hash, store)
    assert found.config == saved.config and found.hash == saved.hash and found.training == saved.training
    for name, value in module.weights().items():
        assert np.array_equal(found.weights[name], value.astype(np.float16).astype(np.float32))
    assert path.with_suffix(".safetensors").stat().st_size < 1000 + 8 * 80 + 2 * sum(
        map(np.size, saved.weights.values())
    )
    module.load_weights(found.weights)
    loaded = TrainedCompressor.load(found, store, base)
    direct = TrainedCompressor(loaded._language_model, module, saved.hash)
    text = "Who wrote the report, when was it written?"
    assert loaded.fingerprint == saved.hash and loaded.rate == 4
    assert np.array_equal(loaded.compress([text])[0].rows, direct.compress([text])[0].rows)
    assert not any(parameter.requires_grad for parameter in loaded.module.parameters())


def test_the_name_changes_with_everything(store, base, tiny_model):
    module = compressor(tiny_model("llama"))
    first = checkpoint_of(module, store, base)
    others = [
        checkpoint_of(compressor(tiny_model("llama"), seed=2), store, base),
        checkpoint_of(compressor(tiny_model("llama"), rate=2), store, base),
        checkpoint_of(module, store, base, tokenizer="another"),
        checkpoint_of(module, store, base, base_weights="another"),
        checkpoint_of(module, store, base, measured={"loss": 1.5}),
    ]
    assert len({first.hash, *(other.hash for other in others)}) == 6
    assert checkpoint_of(compressor(tiny_model("llama")), store, base).hash == first.hash


def test_another_model_is_refused_with_the_reason(store, base, tiny_model):
    saved = checkpoint_of(compressor(tiny_model("llama")), store, base)
    other = str(tiny_model("qwen2"))
    with pytest.raises(CompressorMismatch, match=r"made for another model \(weights .*`slotrag train icae`"):
        TrainedCompressor.load(saved, store, other)
    with pytest.raises(CompressorMismatch, match=r"\(tokenizer ab, here cd\)"):
        checkpoint_of(compressor(tiny_model("llama")), store, base, tokenizer="ab").require_for(
            base_weights=saved.base_weights, tokenizer="cd"
        )


def test_damage_is_seen(store, base, tiny_model):
    saved = checkpoint_of(compressor(tiny_model("llama")), store, base)
    with pytest.raises(CompressorMissing, match="not on this machine"):
        find_compressor(saved.hash, store)
    with pytest.raises(CompressorMissing, match="16 hex digits"):
        find_compressor("../secret", store)
    path = save_compressor(saved, store)
    weights = path.with_suffix(".safetensors")
    kept = weights.read_bytes()
    weights.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(CompressorDamaged, match="was changed"):
        find_compressor(saved.hash, store)
    weights.unlink()
    with pytest.raises(CompressorDamaged, match="lacks its weights"):
        find_compressor(saved.hash, store)
    weights.write_bytes(kept)
    path.write_bytes(path.read_bytes().replace(b'"rate":4.0', b'"rate":5.0'))
    with pytest.raises(CompressorDamaged, match="was changed"):
        find_compressor(saved.hash, store)
    short = CompressorCheckpoint(saved.config, {"table": saved.weights["table"]}, saved.base_weights, saved.tokenizer)
    with pytest.raises(CompressorDamaged, match="do not fit its configuration"):
        TrainedCompressor.load(short, store, base)
    endless = CompressorCheckpoint(saved.config, {"table": np.full((3, 32), 1e6, np.float32)}, "w", "t")
    with pytest.raises(ValueError, match="not finite in 16 bits"):
        save_compressor(endless, store)


def test_a_folder_that_cannot_be_written_says_so(store, base, tiny_model):
    store.folder.mkdir(parents=True)
    (store.folder / FOLDER).write_text("in the way")
    with pytest.raises(SlotragError, match="cannot be written"):
        save_compressor(checkpoint_of(compressor(tiny_model("llama")), store, base), store)


def test_the_better_of_those_that_ship_is_the_default(tmp_path, store, base, tiny_model):
    assert shipped_compressor("w", folder=tmp_path) is None
    kinds = {
        name: checkpoint_of(compressor(tiny_model("llama"), compressor=name), store, base, measured={"recovery": value})
        for name, value in (("pooled", 0.7), ("memory-tokens", 0.6))
    }
    for saved in kinds.values():
        write_compressor(saved, tmp_path)
    weights = store.weights_sha256(base)
    assert shipped_compressor(weights, folder=tmp_path) == kinds["pooled"].hash
    assert shipped_compressor(weights, "memory-tokens", folder=tmp_path) == kinds["memory-tokens"].hash
    assert shipped_compressor("other", folder=tmp_path) is None
    assert json.loads((tmp_path / f"{kinds['pooled'].hash}.json").read_text())["config"]["compressor"] == "pooled"
