"""Token lists to what a head takes: the states of a frozen language model in the form that its configuration asks for.

It knows no texts, no prefixes and no head's weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import UnknownParameter
from .configuration import METHODS, HeadConfig, Value, head_config

if TYPE_CHECKING:
    import torch

    from ..backbones.frozen import FrozenLM


def head_inputs(
    language_model: FrozenLM, token_lists: Sequence[Sequence[int]], config: HeadConfig
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The states that `build_head`'s module takes, for one batch.

    Parameters
    ----------
    token_lists : sequence of sequences of int
        Prefix and special tokens included; at least one token each.

    Returns
    -------
    states : float32, on the model's device
        ``tokens``: (batch, longest, width). ``layers``: (batch, layers + 1, width), each layer's mean over the text's
        tokens. ``layer-tokens``: (batch, layers + 1, longest, width). Zero at padding, which stands at the right.
    mask : bool, shape (batch, longest), or None for ``layers``
    """
    if config.layer is not None:
        states, mask = language_model.states_at(token_lists, config.layer)
    else:
        states, mask = language_model.all_states(token_lists)
    if not config.sink:
        states, mask = _without_first(states, mask)
    if config.layer is not None:
        return states, mask
    states = states.transpose(0, 1)
    if config.inputs == "layer-tokens":
        return states.contiguous(), mask
    # Padding is zero already.
    return states.sum(dim=2) / mask.sum(dim=1)[:, None, None], None


def _without_first(states: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """States (.., batch, tokens, width) and mask (batch, tokens) without the first token, which a lone one keeps."""
    if mask.shape[1] == 1:
        return states, mask
    lone = mask.sum(dim=1) == 1
    rest, rest_mask = states[..., 1:, :].clone(), mask[:, 1:].clone()
    rest[..., lone, 0, :] = states[..., lone, 0, :]
    rest_mask[lone, 0] = True
    return rest, rest_mask


def config_for(language_model: FrozenLM, method: str, **parameters: Value) -> HeadConfig:
    """`head_config` with the sizes of `language_model`; `sink` is false for a causal one unless it is given.

    Raises
    ------
    slotrag.UsageError
        As `head_config`; also a head over all layers of a model whose last states are of another length.
    """
    layers = language_model.layers
    if "sink" in METHODS.get(method, ()):
        parameters.setdefault("sink", not language_model.decoder)
    config = head_config(method, width=language_model.hidden_size, layers=layers, **parameters)
    width = language_model.width(layers if config.layer is None else config.layer)
    if width == config.width:
        return config
    if config.layer is None:
        raise UnknownParameter(
            f"the head {method!r} reads all layers, whose states are of two lengths in {language_model.folder}: "
            "choose another backbone or a head over one layer"
        )
    return head_config(method, width=width, layers=layers, **parameters)
