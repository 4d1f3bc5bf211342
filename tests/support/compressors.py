"""Compressors over tiny models with weights that are not zero, and what they compute, written out by hand."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.rag.icae.configuration import CompressorConfig
from slotrag.rag.icae.model import CompressorModule

SEGMENT = 48


def compressor(folder: Path, seed: int = 1, **options: Any) -> CompressorModule:
    """A module over the model in `folder`, every trained value drawn so that it matters."""
    language_model = FrozenLM.load(folder, causal=True, device="cpu")
    config = CompressorConfig.for_model(language_model, **{"segment_tokens": SEGMENT, "rank": 4, **options})
    module = CompressorModule(language_model, config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.trainable().values():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return module


def merged_model(folder: Path, module: CompressorModule) -> Any:
    """The same language model loaded by transformers alone, the adapters added into its weights."""
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
    trained = module.trainable()
    with torch.no_grad():
        for name in [name for name in trained if name.endswith(".lora_A")]:
            projection = model.model.get_submodule(name.removesuffix(".lora_A"))
            first, second = trained[name], trained[name.removesuffix("A") + "B"]
            projection.weight += second @ first * (module.config.alpha / module.config.rank)
    return model


def read_out(model: Any, layers: int, rows: torch.Tensor, positions: list[int]) -> torch.Tensor:
    """States after `layers` layers and the final norm, of one sequence of embeddings: shape (rows, width)."""
    with torch.no_grad():
        out = model.model(
            inputs_embeds=rows[None],
            attention_mask=torch.ones(1, len(rows), dtype=torch.long),
            position_ids=torch.tensor([positions]),
            output_hidden_states=True,
            use_cache=False,
        )
        if layers == model.config.num_hidden_layers:
            return out.last_hidden_state[0]
        return model.model.norm(out.hidden_states[layers])[0]


def by_hand(folder: Path, module: CompressorModule, ids: list[int], slots: int) -> tuple[torch.Tensor, list[int]]:
    """Slots of one causal segment, shape (slots, width), and their positions: the paper's description, in loops."""
    config, model = module.config, merged_model(folder, module)
    embeddings = model.get_input_embeddings()(torch.tensor(ids)).detach()
    cuts = [math.floor(place * len(ids) / slots) for place in range(slots + 1)]
    parts = [range(first, last) for first, last in pairwise(cuts)]
    centred = config.layout == "centred"
    places = [part[(len(part) - 1) // 2] for part in parts] if centred else list(range(slots))
    texts = list(range(len(ids)))
    if config.compressor == "pooled":
        states = read_out(model, config.read_out, embeddings, texts)
        found = torch.stack([states[list(part)].mean(dim=0) for part in parts])
    else:
        rows = torch.cat([embeddings, module.table[:slots].detach()])
        behind = places if centred else [len(ids) + place for place in places]
        found = read_out(model, config.read_out, rows, texts + behind)[len(ids) :]
    if module.projection is not None:
        means = torch.stack([embeddings[list(part)].mean(dim=0) for part in parts])
        found = means + found @ module.projection.weight.detach().T
    return found, places


def assert_same(found, wanted) -> None:
    """Whether two computations of one thing agree: to 2e-5 of the largest value, which is what float32 sums keep."""
    found, wanted = torch.as_tensor(found), torch.as_tensor(wanted)
    largest = float(wanted.abs().max()) if wanted.numel() else 0.0
    torch.testing.assert_close(found, wanted, atol=2e-5 * max(1.0, largest), rtol=1e-5)
