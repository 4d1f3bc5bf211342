"""Reads a model folder into tensors and tokenizer, and makes module trees around them. It keeps and runs none."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import UsageError
from .errors import ModelDamaged, UnusableModel

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The tensors of one model; `module` is never run and never handed out."""

    module: Any
    tokenizer: Any
    causal: bool


def chosen_device(name: str) -> torch.device:
    """The device of that name; ``auto`` is a GPU where there is one."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"Unknown device {name!r}; choose auto, cpu, cuda or mps.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError("There is no CUDA device that torch can use; choose --device cpu.")
    return device


def read_model(folder: Path, device: torch.device, dtype: str) -> LoadedModel:
    """Read configuration, weights and tokenizer from the disk."""
    import torch
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer

    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with quiet():
        try:
            config = AutoConfig.from_pretrained(folder, **local)
            causal = _is_causal(config)
            if config.is_encoder_decoder:
                raise UnusableModel(f"The model in {folder} is an encoder-decoder model, which cannot be used here.")
            maker: Any = AutoModelForCausalLM if causal else AutoModel
            module, found = maker.from_pretrained(
                folder,
                config=config,
                dtype=getattr(torch, dtype),
                use_safetensors=True,
                output_loading_info=True,
                **_without_pooler(config, causal),
                **local,
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, **local)
        except SafetensorError as error:
            raise ModelDamaged(f"The weights in {folder} cannot be read ({error}); fetch the model again.") from error
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            if isinstance(error, UnusableModel):
                raise
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UnusableModel(f"The model in {folder} cannot be loaded: {reason}") from error
    missing = sorted(found["missing_keys"])
    if missing:
        raise ModelDamaged(f"The weights in {folder} lack {len(missing)} parameters (such as {missing[0]}).")
    _settle(tokenizer)
    return LoadedModel(module.to(device).eval().requires_grad_(False), tokenizer, causal)


def _is_causal(config: Any) -> bool:
    """Whether the checkpoint is a causal language model with its head."""
    names = config.architectures or []
    return any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in names) and not names[0].startswith("Bert")


def _without_pooler(config: Any, causal: bool) -> dict[str, bool]:
    """Leaves out BERT's pooler, which nobody here reads and some checkpoints do not have."""
    from transformers import AutoModel

    known: Any = AutoModel._model_mapping  # type: ignore[attr-defined]
    if causal or type(config) not in known:
        return {}
    model = known[type(config)]
    model = model[0] if isinstance(model, tuple) else model
    return {"add_pooling_layer": False} if "add_pooling_layer" in inspect.signature(model.__init__).parameters else {}


def _settle(tokenizer: Any) -> None:
    """Take out truncation and padding that a tokenizer file asks for, so that no call has to change them."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_truncation()
        backend.no_padding()


def module_tree(loaded: LoadedModel, *, causal: bool, attention: str) -> Any:
    """A copy of the modules around the same storage; the parameters are new objects, so their flags are its own."""
    import torch

    root = loaded.module if causal or not loaded.causal else loaded.module.base_model
    shared: dict[int, Any] = {
        id(parameter): torch.nn.Parameter(parameter.detach(), requires_grad=False)
        for parameter in loaded.module.parameters()
    }
    shared |= {id(buffer): buffer.detach() for buffer in loaded.module.buffers()}
    tree = copy.deepcopy(root, shared)
    if attention == "auto":
        attention = "sdpa" if getattr(tree, "_supports_sdpa", False) else "eager"
    if tree.config._attn_implementation != attention:
        try:
            tree.set_attn_implementation(attention)
        except (ValueError, ImportError) as error:
            raise UsageError(f"This model cannot use {attention!r} attention; choose sdpa or eager.") from error
    return tree


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' bars and notes off the user's terminal while it loads."""
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()
