"""Packed 4-bit blocks to a BERT folder, from an artificial file whose values are known."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from model_files import pack_blocks, write_q4_blocks
from safetensors.numpy import load_file
from slotrag.encoders.backbones import q4_blocks
from slotrag.encoders.backbones.digests import sha256_of
from slotrag.encoders.backbones.errors import ModelDamaged


@pytest.fixture
def tokenizer(tmp_path, tiny_model):
    return tiny_model("bert") / "tokenizer.json"


@pytest.fixture
def converted(tmp_path, tokenizer):
    held = write_q4_blocks(tmp_path / "m.q4")
    folder = tmp_path / "model"
    folder.mkdir()
    digest = q4_blocks.convert(tmp_path / "m.q4", tokenizer, folder)
    return folder, held, digest


@given(hnp.arrays(np.float32, (3, 32), elements=st.floats(-4, 4, width=32)))
def test_dequantize_undoes_packing(values):
    values[:, 0] = 3.5
    data, held = pack_blocks(values)
    blocks = np.frombuffer(data, np.uint8).reshape(-1, q4_blocks.BLOCK_BYTES)
    np.testing.assert_array_equal(q4_blocks.dequantize(blocks), held)


def test_all_tensors_arrive_under_their_names(converted):
    folder, held, digest = converted
    read = load_file(folder / "model.safetensors")
    assert digest == sha256_of(folder / "model.safetensors")
    assert read.keys() == held.keys()
    for name, values in held.items():
        np.testing.assert_array_equal(read[name], values)


def test_transformers_loads_every_parameter(converted):
    from transformers import AutoConfig, AutoModel

    folder, *_ = converted
    model, found = AutoModel.from_pretrained(folder, output_loading_info=True, add_pooling_layer=False)
    assert type(model).__name__ == "BertModel"
    assert not found["missing_keys"] and not found["unexpected_keys"]
    config = AutoConfig.from_pretrained(folder)
    assert (config.max_position_embeddings, config.pad_token_id, config.layer_norm_eps) == (48, 1, 1e-12)


def test_sentence_transformers_files_say_mean_pooling(converted):
    folder, *_ = converted
    modules = json.loads((folder / "modules.json").read_text())
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
    assert [module["path"] for module in modules] == ["", "1_Pooling", "2_Normalize"]
    assert pooling["pooling_mode_mean_tokens"] and not pooling["pooling_mode_cls_token"]


@pytest.mark.parametrize("keep", [3, 40, 300, -1])
def test_a_cut_file_is_refused(tmp_path, tokenizer, keep):
    write_q4_blocks(tmp_path / "m.q4")
    data = (tmp_path / "m.q4").read_bytes()
    (tmp_path / "m.q4").write_bytes(data[:keep])
    (tmp_path / "model").mkdir()
    with pytest.raises(ModelDamaged, match=r"m\.q4"):
        q4_blocks.convert(tmp_path / "m.q4", tokenizer, tmp_path / "model")
    assert not (tmp_path / "model" / "config.json").exists()


def test_another_format_is_refused(tmp_path, tokenizer):
    shutil.copy(tokenizer, tmp_path / "m.q4")
    (tmp_path / "model").mkdir()
    with pytest.raises(ModelDamaged, match="magic"):
        q4_blocks.convert(tmp_path / "m.q4", tokenizer, tmp_path / "model")
