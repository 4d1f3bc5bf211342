"""The encoder's module tree: over the very tensors of the frozen language model, with LoRA in this tree alone.

The decoder has a tree of its own over the same tensors, without adapters, and nothing here is ever switched on it: not
a hook, not `disable_adapter`, both of which would reach another thread's answer. It knows no slots.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ... import UsageError
from ...encoders.backbones.layers import decoder_layers

if TYPE_CHECKING:
    import torch

    from ...encoders.backbones.frozen import FrozenLM
    from .configuration import CompressorConfig

ATTENTIONS = ("sdpa", "eager")
"""What can attend across rows whose positions have gaps or repeat; flash attention cuts them there into sequences."""

_ADAPTER = "default"


def encoder_tree(language_model: FrozenLM, config: CompressorConfig, generator: torch.Generator) -> Any:
    """A tree that ends after the read-out layer with the final norm, and has LoRA on `config.targets`.

    Parameters
    ----------
    generator : torch.Generator
        Draws the adapters' first factors; the second ones are zero, so that the tree begins as the frozen model.

    Returns
    -------
    transformers.PreTrainedModel
        Without head; only the adapters' parameters, float32, have gradients.

    Raises
    ------
    slotrag.UsageError
        Another size than the configuration's, an attention that cuts rows, or projections that are not there.
    """
    if not language_model.decoder:
        raise UsageError(f"The model in {language_model.folder} is no causal language model; a compressor needs one.")
    tree: Any = language_model.tree_to(language_model.layers)
    require_attention(tree)
    adapt(tree, config, generator)
    return tree


def adapt(tree: Any, config: CompressorConfig, generator: torch.Generator | None = None) -> None:
    """Take the layers above the read-out out of `tree`, which is the caller's own, and put LoRA into it.

    Raises
    ------
    slotrag.UsageError
        Another size than the configuration's, or projections that are not there.
    """
    sizes = tree.config.get_text_config()
    if (sizes.hidden_size, sizes.num_hidden_layers) != (config.width, config.layers):
        raise UsageError(
            f"The compressor is made for a model of width {config.width} with {config.layers} layers; this one has "
            f"width {sizes.hidden_size} and {sizes.num_hidden_layers} layers."
        )
    del decoder_layers(tree)[config.read_out :]
    _require_targets(tree, config)
    _inject(tree, config, generator)


def require_attention(tree: Any) -> None:
    """Refuse an attention that cuts rows at positions with gaps. Raises `slotrag.UsageError`."""
    found = tree.config._attn_implementation
    if found not in ATTENTIONS:
        raise UsageError(f"Memory slots cannot be used with {found!r} attention; load the model with sdpa or eager.")


def adapters(tree: Any) -> dict[str, torch.nn.Parameter]:
    """The adapters' parameters, by the name of the projection and ``lora_A`` or ``lora_B``."""
    ending = f".{_ADAPTER}.weight"
    return {
        name.removesuffix(ending): parameter
        for name, parameter in tree.named_parameters()
        if name.endswith(ending) and ".lora_" in name
    }


def _require_targets(tree: Any, config: CompressorConfig) -> None:
    names = {name.rsplit(".", 1)[-1] for name, _ in tree.named_modules()}
    if missing := [target for target in config.targets if target not in names]:
        raise UsageError(
            f"A {tree.config.model_type} model has no projection {missing[0]}; a compressor needs a model of the kind "
            "of Llama, Mistral or Qwen, or other targets."
        )


def _inject(tree: Any, config: CompressorConfig, generator: torch.Generator | None) -> None:
    import torch
    from peft import LoraConfig, inject_adapter_in_model

    lora = LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,  # pyright: ignore[reportArgumentType] (a fraction serves as well)
        target_modules=list(config.targets),
        lora_dropout=0.0,
        bias="none",
    )
    inject_adapter_in_model(lora, tree, adapter_name=_ADAPTER)
    for name, parameter in adapters(tree).items():
        # Small steps of training would be lost in the weights' own 16 bits.
        parameter.data = parameter.data.float()
        if name.endswith("lora_A"):
            drawn = torch.empty(parameter.shape)
            torch.nn.init.kaiming_uniform_(drawn, a=math.sqrt(5), generator=generator)
            parameter.data.copy_(drawn)
