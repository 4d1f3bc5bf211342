"""GGUF to a llama folder, from an artificial file; transformers' own reader is the reference."""

from __future__ import annotations

import numpy as np
import pytest
from model_files import byte_tokens, write_gguf
from safetensors.numpy import load_file
from slotrag.encoders.backbones import gguf_file
from slotrag.encoders.backbones.digests import sha256_of
from slotrag.encoders.backbones.errors import ModelDamaged, UnusableModel


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    root = tmp_path_factory.mktemp("gguf")
    held = write_gguf(root / "tiny.gguf")
    (root / "model").mkdir()
    digest = gguf_file.convert(root / "tiny.gguf", root / "model")
    return root, held, digest


def test_weights_equal_transformers_own_conversion(converted):
    from transformers import AutoModelForCausalLM, GgufConfig

    root, _, digest = converted
    read = load_file(root / "model" / "model.safetensors")
    assert digest == sha256_of(root / "model" / "model.safetensors")
    reference = AutoModelForCausalLM.from_pretrained(
        root, gguf_file="tiny.gguf", quantization_config=GgufConfig(dequantize=True)
    ).state_dict()
    reference.pop("lm_head.weight")  # tied to the embeddings
    assert read.keys() == reference.keys()
    for name, values in read.items():
        np.testing.assert_array_equal(values, reference[name].numpy(), err_msg=name)


def test_plain_tensors_are_the_files_own(converted):
    root, held, _ = converted
    read = load_file(root / "model" / "model.safetensors")
    np.testing.assert_array_equal(read["model.embed_tokens.weight"], held["token_embd.weight"])
    np.testing.assert_array_equal(read["model.layers.1.mlp.down_proj.weight"], held["blk.1.ffn_down.weight"])


def test_query_and_key_rows_are_reordered_within_heads(converted):
    root, held, _ = converted
    read = load_file(root / "model" / "model.safetensors")
    stored = held["blk.0.attn_k.weight"]  # 2 heads of 16 rows: even rows first, then odd ones
    order = [*range(0, 16, 2), *range(1, 16, 2)]
    np.testing.assert_array_equal(read["model.layers.0.self_attn.k_proj.weight"][:16], stored[order])


def test_transformers_loads_every_parameter(converted):
    from transformers import AutoModelForCausalLM

    root, *_ = converted
    model, found = AutoModelForCausalLM.from_pretrained(root / "model", output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"]
    assert model.config.rope_parameters["rope_theta"] == 100000.0
    assert model.generation_config.eos_token_id == 2
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_tokenizer_template_and_end_token_survive(converted):
    from transformers import AutoTokenizer

    root, *_ = converted
    tokenizer = AutoTokenizer.from_pretrained(root / "model")
    text = "hello 12 wörld\n\n3"
    ids = tokenizer(text).input_ids
    assert tokenizer.decode(ids) == text
    tokens = byte_tokens()
    assert "12" not in [tokens[i] for i in ids], "digits stand apart although a merge joins them"
    assert {"he", "ll", "Ġw"} <= {tokens[i] for i in ids}
    assert tokenizer.eos_token == "<|im_end|>" and tokenizer.pad_token == "<|im_end|>"
    said = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert said == "<|im_start|>user\nhi<|im_end|>\n"
    assert tokenizer(said).input_ids[0] == 1


def test_other_architectures_and_tokenizers_are_refused_by_name(tmp_path):
    (tmp_path / "model").mkdir()
    write_gguf(tmp_path / "b.gguf", pre="llama-bpe")
    with pytest.raises(UnusableModel, match="llama-bpe"):
        gguf_file.convert(tmp_path / "b.gguf", tmp_path / "model")
    write_gguf(tmp_path / "a.gguf", architecture="qwen2")
    with pytest.raises(UnusableModel, match="qwen2"):
        gguf_file.convert(tmp_path / "a.gguf", tmp_path / "model")
    assert not list((tmp_path / "model").iterdir())


@pytest.mark.parametrize("keep", [0, 2, 100, 3000, -50])
def test_a_cut_file_is_refused(tmp_path, keep):
    write_gguf(tmp_path / "t.gguf")
    data = (tmp_path / "t.gguf").read_bytes()
    (tmp_path / "t.gguf").write_bytes(data[:keep])
    (tmp_path / "model").mkdir()
    with pytest.raises(ModelDamaged, match=r"t\.gguf"):
        gguf_file.convert(tmp_path / "t.gguf", tmp_path / "model")


def test_conversion_is_repeatable(converted, tmp_path):
    root, _, digest = converted
    assert gguf_file.convert(root / "tiny.gguf", tmp_path) == digest
    for name in ("tokenizer.json", "config.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (tmp_path / name).read_bytes() == (root / "model" / name).read_bytes()
