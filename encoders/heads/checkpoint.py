"""Heads as files: weights as safetensors beside JSON that holds the whole configuration, named by the JSON's hash.

The JSON holds the weights' sha256, so that the name stands for both. A spec names a head by it (``head=HASH``); one
that was made for another backbone, tokenizer or graph is refused. It knows neither how a head is trained nor its
modules' inner workings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import SlotragError, UsageError
from ..backbones.safetensors_file import float32_bytes
from ..named_files import DIGITS, NamedFiles, canonical, is_name, name_of, sha256_of
from .configuration import HeadConfig

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ..backbones.store import ModelStore

FOLDER = "heads"
"""Where they lie below the model cache."""

_SCHEMA = 1
_SHIPPED = Path(__file__).parent / "shipped"
_FIELDS = {
    "head": dict,
    "backbone_weights": str,
    "tokenizer": str,
    "query_prefix": str,
    "passage_prefix": str,
    "max_length": int,
    "training": dict,
    "measured": dict,
    "weights_sha256": str,
}


class HeadMissing(UsageError):
    """No head of that hash is on this machine."""


class HeadDamaged(SlotragError):
    """A head's files cannot be read, or their content is not what their name says."""


class HeadMismatch(UsageError):
    """A head was made for another method, backbone, tokenizer or graph."""


_FILES = NamedFiles("head", _SCHEMA, _FIELDS, HeadDamaged, "train it again", "head=none")


@dataclass(frozen=True, eq=False)
class HeadCheckpoint:
    """A trained head and all that its vectors rest on.

    Attributes
    ----------
    config : HeadConfig
    weights : mapping of str to float32 arrays
        The state of the module that `build_head` makes of `config`.
    backbone_weights, tokenizer : str
        sha256 of the backbone's weights and tokenizer, as `ModelStore` gives them.
    query_prefix, passage_prefix : str
        What texts had before them in training.
    max_length : int
        Tokens of one input in training, special tokens included.
    training : mapping
        JSON values: ``data`` (name, sha256 and licence of each set), loss, seed, settings.
    measured : mapping
        JSON values: metrics on held-out data, of the head and of mean pooling.
    """

    config: HeadConfig
    weights: Mapping[str, np.ndarray]
    backbone_weights: str
    tokenizer: str
    query_prefix: str
    passage_prefix: str
    max_length: int
    training: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """First 16 hex digits of the sha256 of `to_json_bytes`: what a spec names."""
        return name_of(self.to_json_bytes())

    @cached_property
    def weights_bytes(self) -> bytes:
        """The safetensors file's content: float32, the same bytes for equal weights."""
        return float32_bytes(self.weights)

    @cached_property
    def weights_sha256(self) -> str:
        """sha256 of `weights_bytes`."""
        return sha256_of(self.weights_bytes)

    def to_json_bytes(self) -> bytes:
        """The JSON file's content: canonical, the same bytes for equal heads.

        Raises
        ------
        TypeError, ValueError
            `training` or `measured` hold what JSON cannot (an object, not a number, a key that is no text).
        """
        return canonical(
            {
                "schema": _SCHEMA,
                "head": self.config.to_json(),
                "backbone_weights": self.backbone_weights,
                "tokenizer": self.tokenizer,
                "query_prefix": self.query_prefix,
                "passage_prefix": self.passage_prefix,
                "max_length": self.max_length,
                "training": self.training,
                "measured": self.measured,
                "weights_sha256": self.weights_sha256,
            }
        )

    def require_for(self, method: str, *, backbone_weights: str, tokenizer: str) -> None:
        """Refuse to serve another method or backbone than it was made for. Raises `HeadMismatch`."""
        if self.config.method != method:
            raise HeadMismatch(
                f"the head {self.hash} is one of the method {self.config.method!r}, not of {method!r}: name one of "
                "its own, or write head=none"
            )
        for what, own, here in (
            ("weights", self.backbone_weights, backbone_weights),
            ("tokenizer", self.tokenizer, tokenizer),
        ):
            if own != here:
                raise HeadMismatch(
                    f"the head {self.hash} was made for another backbone ({what} {own[:16]}, here {here[:16]}): name "
                    "the backbone it was made for, or train a head for this one with `slotrag train`"
                )

    def require_parameters(self, **asked: object) -> None:
        """Refuse parameters that are not those the head was trained with. Raises `HeadMismatch`."""
        for name, value in asked.items():
            own = self.config.parameters[name]
            if own != value:
                raise HeadMismatch(
                    f"the head {self.hash} was trained with {name}={own}, not {value}: leave {name} out, or name "
                    "another head"
                )


