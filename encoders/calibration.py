"""Calibrations: an encoder's measured settings for one backbone, as a file named by the hash of its content.

A file is JSON and holds the parameters that won, the post-processing with its statistics, and what was measured on
which data. A spec names it by its hash (``calibration=HASH``), so that it is never hidden state: another content is
another hash. It knows neither how a calibration is found (`calibrating`) nor any encoder's parameters.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import SlotragError, UsageError
from .named_files import DIGITS, NamedFiles, canonical, is_name, name_of

if TYPE_CHECKING:
    from .backbones.store import ModelStore
    from .postprocessing import Postprocessing

FOLDER = "calibrations"
"""Where they lie below the model cache, and below this package for those that ship with it."""
RETRIEVAL_MEASURE = "ndcg@10"
"""The measure of a calibration that was chosen by retrieval."""

_SCHEMA = 1
_SHIPPED = Path(__file__).parent / FOLDER


class CalibrationMissing(UsageError):
    """No calibration of that hash is on this machine."""


class CalibrationDamaged(SlotragError):
    """A calibration's file cannot be read, or its content is not what its name says."""


class CalibrationMismatch(UsageError):
    """A calibration was made for another encoder or for other weights."""


_FILES = NamedFiles(
    "calibration",
    _SCHEMA,
    # And "postprocessing", which may be null.
    {"encoder": str, "backbone_weights": str, "parameters": dict, "measured": dict, "data": dict},
    CalibrationDamaged,
    "calibrate again",
    "calibration=none",
)


@dataclass(frozen=True)
class Calibration:
    """What was chosen for an encoder on a backbone, and what that choice rests on.

    Attributes
    ----------
    encoder : str
        The registered name: ``tp``, ``prompteol``, ``echo``, ``mean``.
    backbone_weights : str
        sha256 of the backbone's weights, as `ModelStore.weights_sha256` gives it.
    parameters : mapping of str to str
        Parameters of the encoder's spec; those that a spec gives itself come before them.
    postprocessing : Postprocessing or None
        With statistics, for collections too small to have their own; None for none.
    measured : mapping
        JSON values: the measure, its value on the half that chose and on the half held out, seconds.
    data : mapping
        JSON values: ``name``, ``sha256`` and ``licence`` of the labelled data.
    """

    encoder: str
    backbone_weights: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    postprocessing: Postprocessing | None = None
    measured: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """First 16 hex digits of the sha256 of `to_bytes`: what a spec names."""
        return name_of(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The file's content: canonical JSON, the same bytes for equal calibrations.

        Raises
        ------
        TypeError, ValueError
            `measured` or `data` hold what JSON cannot (an object, not a number, a key that is no text).
        """
        return canonical(
            {
                "schema": _SCHEMA,
                "encoder": self.encoder,
                "backbone_weights": self.backbone_weights,
                "parameters": dict(self.parameters),
                "postprocessing": _packed(self.postprocessing),
                "measured": self.measured,
                "data": self.data,
            }
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> Calibration:
        """Read what `to_bytes` wrote.

        Raises
        ------
        CalibrationDamaged
            It is not that, or of a later version of slotrag.
        """
        return cls._of(_FILES.parsed(content))

    @classmethod
    def _of(cls, value: Mapping[str, Any]) -> Calibration:
        parameters = value["parameters"]
        if "postprocessing" not in value:
            raise CalibrationDamaged("The calibration has no proper 'postprocessing'; calibrate again.")
        if not all(isinstance(key, str) and isinstance(text, str) for key, text in parameters.items()):
            raise CalibrationDamaged("The calibration's parameters are not texts; make it again.")
        return cls(
            encoder=value["encoder"],
            backbone_weights=value["backbone_weights"],
            parameters=parameters,
            postprocessing=_unpacked(value["postprocessing"]),
            measured=value["measured"],
            data=value["data"],
        )

    def require_for(self, encoder: str, backbone_weights: str) -> None:
        """Refuse to serve another encoder or other weights than it was made for. Raises `CalibrationMismatch`."""
        if self.encoder != encoder:
            raise CalibrationMismatch(
                f"the calibration {self.hash} was made for the encoder {self.encoder!r}, not for {encoder!r}: "
                "write calibration=none or name one of its own"
            )
        if self.backbone_weights != backbone_weights:
            raise CalibrationMismatch(
                f"the calibration {self.hash} was made for another model (weights {self.backbone_weights[:16]}, here "
                f"{backbone_weights[:16]}): write calibration=none or run `slotrag encoders calibrate {encoder}`"
            )


def find_calibration(hash: str, models: ModelStore) -> Calibration:
    """The calibration of that hash: of the model cache, else of those that ship with slotrag.

    Raises
    ------
    CalibrationMissing
        There is none, or `hash` is none.
    CalibrationDamaged
        Its content is not what its name says.
    """
    if not is_name(hash):
        raise CalibrationMissing(
            f"{hash!r} is no calibration: it is named by {DIGITS} hex digits, as `slotrag encoders calibrate` writes "
            "them, or is none"
        )
    cache = models.folder / FOLDER
    found = _FILES.find(hash, (cache, _SHIPPED))
    if found is not None:
        return Calibration._of(found[1])
    raise CalibrationMissing(
        f"the calibration {hash} is not on this machine: copy its file {hash}.json into {cache}, or write "
        "calibration=none for the plain encoder"
    )


def shipped_for(encoder: str, backbone_weights: str) -> str | None:
    """Hash of the calibration that an encoder on those weights has by default; None where none of that kind ships.

    Only one that was chosen by retrieval is a default: what is best for telling how similar two sentences are may find
    passages worse than no calibration. Those chosen by similarity ship too and are named in a spec.
    """
    return _shipped().get((encoder, backbone_weights))


def save_calibration(calibration: Calibration, models: ModelStore) -> Path:
    """Put a calibration into the model cache, whole or not at all; the file's path.

    Raises
    ------
    slotrag.SlotragError
        The folder cannot be written.
    """
    return _FILES.write(models.folder / FOLDER, calibration.to_bytes())


@lru_cache(maxsize=1)
def _shipped() -> dict[tuple[str, str], str]:
    return {
        (value["encoder"], value["backbone_weights"]): name
        for name, value in _FILES.all(_SHIPPED)
        if value["measured"].get("measure") == RETRIEVAL_MEASURE
    }


def _packed(postprocessing: Postprocessing | None) -> dict[str, Any] | None:
    """The statistics as text beside what a reader of the file wants to know of them."""
    if postprocessing is None:
        return None
    return {
        "steps": postprocessing.steps,
        "fitted_on": postprocessing.fitted_on,
        "statistics": base64.b64encode(postprocessing.to_bytes()).decode("ascii"),
    }


def _unpacked(value: Any) -> Postprocessing | None:
    if value is None:
        return None
    try:
        statistics = base64.b64decode(value["statistics"], validate=True)
        from .postprocessing import Postprocessing

        return Postprocessing.from_bytes(statistics)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise CalibrationDamaged(f"The calibration's statistics cannot be read ({error}); make it again.") from error
