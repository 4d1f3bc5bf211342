"""Encoders by name, found through the entry points of group ``slotrag.encoders`` (slotrag's own are there too).

Listing names imports no encoder. It knows no encoder by name.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from .base import Encoder
from .errors import EncoderUnavailable, UnknownEncoder
from .spec import EncoderSpec, did_you_mean

if TYPE_CHECKING:
    from .backbones.store import ModelStore

GROUP = "slotrag.encoders"


def names() -> list[str]:
    """The names of the installed encoders, sorted; none of them is imported."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def create(spec: str | EncoderSpec, models: ModelStore | None = None, *, device: str = "auto") -> Encoder:
    """Build the encoder that a spec describes.

    Parameters
    ----------
    spec : str or EncoderSpec
        Such as ``mean@e5-small``.
    models : ModelStore, optional
        Where model files come from; the default store when left out.
    device : str
        ``auto``, ``cpu``, ``cuda``, ...

    Raises
    ------
    slotrag.UsageError
        The spec cannot be read, no such encoder is installed, or it has no such parameter.
    slotrag.SlotragError
        Its package is broken, or a model is missing and may not be fetched.
    """
    parsed = EncoderSpec.parse(spec) if isinstance(spec, str) else spec
    encoder_class = load(parsed.name)
    if models is None:
        from .backbones.store import ModelStore

        models = ModelStore()
    return encoder_class.from_spec(parsed, models, device=device)


def check(spec: str) -> None:
    """Refuse a spec that names no installed encoder, without importing one. Raises as `create`."""
    _find(EncoderSpec.parse(spec).name)


def load(name: str) -> type[Encoder]:
    """The class of that name. Raises `UnknownEncoder`, `EncoderUnavailable`."""
    point = _find(name)
    try:
        encoder_class = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # another's module may raise anything, even SystemExit: it ends no program of ours
        raise EncoderUnavailable(
            f"the encoder {name!r} cannot be loaded from {_origin(point)} ({_reason(error)}): reinstall or remove "
            "that package"
        ) from error
    if not (isinstance(encoder_class, type) and issubclass(encoder_class, Encoder)):
        raise EncoderUnavailable(
            f"{point.value} of {_origin(point)}, registered as the encoder {name!r}, is no slotrag Encoder: "
            "update or remove that package"
        )
    return encoder_class


def _find(name: str) -> EntryPoint:
    points = {point.value: point for point in entry_points(group=GROUP) if point.name == name}
    if not points:
        known = names()
        raise UnknownEncoder(
            f"there is no encoder {name!r}{did_you_mean(name, known)}; installed are {', '.join(known) or 'none'}"
        )
    if len(points) > 1:
        # Choosing one in silence would let an installed package change what a library's vectors mean.
        origins = " and ".join(sorted(_origin(point) for point in points.values()))
        raise EncoderUnavailable(f"the encoder name {name!r} is registered by {origins}: remove one of them")
    return next(iter(points.values()))


def _reason(error: BaseException) -> str:
    """The error's first line; its class where it is no import error or says nothing."""
    line = next(iter(str(error).strip().splitlines()), "")
    kind = type(error).__name__
    return line if line and isinstance(error, ImportError) else f"{kind}: {line}" if line else kind


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
