"""The authors' checkpoints as compressors (getao/icae; arXiv 2307.06945): their LoRA and memory table, nothing else.

Two forms are read, without running anything that is in them: safetensors of table and adapters, and v1 ``.pt`` files
that hold the base weights too, as zeros. What they do not say (LoRA's alpha) the caller gives. What does not fit the
base model is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import UsageError
from ...encoders.backbones.digests import sha256_of
from .checkpoint import CompressorCheckpoint
from .configuration import SEGMENT_TOKENS, SPECIAL_ROWS, CompressorConfig

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ...encoders.backbones.store import ModelStore

ALPHA = 32.0
"""Of all their checkpoints, which do not hold it."""

_TABLE = re.compile(r"(?:^|\.)memory_token_embed\.weight$")
_ADAPTER = re.compile(r"(?:^|\.)(layers\.(\d+)\.self_attn\.(\w+)\.lora_[AB])(?:\.\w+)?\.weight$")


class ImportRefused(UsageError):
    """A file is no checkpoint of the authors' kind, or does not fit the base model."""


def import_icae(path: Path, models: ModelStore, base: str, *, alpha: float = ALPHA) -> CompressorCheckpoint:
    """The compressor in a checkpoint of the authors.

    Parameters
    ----------
    path : Path
        ``.safetensors``, or ``.pt``/``.bin`` (read as weights only).
    base : str
        The language model that it was trained on: a name or a folder.
    alpha : float
        LoRA's.

    Returns
    -------
    CompressorCheckpoint
        Their form: memory tokens of a fixed number behind each segment, positions counted through, their prompts.

    Raises
    ------
    ImportRefused
        The file cannot be read, holds no table or no adapters, or was made for another model than `base`.
    """
    path = Path(path).expanduser()
    folder = models.resolve(base)
    table, weights = _read(path)
    if table is None or not weights:
        lacking = "memory_token_embed.weight" if table is None else "LoRA tensors"
        raise ImportRefused(f"{path} is no ICAE checkpoint: it lacks {lacking}.")
    config = _config(path, folder, table, weights, alpha)
    own = {"table": table, **weights}
    _require_fit(path, folder, base, config, own)
    return CompressorCheckpoint(
        config=config,
        weights={name: _array(value) for name, value in own.items()},
        base_weights=models.weights_sha256(base),
        tokenizer=models.tokenizer_sha256(base),
        training={"imported": {"file": path.name, "sha256": sha256_of(path), "alpha": alpha}, "data": []},
    )


def _config(
    path: Path, folder: Path, table: torch.Tensor, weights: Mapping[str, torch.Tensor], alpha: float
) -> CompressorConfig:
    from transformers import AutoConfig

    sizes = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False).get_text_config()
    if table.dim() != 2 or table.shape[1] != sizes.hidden_size:
        raise ImportRefused(
            f"{path} was trained on a model of width {table.shape[-1]}; the one in {folder} has {sizes.hidden_size}."
        )
    slots = int(table.shape[0]) - len(SPECIAL_ROWS)
    if slots < 1:
        raise ImportRefused(f"{path} has a memory table of {table.shape[0]} rows, too few for slots and prompts.")
    ranks = {int(value.shape[0]) for name, value in weights.items() if name.endswith("lora_A")}
    if len(ranks) != 1:
        raise ImportRefused(f"{path} has LoRA of the ranks {sorted(ranks)}; a compressor has one rank.")
    return CompressorConfig(
        width=int(sizes.hidden_size),
        layers=int(sizes.num_hidden_layers),
        read_out=int(sizes.num_hidden_layers),
        compressor="memory-tokens",
        layout="appended",
        start="authors",
        rank=ranks.pop(),
        alpha=alpha,
        targets=tuple(sorted({name.split(".")[-2] for name in weights})),
        rate=max(1.0, SEGMENT_TOKENS / slots),
        slots_per_segment=slots,
        segment_tokens=SEGMENT_TOKENS,
        positions="sequential",
        memory_rows=slots,
        prompt="authors",
    )


def _require_fit(
    path: Path, folder: Path, base: str, config: CompressorConfig, weights: Mapping[str, torch.Tensor]
) -> None:
    """Compare names and shapes with those of the base model's adapters, which takes none of its weights."""
    expected = {**_adapter_shapes(folder, config), "table": (config.memory_rows + len(SPECIAL_ROWS), config.width)}
    for name in sorted(expected.keys() | weights.keys()):
        found = tuple(weights[name].shape) if name in weights else None
        if found != expected.get(name):
            raise ImportRefused(
                f"{path} does not fit {base}: {name} is {found or 'missing'}, where the model has "
                f"{expected.get(name, 'none')}; name the model it was trained on by --base."
            )


def _adapter_shapes(folder: Path, config: CompressorConfig) -> dict[str, tuple[int, ...]]:
    import torch
    from transformers import AutoConfig, AutoModel

    from .weights_sharing import adapt, adapters

    found = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    with torch.device("meta"):
        tree = AutoModel.from_config(found)
        adapt(tree, config)
    return {name: tuple(parameter.shape) for name, parameter in adapters(tree).items()}


def _read(path: Path) -> tuple[torch.Tensor | None, dict[str, torch.Tensor]]:
    """The memory table and the adapters by our names; the other tensors of the file are left on the disk."""
    table: Any = None
    weights: dict[str, torch.Tensor] = {}
    with _opened(path) as tensors:
        for name, read in tensors:
            adapter = _ADAPTER.search(name)
            if _TABLE.search(name):
                table = read()
            elif adapter and adapter.group(1) in weights:
                raise ImportRefused(f"{path} holds {adapter.group(1)} twice: keep the adapter of the compressor only.")
            elif adapter:
                weights[adapter.group(1)] = read()
    return table, weights


@contextmanager
def _opened(path: Path) -> Iterator[list[tuple[str, Any]]]:
    """The names of a file's tensors, each with what reads it."""
    # Nothing is unpickled here: this is how `torch.load` refuses what is more than weights.
    from pickle import UnpicklingError

    from safetensors import SafetensorError, safe_open

    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as file:
                yield [(name, lambda name=name: file.get_tensor(name)) for name in file.keys()]  # noqa: SIM118
        else:
            yield [(name, lambda value=value: value) for name, value in _mapped(path).items()]
    except OSError as error:
        raise ImportRefused(f"{path} cannot be read ({error.strerror or error}).") from error
    except (UnpicklingError, SafetensorError, RuntimeError, EOFError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ImportRefused(f"{path} holds no weights that can be read safely ({reason}).") from error


def _mapped(path: Path) -> dict[str, Any]:
    """The tensors of a file that `torch.save` wrote, mapped where its form allows it."""
    import torch

    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:  # the form before version 1.6 cannot be mapped
        state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, Mapping):
        raise ImportRefused(f"{path} holds a {type(state).__name__}, not a state dict.")
    return {str(name): value for name, value in state.items() if isinstance(value, torch.Tensor)}


def _array(value: torch.Tensor) -> np.ndarray:
    return value.detach().float().cpu().numpy().copy()
