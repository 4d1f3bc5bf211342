"""Files of weights that others have written, read without running anything that is in them. It knows no head.

``.pt`` files are pickles: `torch.load` reads them as weights only and refuses whatever is more than that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import UsageError

if TYPE_CHECKING:
    import torch

_ENDINGS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")

LAYER_GRAPHS = {"CayleyConfig": "cayley", "FCConfig": "fc", "DeepSetConfig": "set"}
"""The graph of each kind of configuration that ``ilge`` saves."""


class ImportRefused(UsageError):
    """A file is not one of the kind asked for, or its weights do not fit the backbone."""


def one_file(path: Path) -> Path:
    """The file of weights that `path` is, or that lies alone in it."""
    path = Path(path).expanduser()
    if not path.is_dir():
        return path
    found = sorted(file for file in path.iterdir() if file.suffix in _ENDINGS)
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise ImportRefused(f"{path} holds {len(found)} files of weights ({names}): name the file itself")
    return found[0]


def read_weights(path: Path) -> Mapping[str, Any]:
    """What a file holds by its names: tensors, and what ``ilge`` puts beside them.

    Raises
    ------
    ImportRefused
        It cannot be read, or only by running what is in it.
    """
    # Nothing is unpickled here: this is how `torch.load` refuses what is more than weights.
    from pickle import UnpicklingError

    from safetensors import SafetensorError

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        content = _unpickled(path)
    except OSError as error:
        raise ImportRefused(f"{path} cannot be read ({error.strerror or error})") from error
    except (UnpicklingError, SafetensorError, RuntimeError, EOFError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ImportRefused(f"{path} holds no weights that can be read safely ({reason})") from error
    if not isinstance(content, Mapping):
        raise ImportRefused(f"{path} holds a {type(content).__name__}, not a state dict")
    return content


def _unpickled(path: Path) -> Any:
    """What `torch.load` gives as weights only; ilge's three configurations become empty classes of ours."""
    import torch

    stand_ins = [(type(name, (), {}), f"ilge.configs.{name}") for name in LAYER_GRAPHS]
    with torch.serialization.safe_globals(stand_ins):  # pyright: ignore[reportArgumentType]
        return torch.load(path, map_location="cpu", weights_only=True)


def tensors(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The same, where there is nothing but tensors."""
    import torch

    if not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ImportRefused(f"the file is no state dict: it has {some_names(state)}")
    return dict(state)


def some_names(state: Mapping[str, Any]) -> str:
    """A few of the names, for a message."""
    names = sorted(state)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") or "nothing"
