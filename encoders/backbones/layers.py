"""The decoder layers of a causal model's module tree: where they are, stopping below one, Token Prepending on some.

It works on a tree that the caller owns and knows no architecture by name: the layers are found by structure, so that
Llama, Qwen, Gemma, Mistral, SmolLM, GPT-2, OPT and GPT-NeoX are all served by the same lines. Nothing here keeps
state of a call in the tree, so one tree serves several threads.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from .errors import UnusableModel

if TYPE_CHECKING:
    import torch

# Columns (row by row) to write to and to read from, for the forward pass that the current thread is in.
_columns: ContextVar[tuple[torch.Tensor, torch.Tensor] | None] = ContextVar("prepending_columns", default=None)


class _Reached(Exception):
    """Carries the states out of a forward pass that has come to the layer where it is to stop."""

    def __init__(self, states: torch.Tensor) -> None:
        super().__init__()
        self.states = states


def decoder_layers(tree: Any) -> Any:
    """The list of decoder layers in `tree`: the outermost list of as many modules as the configuration has layers.

    Parameters
    ----------
    tree : transformers.PreTrainedModel
        With or without a language-model head.

    Returns
    -------
    torch.nn.ModuleList

    Raises
    ------
    UnusableModel
        There is none, or several at the same depth.
    """
    import torch

    count = tree.config.get_text_config().num_hidden_layers
    lists = [
        (name.count("."), module)
        for name, module in tree.named_modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) == count
    ]
    outermost = min((depth for depth, _ in lists), default=0)
    found = [module for depth, module in lists if depth == outermost]
    if len(found) != 1:
        raise UnusableModel(
            f"The layers of a {tree.config.model_type} model cannot be told apart from its other modules; "
            "choose another model, or layer=-1."
        )
    return found[0]


def stop_before(tree: Any, layer: int) -> None:
    """Make `tree` end before its layer `layer` (counted from 0); run it by `run_to_stop` from then on.

    The layers above are taken out of the tree, and `layer` itself is never run.
    """
    layers = decoder_layers(tree)
    if not 0 <= layer < len(layers):
        raise ValueError(f"there is no layer {layer} among {len(layers)}")
    del layers[layer + 1 :]

    # An exception leaves at once: what would come after the layers (norm, projection) is neither run nor looked for.
    def stop(module: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        raise _Reached(args[0] if args else options["hidden_states"])

    layers[layer].register_forward_pre_hook(stop, with_kwargs=True)


def run_to_stop(tree: Any, inputs: dict[str, Any]) -> torch.Tensor:
    """The states that come into the layer at which `stop_before` let `tree` end, shape (batch, tokens, width)."""
    try:
        tree(**accepted(tree, inputs))
    except _Reached as reached:
        return reached.states
    raise RuntimeError("the tree has no layer to stop at")


def prepend(tree: Any, layers: range) -> None:
    """Add Token Prepending (arXiv 2412.11556) to `layers` of `tree`, counted from 0.

    Before each of them, the state at one column of every row takes the value of the state at another; `prepending`
    says which. The copy is of the raw residual stream, without norm or scale.
    """
    found = decoder_layers(tree)
    for number in layers:
        found[number].register_forward_pre_hook(_copy_states, with_kwargs=True)


@contextmanager
def prepending(to: torch.Tensor, source: torch.Tensor) -> Iterator[None]:
    """Within it, this thread's forward passes of trees with `prepend` copy column ``source[b]`` to ``to[b]``.

    Parameters
    ----------
    to, source : int64, shape (batch,)
    """
    token = _columns.set((to, source))
    try:
        yield
    finally:
        _columns.reset(token)


def _copy_states(module: Any, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Any] | None:
    columns = _columns.get()
    if columns is None:
        return None
    import torch

    states = args[0] if args else options["hidden_states"]
    rows = torch.arange(len(states), device=states.device)
    # A copy: the tensor may be kept by somebody who collects the states of all layers.
    changed = states.clone()
    changed[rows, columns[0]] = states[rows, columns[1]]
    if args:
        return (changed, *args[1:]), options
    return args, {**options, "hidden_states": changed}


def accepted(tree: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """What of `inputs` the forward pass of `tree` knows; a cache under the name that it has there."""
    known = inspect.signature(tree.forward).parameters
    inputs = dict(inputs)
    if "cache" in inputs and "cache" not in known:
        inputs["past_key_values"] = inputs.pop("cache")
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        inputs = {name: value for name, value in inputs.items() if name in known}
    return inputs