def save_head(checkpoint: HeadCheckpoint, models: ModelStore) -> Path:
    """Put a head into the model cache; the path of its JSON, which is written last.

    Raises
    ------
    slotrag.SlotragError
        The folder cannot be written.
    HeadDamaged
        The weights are not those of the configuration's module.
    """
    load_module(checkpoint)
    return write_head(checkpoint, models.folder / FOLDER)


def write_head(checkpoint: HeadCheckpoint, folder: Path) -> Path:
    """Write ``HASH.safetensors`` and then ``HASH.json`` into `folder`; the path of the latter."""
    return _FILES.write(folder, checkpoint.to_json_bytes(), checkpoint.weights_bytes)


def find_head(hash: str, models: ModelStore) -> HeadCheckpoint:
    """The head of that hash: of the model cache, else of those that ship with slotrag.

    Raises
    ------
    HeadMissing
        There is none, or `hash` is none.
    HeadDamaged
        A file's content is not what its name says.
    """
    if not is_name(hash):
        raise HeadMissing(
            f"{hash!r} is no head: it is named by {DIGITS} hex digits, as `slotrag train` writes them, or is none"
        )
    cache = models.folder / FOLDER
    found = _FILES.find(hash, (cache, _SHIPPED))
    if found is not None:
        return _with_weights(*found)
    raise HeadMissing(
        f"the head {hash} is not on this machine: copy its files {hash}.json and {hash}.safetensors into {cache}, or "
        "write head=none for the untrained one"
    )


def shipped_head(method: str, backbone_weights: str, graph: str | None = None) -> str | None:
    """Hash of the head that ships for a method on those weights, None where none does.

    Parameters
    ----------
    graph : str or None
        Of an ``ilse``; None is the default one.
    """
    return _shipped().get((method, backbone_weights, _graph(method, graph)))


def load_module(checkpoint: HeadCheckpoint) -> torch.nn.Module:
    """The head's module with its weights, in eval mode.

    Raises
    ------
    HeadDamaged
        The weights are not those of the configuration's module.
    """
    import torch

    from .heads import build_head

    module = build_head(checkpoint.config)
    state = {name: torch.tensor(value, dtype=torch.float32) for name, value in checkpoint.weights.items()}
    if reason := _misfit(module, state):
        raise HeadDamaged(
            f"The weights of the head {checkpoint.hash} do not fit its configuration ({reason}); train it again."
        )
    module.load_state_dict(state)
    return module.eval()


def misfit(config: HeadConfig, weights: Mapping[str, np.ndarray]) -> str:
    """The first of the weights that a head of this configuration has otherwise; empty where all fit."""
    from .heads import build_head

    return _misfit(build_head(config), weights)


def _misfit(module: torch.nn.Module, weights: Mapping[str, Any]) -> str:
    wanted = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in weights.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            return f"{name} is {found.get(name, 'missing')}, not {wanted.get(name, 'there')}"
    return ""


def weights_of(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """A head's weights as a checkpoint holds them: float32 arrays of its own, on the CPU."""
    return {name: value.detach().float().cpu().numpy().copy() for name, value in module.state_dict().items()}


@lru_cache(maxsize=1)
def _shipped() -> dict[tuple[str, str, str | None], str]:
    found: dict[tuple[str, str, str | None], str] = {}
    for name, value in _FILES.all(_SHIPPED):
        head = value["head"]
        key = (head["method"], value["backbone_weights"], _graph(head["method"], head["parameters"].get("graph")))
        found.setdefault(key, name)
    return found


def _graph(method: str, graph: str | None) -> str | None:
    return (graph or "cayley") if method == "ilse" else None


def _with_weights(path: Path, value: Mapping[str, Any]) -> HeadCheckpoint:
    """The head whose JSON lies at `path`, with the weights beside it."""
    try:
        config = HeadConfig.from_json(value["head"])
    except UsageError as error:
        raise HeadDamaged(f"The head {path} is of another version of slotrag ({error}).") from error
    return HeadCheckpoint(
        config=config,
        weights=_FILES.weights(path, value["weights_sha256"]),
        **{name: value[name] for name in _FIELDS if name not in ("head", "weights_sha256")},
    )
