"""Turns a GGUF file of a Llama-like causal language model into a transformers folder of float32 safetensors.

It reads metadata and blocks with the `gguf` package and writes every file itself, so that the result depends on the
GGUF file alone and not on the installed transformers. It knows the architecture `llama` with a byte-level BPE
tokenizer, which is what the catalogue needs; other files are refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ModelDamaged, UnusableModel
from .safetensors_file import TensorSource, write_float32

if TYPE_CHECKING:
    import numpy as np
    from gguf import GGUFReader, ReaderTensor

_ROWS_A_PIECE = 4096
_CONTROL_TOKEN = 3
_USER_TOKEN = 4
# How text is cut before the merges, by the name that GGUF gives it. Both cut at GPT-2's boundaries; `smollm` first
# makes every digit a piece of its own.
_DIGITS_APART = {"gpt-2": False, "default": False, "smollm": True}

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OTHER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def convert(file: Path, folder: Path, progress: Callable[[int, int], None] | None = None) -> str:
    """Write the model folder of the GGUF `file` into the existing `folder`.

    Returns
    -------
    str
        sha256 of ``model.safetensors``.

    Raises
    ------
    ModelDamaged
        The file is cut short or not GGUF.
    UnusableModel
        Another architecture or tokenizer than the ones known here.
    """
    from gguf import GGUFReader

    try:
        reader = GGUFReader(file)
    except (ValueError, OSError, IndexError, KeyError) as error:
        raise ModelDamaged(f"{file.name} is not a whole GGUF file ({error}); fetch it again.") from error
    metadata = {name: field.contents() for name, field in reader.fields.items()}
    _require_known(metadata, file.name)
    sources = _sources(reader, metadata)
    tokenizer = _tokenizer(metadata)
    _write_json(folder / "config.json", _config(metadata, tied="lm_head.weight" not in sources))
    _write_json(folder / "generation_config.json", _generation_config(metadata))
    _write_json(folder / "tokenizer.json", tokenizer)
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(metadata))
    template = metadata.get("tokenizer.chat_template")
    if template:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8", newline="")
    return write_float32(folder / "model.safetensors", sources, progress)


def _require_known(metadata: dict[str, Any], name: str) -> None:
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise UnusableModel(f"{name} is of architecture {architecture!r}; only llama GGUF files can be converted.")
    kind, cut = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or cut not in _DIGITS_APART:
        raise UnusableModel(f"{name} has a tokenizer of kind {kind}/{cut}; convert it elsewhere and use the folder.")


def _sources(reader: GGUFReader, metadata: dict[str, Any]) -> dict[str, TensorSource]:
    heads = int(metadata["llama.attention.head_count"])
    groups = int(metadata.get("llama.attention.head_count_kv", heads))
    sources: dict[str, TensorSource] = {}
    for tensor in reader.tensors:
        name = _transformers_name(tensor.name)
        if name is None:
            continue
        shape = tuple(int(n) for n in reversed(tensor.shape))
        if name.endswith("q_proj.weight"):
            pieces = _unrotated(tensor, shape, heads)
        elif name.endswith("k_proj.weight"):
            pieces = _unrotated(tensor, shape, groups)
        else:
            pieces = _rows(tensor)
        sources[name] = TensorSource(shape, pieces)
    return sources


def _transformers_name(name: str) -> str | None:
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    if name.startswith("blk."):
        _, layer, part, kind = name.split(".")
        return f"model.layers.{layer}.{_LAYER_NAMES[part]}.{kind}"
    if name == "rope_freqs.weight":
        return None
    raise UnusableModel(f"The GGUF file holds a tensor {name!r} that no llama model has; it cannot be converted.")


def _rows(tensor: ReaderTensor) -> Callable[[], Iterable[np.ndarray]]:
    def pieces() -> Iterator[np.ndarray]:
        from gguf.quants import dequantize

        for start in range(0, len(tensor.data), _ROWS_A_PIECE):
            yield dequantize(tensor.data[start : start + _ROWS_A_PIECE], tensor.tensor_type)

    return pieces


def _unrotated(tensor: ReaderTensor, shape: tuple[int, ...], heads: int) -> Callable[[], Iterable[np.ndarray]]:
    """The rows of a query or key projection in transformers' order.

    GGUF keeps the two values that rotary positions turn together side by side, transformers keeps them half a head
    apart.
    """

    def pieces() -> Iterator[np.ndarray]:
        from gguf.quants import dequantize

        rows, columns = shape
        pairs = rows // heads // 2
        values = dequantize(tensor.data, tensor.tensor_type)
        yield values.reshape(heads, pairs, 2, columns).swapaxes(1, 2).reshape(rows, columns)

    return pieces


def _config(metadata: dict[str, Any], *, tied: bool) -> dict[str, object]:
    hidden, heads = int(metadata["llama.embedding_length"]), int(metadata["llama.attention.head_count"])
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id"),
        "dtype": "float32",
        "eos_token_id": metadata.get("tokenizer.ggml.eos_token_id"),
        "head_dim": int(metadata.get("llama.attention.key_length", hidden // heads)),
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": int(metadata["llama.feed_forward_length"]),
        "max_position_embeddings": int(metadata["llama.context_length"]),
        "mlp_bias": False,
        "num_attention_heads": heads,
        "num_hidden_layers": int(metadata["llama.block_count"]),
        "num_key_value_heads": int(metadata.get("llama.attention.head_count_kv", heads)),
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id"),
        "pretraining_tp": 1,
        # float32 keeps 1e-5 as 9.99999975e-06; six digits give back the number that was meant.
        "rms_norm_eps": float(f"{float(metadata['llama.attention.layer_norm_rms_epsilon']):.6g}"),
        "rope_parameters": {
            "rope_theta": float(metadata.get("llama.rope.freq_base", 10000.0)),
            "rope_type": "default",
        },
        "tie_word_embeddings": tied,
        "use_cache": True,
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
    }


def _generation_config(metadata: dict[str, Any]) -> dict[str, object]:
    names = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    ids = {name: metadata.get(f"tokenizer.ggml.{short}_token_id") for name, short in names.items()}
    return {name: number for name, number in ids.items() if number is not None}


def _tokenizer(metadata: dict[str, Any]) -> dict[str, object]:
    tokens = metadata["tokenizer.ggml.tokens"]
    kinds = metadata["tokenizer.ggml.token_type"]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": number, "content": token, **plain, "special": kind == _CONTROL_TOKEN}
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (_CONTROL_TOKEN, _USER_TOKEN)
    ]
    bytes_apart = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    cut: dict[str, object] = bytes_apart
    if _DIGITS_APART[metadata.get("tokenizer.ggml.pre", "default")]:
        cut = {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, bytes_apart],
        }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": cut,
        "post_processor": _post_processor(metadata),
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in metadata["tokenizer.ggml.merges"]],
        },
    }


def _post_processor(metadata: dict[str, Any]) -> dict[str, object] | None:
    """Where the model wants its beginning token before every text."""
    number = metadata.get("tokenizer.ggml.bos_token_id")
    if number is None or not metadata.get("tokenizer.ggml.add_bos_token", False):
        return None
    token = metadata["tokenizer.ggml.tokens"][number]
    begin = {"SpecialToken": {"id": token, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [begin, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }


def _tokenizer_config(metadata: dict[str, Any]) -> dict[str, object]:
    tokens = metadata["tokenizer.ggml.tokens"]
    config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": int(metadata["llama.context_length"]),
    }
    for name, short in {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}.items():
        number = metadata.get(f"tokenizer.ggml.{short}_token_id")
        if number is not None:
            config[f"{name}_token"] = tokens[number]
    return config


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
