"""Turns the `E5S1` file of packed 4-bit blocks (multilingual-e5-small) into a transformers folder.

It knows that one format and the names of BERT's parameters; where the file comes from is not its business.

The file, little-endian: magic, version, seven sizes (hidden, layers, heads, feed-forward, vocabulary, positions, token
types), the layer norm's epsilon, the block length; a vocabulary and a normalisation table (not used here: the model's
own tokenizer.json says the same); a directory of tensors (name, kind, values, offset, bytes). Kind 0 is float32, kind
1 blocks of 32 values: a float16 scale ``d`` and 16 bytes, byte j holding value j in its low and value j + 16 in its
high half, a value being ``d * (q - 8)``.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ModelDamaged
from .safetensors_file import TensorSource, write_float32

if TYPE_CHECKING:
    import numpy as np

BLOCK_VALUES = 32
BLOCK_BYTES = 18
_MAGIC = b"E5S1"
_BLOCKS_A_PIECE = 1 << 16

_LAYER_NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_EMBEDDING_NAMES = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes in the file's head."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    token_types: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class _Stored:
    packed: bool
    values: int
    offset: int


def dequantize(blocks: np.ndarray) -> np.ndarray:
    """Values of packed blocks.

    Parameters
    ----------
    blocks : uint8, shape (n, 18)

    Returns
    -------
    float32, shape (n, 32)
    """
    import numpy as np

    scales = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    packed = blocks[:, 2:]
    levels = np.concatenate([packed & 0x0F, packed >> 4], axis=1).astype(np.float32)
    levels -= 8.0
    levels *= scales
    return levels


def convert(packed: Path, tokenizer: Path, folder: Path, progress: Callable[[int, int], None] | None = None) -> str:
    """Write the model folder of `packed` with `tokenizer` (a tokenizer.json) into the existing `folder`.

    Returns
    -------
    str
        sha256 of ``model.safetensors``.

    Raises
    ------
    ModelDamaged
        The file is cut short or not of this format.
    """
    with packed.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            sizes, directory = _parse(data)
            sources = _sources(data, sizes, directory)
        except (struct.error, KeyError, UnicodeDecodeError, ValueError) as error:
            raise ModelDamaged(
                f"{packed.name} is not a model of packed 4-bit blocks ({error}); fetch it again."
            ) from error
        digest = write_float32(folder / "model.safetensors", sources, progress)
        del sources
    _write_json(folder / "config.json", _config(sizes))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(sizes))
    (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    _write_sentence_files(folder, sizes)
    return digest


def _parse(data: mmap.mmap) -> tuple[Sizes, dict[str, _Stored]]:
    if data[:4] != _MAGIC:
        raise ValueError("other magic bytes")
    *numbers, epsilon, block = struct.unpack_from("<7ifi", data, 8)
    if block != BLOCK_VALUES:
        raise ValueError(f"blocks of {block} values")
    # float32 keeps 1e-12 as 9.99999996e-13; six digits give back the number that was meant.
    sizes = Sizes(*numbers, epsilon=float(f"{epsilon:.6g}"))
    position = 8 + struct.calcsize("<7ifi")
    pieces, *_special = struct.unpack_from("<5i", data, position)
    (text_bytes,) = struct.unpack_from("<Q", data, position + 20)
    position += 28 + 4 * (pieces + 1) + 4 * pieces + text_bytes
    _count, table_bytes = struct.unpack_from("<iI", data, position)
    position += 8 + table_bytes
    return sizes, _directory(data, position)


def _directory(data: mmap.mmap, position: int) -> dict[str, _Stored]:
    (count,) = struct.unpack_from("<i", data, position)
    position += 4
    directory: dict[str, _Stored] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, position)
        name = data[position + 2 : position + 2 + length].decode("ascii")
        position += 2 + length
        kind, values, offset, size = struct.unpack_from("<BIQQ", data, position)
        position += struct.calcsize("<BIQQ")
        if kind not in (0, 1) or size != (values // BLOCK_VALUES * BLOCK_BYTES if kind else 4 * values):
            raise ValueError(f"tensor {name} has an unknown kind or size")
        if offset + size > len(data):
            raise ValueError(f"tensor {name} lies beyond the end of the file")
        directory[name] = _Stored(bool(kind), values, offset)
    return directory


def _sources(data: mmap.mmap, sizes: Sizes, directory: dict[str, _Stored]) -> dict[str, TensorSource]:
    sources: dict[str, TensorSource] = {}
    for stored_name, (name, shape) in _layout(sizes).items():
        stored = directory[stored_name]
        source = TensorSource(shape, _pieces_of(data, stored))
        if source.bytes != 4 * stored.values:
            raise ValueError(f"tensor {stored_name} holds {stored.values} values, not {shape}")
        sources[name] = source
    return sources


def _pieces_of(data: mmap.mmap, stored: _Stored) -> Callable[[], Iterable[np.ndarray]]:
    def pieces() -> Iterator[np.ndarray]:
        import numpy as np

        if not stored.packed:
            yield np.frombuffer(data, "<f4", stored.values, stored.offset).copy()
            return
        blocks = stored.values // BLOCK_VALUES
        for start in range(0, blocks, _BLOCKS_A_PIECE):
            count = min(_BLOCKS_A_PIECE, blocks - start)
            raw = np.frombuffer(data, np.uint8, count * BLOCK_BYTES, stored.offset + start * BLOCK_BYTES)
            values = dequantize(raw.reshape(count, BLOCK_BYTES))
            del raw  # a view of the map would keep it from being closed
            yield values

    return pieces


def _layout(sizes: Sizes) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Stored name -> (transformers name, shape)."""
    hidden, wide = sizes.hidden, sizes.feed_forward
    shapes: dict[str, tuple[int, ...]] = {
        "emb.word": (sizes.vocabulary, hidden),
        "emb.pos": (sizes.positions, hidden),
        "emb.type": (sizes.token_types, hidden),
        "emb.ln.w": (hidden,),
        "emb.ln.b": (hidden,),
    }
    layout = {stored: (name, shapes[stored]) for stored, name in _EMBEDDING_NAMES.items()}
    for layer in range(sizes.layers):
        for short, name in _LAYER_NAMES.items():
            outputs, inputs = (wide, hidden) if short == "fi" else (hidden, wide) if short == "fo" else (hidden, hidden)
            weight = (hidden,) if short.endswith("ln") else (outputs, inputs)
            prefix = f"encoder.layer.{layer}.{name}"
            layout[f"l{layer}.{short}.w"] = (f"{prefix}.weight", weight)
            layout[f"l{layer}.{short}.b"] = (f"{prefix}.bias", (outputs,))
    return layout


def _config(sizes: Sizes) -> dict[str, object]:
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "attention_probs_dropout_prob": 0.1,
        "dtype": "float32",
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": sizes.hidden,
        "initializer_range": 0.02,
        "intermediate_size": sizes.feed_forward,
        "layer_norm_eps": sizes.epsilon,
        "max_position_embeddings": sizes.positions,
        "num_attention_heads": sizes.heads,
        "num_hidden_layers": sizes.layers,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "type_vocab_size": sizes.token_types,
        "vocab_size": sizes.vocabulary,
    }


def _tokenizer_config(sizes: Sizes) -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "cls_token": "<s>",
        "eos_token": "</s>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "model_max_length": sizes.positions,
        "padding_side": "right",
    }


def _write_sentence_files(folder: Path, sizes: Sizes) -> None:
    """The files by which sentence-transformers knows that the model pools by the mean and normalises."""
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds)
    ]
    _write_json(folder / "modules.json", modules)
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": sizes.positions, "do_lower_case": False})
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": sizes.hidden, "pooling_mode_mean_tokens": True}
    _write_json(folder / "1_Pooling" / "config.json", pooling | {"pooling_mode_cls_token": False})


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
