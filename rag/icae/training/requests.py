"""What is asked of a training and what comes out of it, as plain values. It trains nothing and loads no model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..configuration import CompressorConfig
from .data import Preparation
from .settings import CompressorTraining
from .sources import Source


@dataclass(frozen=True)
class Request:
    """What is to be trained.

    Attributes
    ----------
    base : str
        The frozen language model: a catalogue name, hub id or folder.
    data : sequence of Source
        May be empty where `prepared` holds prepared data.
    settings : CompressorTraining
    run : Path
        Folder of the run.
    compressor : mapping
        Options of `CompressorConfig`; with `start` those of the checkpoint hold, and only `rate` and ``positions`` may
        be given.
    preparation : Preparation
    exclude : sequence of Path
        What may only be measured on.
    start : str or None
        Hash of the compressor whose weights are the first ones.
    prepared : Path or None
        Folder of prepared data; see `store`.
    replies : int
        Replies of the decoder that are written before training begins.
    device, dtype : str
        Of the language model; what is trained is float32 in any case.
    minutes : float or None
        How long this call may take.
    """

    base: str
    data: Sequence[Source]
    settings: CompressorTraining
    run: Path
    compressor: Mapping[str, Any] = field(default_factory=dict)
    preparation: Preparation = field(default_factory=Preparation)
    exclude: Sequence[Path] = ()
    start: str | None = None
    prepared: Path | None = None
    replies: int = 0
    device: str = "auto"
    dtype: str = "float32"
    minutes: float | None = None

    @property
    def store(self) -> Path:
        """Where the prepared data lie: by default in the run's folder."""
        return self.prepared or self.run / "tokens"


@dataclass(frozen=True)
class Outcome:
    """What came out.

    Attributes
    ----------
    hash : str
        Of the checkpoint with the best weights.
    file : Path
        Its JSON.
    config : CompressorConfig
    best : dict
        The best check: step, tokens, loss and measures.
    first : dict
        The check of the start.
    steps, tokens, seconds
        Done so far, over all interruptions.
    stopped : str
        ``steps``: all are done. ``time``: the same request goes on.
    run : Path
    notices : list of str
    """

    hash: str
    file: Path
    config: CompressorConfig
    best: dict[str, Any]
    first: dict[str, Any]
    steps: int
    tokens: int
    seconds: float
    stopped: str
    run: Path
    notices: list[str]

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "schema": 1,
            **vars(self),
            "config": self.config.to_json(),
            "file": str(self.file),
            "run": str(self.run),
        }


def default_run(models: Path, base: str, data: Sequence[Source], stage: str) -> Path:
    """A folder for the run below the models folder, the same for the same base, data and stage."""
    key = hashlib.sha256("\n".join([base, stage, *(str(each.path.resolve()) for each in data)]).encode()).hexdigest()
    return models / "training" / f"icae-{key[:12]}"
