"""Compressors as files: 16-bit safetensors beside JSON that holds the configuration, named by the JSON's hash.

The JSON holds the weights' sha256, so that the name stands for both; it is the compressor's fingerprint. One that was
made for another language model or tokenizer is refused. It knows neither training nor the network's inner workings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import SlotragError, UsageError
from ...encoders.named_files import DIGITS, NamedFiles, canonical, is_name, name_of, sha256_of
from .configuration import CompressorConfig

if TYPE_CHECKING:
    from ...encoders.backbones.store import ModelStore

FOLDER = "compressors"
"""Where they lie below the model cache."""

SHIPPED = Path(__file__).parent / "shipped"
RECOVERY = "recovery"
"""The name under which `measured` holds what decides between two that ship for one model: more is better."""

_SCHEMA = 1
_FIELDS = {
    "config": dict,
    "base_weights": str,
    "tokenizer": str,
    "training": dict,
    "measured": dict,
    "weights_sha256": str,
}


class CompressorMissing(UsageError):
    """No compressor of that hash is on this machine, or none for that model."""


class CompressorDamaged(SlotragError):
    """A compressor's files cannot be read, or their content is not what their name says."""


class CompressorMismatch(UsageError):
    """A compressor was made for another language model or tokenizer."""


_FILES = NamedFiles("compressor", _SCHEMA, _FIELDS, CompressorDamaged, "train it again")


@dataclass(frozen=True, eq=False)
class CompressorCheckpoint:
    """A trained compressor and all that its slots rest on.

    Attributes
    ----------
    config : CompressorConfig
    weights : mapping of str to float arrays
        As `CompressorModule.weights` gives them; kept with 16 bits.
    base_weights, tokenizer : str
        sha256 of the language model's weights and tokenizer, as `ModelStore` gives them.
    training : mapping
        JSON values: ``data`` (name, sha256 and licence of each source), stages, seed, settings.
    measured : mapping
        JSON values: metrics on held-out text; `RECOVERY` among them.
    """

    config: CompressorConfig
    weights: Mapping[str, np.ndarray]
    base_weights: str
    tokenizer: str
    training: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """First 16 hex digits of the sha256 of `to_json_bytes`: the compressor's name and fingerprint."""
        return name_of(self.to_json_bytes())

    @cached_property
    def weights_bytes(self) -> bytes:
        """The safetensors file's content, float16.

        Raises
        ------
        ValueError
            A weight is not finite in 16 bits.
        """
        from safetensors.numpy import save

        return save({name: half(value) for name, value in sorted(self.weights.items())})

    @cached_property
    def weights_sha256(self) -> str:
        """sha256 of `weights_bytes`."""
        return sha256_of(self.weights_bytes)

    def to_json_bytes(self) -> bytes:
        """The JSON file's content: canonical, the same bytes for equal compressors.

        Raises
        ------
        TypeError, ValueError
            `training` or `measured` hold what JSON cannot (an object, not a number, a key that is no text).
        """
        return canonical(
            {
                "schema": _SCHEMA,
                "config": self.config.to_json(),
                "base_weights": self.base_weights,
                "tokenizer": self.tokenizer,
                "training": self.training,
                "measured": self.measured,
                "weights_sha256": self.weights_sha256,
            }
        )

    def require_for(self, *, base_weights: str, tokenizer: str) -> None:
        """Refuse to serve another language model than it was made for. Raises `CompressorMismatch`."""
        for what, own, here in (
            ("weights", self.base_weights, base_weights),
            ("tokenizer", self.tokenizer, tokenizer),
        ):
            if own != here:
                raise CompressorMismatch(
                    f"The compressor {self.hash} was made for another model ({what} {own[:16]}, here {here[:16]}): "
                    "name the decoder it was made for, or train one for this with `slotrag train icae`."
                )


def half(values: np.ndarray) -> np.ndarray:
    """`values` as a checkpoint keeps them, float16. Raises ValueError where one is not finite then."""
    with np.errstate(over="ignore"):
        kept = np.ascontiguousarray(values, dtype=np.float16)
    if not np.isfinite(kept).all():
        raise ValueError("a weight is not finite in 16 bits")
    return kept


def save_compressor(checkpoint: CompressorCheckpoint, models: ModelStore) -> Path:
    """Put a compressor into the model cache; the path of its JSON, which is written last.

    Raises
    ------
    slotrag.SlotragError
        The folder cannot be written.
    """
    return write_compressor(checkpoint, models.folder / FOLDER)


def write_compressor(checkpoint: CompressorCheckpoint, folder: Path) -> Path:
    """Write ``HASH.safetensors`` and then ``HASH.json`` into `folder`; the path of the latter."""
    return _FILES.write(folder, checkpoint.to_json_bytes(), checkpoint.weights_bytes)


def find_compressor(hash: str, models: ModelStore) -> CompressorCheckpoint:
    """The compressor of that hash: of the model cache, else of those that ship with slotrag.

    Raises
    ------
    CompressorMissing
        There is none, or `hash` is none.
    CompressorDamaged
        A file's content is not what its name says.
    """
    if not is_name(hash):
        raise CompressorMissing(
            f"{hash!r} is no compressor: it is named by {DIGITS} hex digits, as `slotrag train icae` writes them."
        )
    cache = models.folder / FOLDER
    found = _FILES.find(hash, (cache, SHIPPED))
    if found is not None:
        return _with_weights(*found)
    raise CompressorMissing(
        f"The compressor {hash} is not on this machine: copy its files {hash}.json and {hash}.safetensors into {cache}."
    )


def shipped_compressor(base_weights: str, compressor: str | None = None, *, folder: Path = SHIPPED) -> str | None:
    """Hash of the compressor that ships for a language model, None where none does.

    Parameters
    ----------
    base_weights : str
        sha256 of its weights.
    compressor : str, optional
        ``pooled`` or ``memory-tokens``; by default the one with the higher measured recovery.
    """
    found = [
        (float(value["measured"].get(RECOVERY, 0.0)), name)
        for name, value in _FILES.all(folder)
        if value["base_weights"] == base_weights and compressor in (None, value["config"].get("compressor"))
    ]
    return max(found)[1] if found else None


def _with_weights(path: Path, value: Mapping[str, Any]) -> CompressorCheckpoint:
    """The compressor whose JSON lies at `path`, with the weights beside it."""
    stored = _FILES.weights(path, value["weights_sha256"])
    try:
        config = CompressorConfig.from_json(value["config"])
    except UsageError as error:
        raise CompressorDamaged(f"The compressor {path} is of another version of slotrag ({error}).") from error
    return CompressorCheckpoint(
        config=config,
        weights={name: array.astype(np.float32) for name, array in stored.items()},
        **{name: value[name] for name in _FIELDS if name not in ("config", "weights_sha256")},
    )
