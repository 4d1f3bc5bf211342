"""The tensors of a training's state by name: parts of them, and what an optimiser has gathered. It knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch

_MOMENTS = "adam."


def below(values: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The values whose names begin with `prefix`, by what follows it."""
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def arrays_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Arrays of their own, on the CPU, of the tensors' shapes and dtypes."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}


def tensors_of(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Tensors of their own, on the CPU, of the arrays' shapes and dtypes."""
    import torch

    return {name: torch.tensor(array) for name, array in arrays.items()}


def moments(optimiser: torch.optim.Optimizer) -> dict[str, np.ndarray]:
    """What an optimiser keeps of each parameter, by ``adam.NUMBER.NAME``; nothing before its first step."""
    found: dict[str, np.ndarray] = {}
    for number, kept in optimiser.state_dict()["state"].items():
        found |= {f"{_MOMENTS}{number}.{name}": value for name, value in arrays_of(kept).items()}
    return found


def restore_moments(optimiser: torch.optim.Optimizer, values: Mapping[str, np.ndarray]) -> None:
    """Give an optimiser what `moments` found; other names are passed over."""
    found: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in tensors_of(below(values, _MOMENTS)).items():
        number, kept = name.split(".", 1)
        found.setdefault(int(number), {})[kept] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": found})
