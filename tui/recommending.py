"""Which decoder suits this machine, by its memory and its measured speed. Listing loads no model: speeds are kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .output import size

if TYPE_CHECKING:
    from ..encoders.backbones.catalogue import ModelEntry
    from ..encoders.backbones.store import ModelStore
    from ..rag.settings import Settings

_FILE = ".speed.json"
_ASSUMED_TOKENS_PER_SECOND = 15.0  # of the default decoder on two cores; used, and said, until it is measured


def remembered_speed(store: ModelStore) -> float | None:
    """Tokens a second of the default decoder on this machine; None where nobody measured it."""
    try:
        speed = float(json.loads((store.folder / _FILE).read_text(encoding="utf-8"))["tokens_per_second"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return speed if 0 < speed < float("inf") else None


def measure(store: ModelStore, settings: Settings) -> float:
    """Measure the speed of the default decoder and keep it beside the models.

    Raises
    ------
    slotrag.SlotragError
        The default decoder is missing and may not be fetched.
    """
    from ..encoders.backbones import catalogue, frozen, hardware, threads

    folder = store.resolve(catalogue.DEFAULT_DECODER)
    if settings.threads:
        threads.set_threads(settings.threads)
    model = frozen.FrozenLM.load(folder, causal=True, device=settings.device, dtype=settings.decoder_dtype)
    speed = hardware.measure_tokens_per_second(model)
    try:
        store.folder.mkdir(parents=True, exist_ok=True)
        (store.folder / _FILE).write_text(json.dumps({"tokens_per_second": round(speed, 1)}), encoding="utf-8")
    except OSError:
        pass  # a read-only cache: the speed holds for this run
    return speed


def recommended(speed: float | None) -> ModelEntry:
    """The decoder for this machine at `speed`, tokens a second of the default decoder."""
    from ..encoders.backbones import catalogue, hardware

    return catalogue.recommend_decoder(hardware.memory_bytes(), speed or _ASSUMED_TOKENS_PER_SECOND)


def sentence(advice: ModelEntry, speed: float | None, *, current: str) -> str:
    """The recommendation as one line for the user."""
    from ..encoders.backbones import hardware

    basis = f"{size(hardware.memory_bytes())} of memory and " + (
        f"{speed:.0f} tokens a second measured with the default decoder"
        if speed
        else "an assumed speed (slotrag models list --measure measures it)"
    )
    if advice.name == current:
        return f"decoder: {current} suits this machine ({basis})"
    return (
        f"decoder: {advice.name} ({advice.licence}, {size(advice.download_bytes)} to fetch) answers better than a "
        f"smaller one and suits this machine ({basis}): slotrag models pull {advice.name} && "
        f"slotrag config set decoder {advice.name}"
    )
