"""One pass of a calibration: the states of every layer, then layers x post-processing by arithmetic; and its memory.

It knows neither which passes there are (`calibration_passes`) nor what the data are.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .. import UsageError
from .pooling import unit_rows
from .postprocessing import Postprocessing
from .postprocessing_fit import fit
from .postprocessing_steps import NONE, parse_steps

if TYPE_CHECKING:
    import numpy as np


Report = Callable[[int, int], None]
"""Told (texts done, all of them) within a pass; it may raise to cancel."""

_CHUNK_TEXTS = 128


class Task(Protocol):
    """Labelled data that say how good vectors are.

    Attributes
    ----------
    measure : str
        What `score` gives, higher being better.
    texts : sequence of str
        Each once.
    items : int
        What is judged: pairs or queries.
    facts : mapping
        JSON values: ``name`` and ``sha256`` of the data, and whatever else decides texts and items.
    """

    measure: str
    texts: Sequence[str]
    items: int
    facts: Mapping[str, Any]

    def rows_of(self, items: np.ndarray) -> np.ndarray:
        """Positions of the texts on which statistics for these items may be fitted."""
        ...

    def outcomes(self, vectors: np.ndarray) -> np.ndarray:
        """What the texts' vectors make of each item, float of shape (items,)."""
        ...

    def score(self, outcomes: np.ndarray, items: np.ndarray) -> float:
        """The measure over some items (positions, some of them more than once), given the outcomes of all."""
        ...


@dataclass(frozen=True)
class Cell:
    """A layer with a post-processing, and its score on the half that chooses."""

    layer: int
    steps: str
    score: float


@dataclass(frozen=True)
class Pass:
    """What one pass found.

    Attributes
    ----------
    seconds : float
        Of the model's work, through all layers.
    layers : int
        Of the model; a cell's layer is counted from 0, the embeddings.
    cells : list of Cell
    best : Cell
        The highest score; of equal ones the first.
    statistics : bytes
        The post-processing of `best`; empty for none.
    outcomes : list of float
        Of `best`, for every item.
    """

    seconds: float
    layers: int
    cells: list[Cell]
    best: Cell
    statistics: bytes
    outcomes: list[float]

    @property
    def postprocessing(self) -> Postprocessing | None:
        return Postprocessing.from_bytes(self.statistics) if self.statistics else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "statistics": base64.b64encode(self.statistics).decode("ascii")}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Pass:
        return cls(
            value["seconds"],
            value["layers"],
            [Cell(**cell) for cell in value["cells"]],
            Cell(**value["best"]),
            base64.b64decode(value["statistics"]),
            value["outcomes"],
        )


class Memory:
    """The passes that are done, in a file, so that an interrupted calibration goes on after the last of them."""

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
        self._path = folder / f".scan-{key}.json"
        self._passes: dict[str, Any] = {}
        try:
            self._passes = dict(json.loads(self._path.read_text(encoding="ascii")))
        except (OSError, ValueError):
            self._passes = {}  # none yet, or damaged: it is only time that was saved

    def get(self, name: str) -> Pass | None:
        try:
            return Pass.from_json(self._passes[name])
        except (KeyError, TypeError, ValueError):
            return None

    def put(self, name: str, found: Pass) -> None:
        self._passes[name] = found.to_json()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps(self._passes), encoding="ascii")
        partial.replace(self._path)

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)


def in_chunks(
    encode: Callable[[Sequence[str]], np.ndarray], texts: Sequence[str], report: Report = lambda done, total: None
) -> np.ndarray:
    """What `encode` gives for `texts`, float32 of shape (..., len(texts), width), a few of about one length at a
    time."""
    import numpy as np

    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    rows: np.ndarray | None = None
    for start in range(0, len(order), _CHUNK_TEXTS):
        report(start, len(order))
        places = order[start : start + _CHUNK_TEXTS]
        part = encode([texts[place] for place in places])
        if rows is None:
            rows = np.empty((*part.shape[:-2], len(texts), part.shape[-1]), dtype=np.float32)
        rows[..., places, :] = part
    assert rows is not None
    report(len(order), len(order))
    return rows


def scan(
    states: Callable[[Report], Mapping[int, np.ndarray]],
    task: Task,
    choosing: np.ndarray,
    *,
    layers: int,
    steps: Sequence[str],
    unembedding: Callable[[], np.ndarray] | None,
    report: Report,
) -> Pass:
    """Run one pass and score each of its layers under each post-processing on the half that chooses.

    Parameters
    ----------
    states : callable
        Gives float32 of shape (texts, width) by layer, for the layers that are looked at; what it takes is the pass's
        time.
    choosing : int64
        Items of the half that chooses; statistics are fitted on texts of that half alone.
    layers : int
        Of the model.
    steps : sequence of str
        Steps that the number of texts or the model does not allow are left out.
    """
    started = time.perf_counter()
    found = states(report)
    seconds = time.perf_counter() - started
    fitted_on = task.rows_of(choosing)
    if unembedding is None:
        steps = [text for text in steps if not parse_steps(text).need_unembedding]
    free = _data_free(steps, unembedding)
    cells: list[Cell] = []
    best: tuple[Cell, Postprocessing | None, np.ndarray] | None = None
    for layer, layer_states in found.items():
        report(len(task.texts), len(task.texts))
        rows = unit_rows(layer_states)
        for text in steps:
            try:
                chosen = free[text] if text in free else _fitted(text, rows[fitted_on], unembedding)
            except UsageError:
                continue  # more directions than these texts span
            outcomes = task.outcomes(rows if chosen is None else chosen.apply(rows))
            cell = Cell(layer, text, float(task.score(outcomes, choosing)))
            if cell.score != cell.score:
                continue  # all cosines equal
            cells.append(cell)
            if best is None or cell.score > best[0].score:
                best = cell, chosen, outcomes
    if best is None:
        raise UsageError("No layer gives the texts different vectors, so there is nothing to choose; use other texts.")
    cell, chosen, outcomes = best
    statistics = chosen.to_bytes() if chosen is not None else b""
    return Pass(seconds, layers, cells, cell, statistics, [float(value) for value in outcomes])


def _fitted(steps: str, rows: np.ndarray, unembedding: Callable[[], np.ndarray] | None) -> Postprocessing | None:
    if steps == NONE:
        return None
    needed = unembedding() if unembedding is not None and parse_steps(steps).need_unembedding else None
    return fit(steps, [rows], unembedding=needed)


def _data_free(steps: Sequence[str], unembedding: Callable[[], np.ndarray] | None) -> dict[str, Postprocessing | None]:
    """Steps that need no vectors, fitted once for all layers."""
    if unembedding is None:
        return {}
    alone = [text for text in steps if text != NONE and not parse_steps(text).need_vectors]
    matrix = unembedding() if alone else None
    return {text: fit(text, [], unembedding=matrix) for text in alone}
