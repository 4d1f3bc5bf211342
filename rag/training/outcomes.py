"""What came of training a head: kept or not, by how much better, at which cost. It trains and prints nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...encoders.training.loop import Check
    from .comparing import Comparison


@dataclass(frozen=True, slots=True)
class DataUsed:
    """A set of examples: what it is, and what how many of its examples were for.

    Attributes
    ----------
    trained_on : int
        What the head was learned from.
    watched : int
        What said when training ended and which weights are kept.
    judged : int
        What the gain is told on, and whether the head is kept; neither training nor its end saw a text of it.
    """

    name: str
    kind: str
    sha256: str
    licence: str
    trained_on: int
    watched: int
    judged: int


@dataclass(frozen=True)
class HeadOutcome:
    """What came of training a head.

    Attributes
    ----------
    method : str
        ``glot``, ``ilse``, ``attention`` ...
    against : str
        What it was compared with: ``mean pooling``, or the spec of a collection's encoder.
    kept : bool
        Whether it is better on the examples that it is judged on, and only then saved.
    spec : str or None
        Names the encoder with the new head; None where it was not kept.
    file : Path or None
        The head's JSON.
    comparisons : list of Comparison
        On the judged examples. The first decides for a collection; for labelled files their mean does.
    data : list of DataUsed
        The sets of examples, in three parts each.
    curve : list of Check
        Measures of the watched examples during the training.
    parameters, steps : int
        Trained numbers, batches.
    stopped : str
        Why the training ended: ``epochs``, ``patience``, ``time``.
    seconds : dict of str to float
        ``states``, ``training`` and ``all``, and for a collection ``questions``.
    state_bytes, head_bytes : int
        Disk that the states took, and that the head takes.
    run : Path
        The folder with configuration, curve and result.
    command : str or None
        What makes a collection's vectors anew with the head; the old ones stay valid until then.
    postprocessing : str or None
        What that command gives as ``--postprocessing``: ``none`` where the collection has one, without which the head
        was compared.
    pairs : dict of str to int
        Pairs of a collection that were trained on, by kind.
    """

    method: str
    against: str
    kept: bool
    spec: str | None
    file: Path | None
    comparisons: Sequence[Comparison]
    data: Sequence[DataUsed]
    curve: Sequence[Check]
    parameters: int
    steps: int
    stopped: str
    seconds: dict[str, float]
    state_bytes: int
    head_bytes: int
    run: Path
    command: str | None = None
    postprocessing: str | None = None
    pairs: dict[str, int] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)

    @property
    def gain(self) -> float:
        """By how much it is better on the judged examples."""
        deciding = self.comparisons[:1] if self.pairs else self.comparisons
        return sum(one.gain.value for one in deciding) / len(deciding)

    def to_json(self) -> dict[str, Any]:
        """The value that ``slotrag train --json`` writes."""
        values = {name: value for name, value in vars(self).items() if name not in ("comparisons", "data", "curve")}
        return {
            "schema": 1,
            **values,
            "file": str(self.file) if self.file is not None else None,
            "run": str(self.run),
            "gain": self.gain,
            "comparisons": [asdict(one) for one in self.comparisons],
            "data": [asdict(one) for one in self.data],
            "curve": [asdict(check) for check in self.curve],
        }
