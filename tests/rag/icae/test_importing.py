"""The authors' checkpoints, on files of their form over tiny models: what is imported computes what their code does."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
from compressors import assert_same, merged_model
from safetensors.torch import save_file
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.backbones.store import ModelStore
from slotrag.rag.decoder import Decoder
from slotrag.rag.icae.checkpoint import find_compressor, save_compressor
from slotrag.rag.icae.compressor import TrainedCompressor
from slotrag.rag.icae.importing import ImportRefused, import_icae
from slotrag.rag.icae.reading import reading_form, reading_inputs

SLOTS, RANK, WIDTH = 128, 8, tiny_models.WIDTH


@pytest.fixture(scope="module")
def bases(tmp_path_factory) -> dict[str, str]:
    """Tiny models whose windows hold the authors' segments."""
    root = tmp_path_factory.mktemp("bases")
    windows = {"mistral": {"sliding_window": 4096}, "llama": {}}
    return {
        kind: str(tiny_models.write(kind, root / kind, max_position_embeddings=2048, **windows[kind]))
        for kind in windows
    }


@pytest.fixture
def store(tmp_path) -> ModelStore:
    return ModelStore(tmp_path / "models", offline=True)


def authors_tensors(layers: int = tiny_models.LAYERS, width: int = WIDTH, rows: int = SLOTS + 3):
    """Table and adapters under the names of the released files, with their 16 bits."""
    generator = torch.Generator().manual_seed(3)

    def drawn(*shape):
        return (torch.randn(shape, generator=generator) * 0.1).bfloat16()

    tensors = {"memory_token_embed.weight": drawn(rows, width)}
    for layer in range(layers):
        for projection, size in (("q", WIDTH), ("v", WIDTH // 2)):
            name = f"icae.base_model.model.model.layers.{layer}.self_attn.{projection}_proj"
            tensors[f"{name}.lora_A.default.weight"] = drawn(RANK, WIDTH)
            tensors[f"{name}.lora_B.default.weight"] = drawn(size, RANK)
    return tensors


def v1_tensors():
    """What a v1 file holds: the same, and the base weights as zeros."""
    base = "icae.base_model.model.model"
    zeros = {
        f"{base}.layers.0.self_attn.q_proj.weight": torch.zeros(WIDTH, WIDTH),
        f"{base}.norm.weight": torch.zeros(1),
    }
    return {**authors_tensors(), **zeros}


def safetensors_file(folder: Path, tensors) -> Path:
    path = folder / "ft_icae.safetensors"
    save_file(tensors, path)
    return path


def pt_file(folder: Path, content, name: str = "icae.pt", **options) -> Path:
    path = folder / name
    torch.save(content, path, **options)
    return path


def authors_pass(model, table, ids):
    """The authors' encoder: equal slices of at most 512 tokens and 128 memory tokens behind each, nothing else."""
    number = math.ceil(len(ids) / 512)
    length = math.ceil(len(ids) / number)
    memory = torch.from_numpy(table[:SLOTS])
    states = []
    for at in range(number):
        embedded = model.get_input_embeddings()(torch.tensor(ids[at * length : (at + 1) * length]))
        with torch.no_grad():
            out = model.model(inputs_embeds=torch.cat([embedded, memory])[None], output_hidden_states=True)
        states.append(out.hidden_states[-1][0, -SLOTS:])
    return torch.cat(states)


@pytest.mark.parametrize("kind", ["mistral", "llama"])
@pytest.mark.parametrize("tokens", [1, 45, 600])
def test_the_authors_layout_is_passed_unmodified(store, bases, tmp_path, kind, tokens):
    base = bases[kind]
    path = safetensors_file(tmp_path, authors_tensors()) if kind == "mistral" else pt_file(tmp_path, v1_tensors())
    checkpoint = import_icae(path, store, base)
    config = checkpoint.config
    assert (config.compressor, config.layout, config.start, config.prompt) == (
        "memory-tokens",
        "appended",
        "authors",
        "authors",
    )
    assert (config.rank, config.alpha, config.read_out, config.memory_rows) == (RANK, 32.0, config.layers, SLOTS)
    assert config.slots_per_segment == SLOTS and config.targets == ("q_proj", "v_proj")
    save_compressor(checkpoint, store)
    compressor = TrainedCompressor.load(find_compressor(checkpoint.hash, store), store, base)
    ids = [3 + (7 * at) % 400 for at in range(tokens)]
    (slots,) = compressor.compress_ids([ids])
    # Files keep 16 bits; those of the authors' bfloat16 that are tiny lose a few.
    model = merged_model(Path(base), compressor.module)
    wanted = authors_pass(model, compressor.module.weights()["table"], ids)
    assert len(slots) == slots.span == SLOTS * math.ceil(tokens / 512)
    assert_same(slots.rows, wanted)
    for name, value in checkpoint.weights.items():
        np.testing.assert_allclose(compressor.module.weights()[name], value, atol=1e-7)


@pytest.mark.parametrize("kind", ["mistral", "llama"])
def test_the_authors_prompts_are_read_as_theirs(store, bases, tmp_path, kind):
    """``BOS [INST] slots [FT] question [/INST]`` and ``slots [AE]``, without mask and positions in the reference."""
    base = bases[kind]
    compressor = TrainedCompressor.load(
        import_icae(safetensors_file(tmp_path, authors_tensors()), store, base), store, base
    )
    model = FrozenLM.load(base, causal=True)
    decoder = Decoder(model, "tiny")
    form = reading_form(
        compressor.config.prompt, decoder.template, model.tokenizer.eos_token_id, compressor.module.special_row
    )
    (slots,) = compressor.compress([tiny_models.CORPUS[1]])
    table = torch.from_numpy(compressor.module.weights()["table"])
    embed = decoder.module.get_input_embeddings()

    def embedded(text, special=False):
        return embed(torch.tensor(model.tokenizer(text, add_special_tokens=special)["input_ids"]))

    rows = torch.from_numpy(slots.rows)
    asked = [embedded("[INST]", special=True), rows, table[130:131], embedded("Who wrote it?"), embedded("[/INST]")]
    cases = [(form.instruction([slots], "Who wrote it?"), asked), (form.autoencoding(slots), [rows, table[128:129]])]
    for parts, reference in cases:
        inputs = reading_inputs(embed, [parts], positions=compressor.config.positions)
        with torch.no_grad():
            found = decoder.module(**inputs._asdict(), use_cache=False).logits
            wanted = decoder.module(inputs_embeds=torch.cat(reference)[None], use_cache=False).logits
        assert_same(found, wanted)


def test_both_forms_of_file_are_one_compressor(store, bases, tmp_path):
    files = [
        safetensors_file(tmp_path, authors_tensors()),
        pt_file(tmp_path, v1_tensors()),
    ]
    first, second = (import_icae(path, store, bases["mistral"]) for path in files)
    assert first.config == second.config and first.weights_sha256 == second.weights_sha256
    assert (
        first.training["imported"]["file"] == "ft_icae.safetensors" and len(first.training["imported"]["sha256"]) == 64
    )
    old = pt_file(tmp_path, v1_tensors(), "old.pt", _use_new_zipfile_serialization=False)
    assert import_icae(old, store, bases["mistral"]).weights_sha256 == first.weights_sha256
    assert import_icae(old, store, bases["mistral"], alpha=16).config.alpha == 16


def without(tensors, part):
    return {name: value for name, value in tensors.items() if part not in name}


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (authors_tensors(width=WIDTH * 2), "width 64; the one in .* has 32"),
        (authors_tensors(layers=2), "layers.2.self_attn.q_proj.lora_A is missing"),
        (authors_tensors(layers=4), "where the model has none"),
        (authors_tensors(rows=3), "memory table of 3 rows"),
        (without(authors_tensors(), "memory_token"), "lacks memory_token_embed"),
        (without(authors_tensors(), "lora_"), "lacks LoRA tensors"),
        (without(authors_tensors(), "1.self_attn.v_proj.lora_B"), "v_proj.lora_B is missing"),
    ],
)
def test_what_does_not_fit_is_refused(store, bases, tmp_path, tensors, message):
    with pytest.raises(ImportRefused, match=message):
        import_icae(safetensors_file(tmp_path, tensors), store, bases["mistral"])


class Harmful:
    def __reduce__(self):
        return Path.touch, (Path("harm-done"),)


def test_files_that_are_more_than_weights_are_refused(store, bases, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00not a header at all")
    for path, message in (
        (tmp_path / "none.safetensors", "cannot be read|No such file"),
        (tmp_path / "none.pt", "cannot be read"),
        (broken, "read safely"),
        (pt_file(tmp_path, {"x": Harmful()}, "harmful.pt"), "read safely"),
        (pt_file(tmp_path, [1, 2]), "not a state dict"),
    ):
        with pytest.raises(ImportRefused, match=message):
            import_icae(path, store, bases["mistral"])
    assert not (tmp_path / "harm-done").exists()
