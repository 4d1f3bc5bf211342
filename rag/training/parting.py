"""Parts examples in three: to train on, to be watched while training, to be judged on. It knows no kind of example.

What is watched says when training ends and which weights are kept, so that its measure is the best of several; what is
judged was seen by neither, so that its measure is that of new data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from ...encoders.training.examples import TooFewExamples

LEAST_JUDGED = 10
"""Examples below which a gain cannot be told from chance."""

_WATCHED = 0.1
"""Share of what is not judged."""

_ENOUGH, _MOST_OF_FEW = 20, 0.25
"""Of few examples a larger share is set apart: as many as this, up to a quarter of them."""


class Splittable(Protocol):
    """Examples that can be parted so that no text is on both sides."""

    def __len__(self) -> int: ...

    def split(self, held_out: float, seed: int) -> tuple[Self, Self]: ...


Kind = TypeVar("Kind", bound=Splittable)


@dataclass(frozen=True, slots=True)
class Parting(Generic[Kind]):
    """Examples by what they are for; none of their texts is for two things."""

    training: Kind
    watched: Kind
    judged: Kind


def in_three(examples: Kind, judged: float, seed: int, *, most: int | None = None) -> Parting[Kind]:
    """Part examples by their own rules.

    Parameters
    ----------
    judged : float
        Share to judge on, above 0 and below 1.
    most : int, optional
        Examples to judge on, and to watch, at most.

    Raises
    ------
    TooFewExamples
        One of the parts would be empty, where the examples' own `split` minds.
    """
    rest, last = examples.split(_share(judged, len(examples), most), seed)
    training, watched = rest.split(_share(_WATCHED, len(rest), most), seed + 1)
    return Parting(training, watched, last)


def require_enough(parts: Parting[Kind], name: str) -> None:
    """Raise `TooFewExamples` where a gain on what is judged would say nothing."""
    count = len(parts.judged)
    if count < LEAST_JUDGED:
        whole = len(parts.training) + len(parts.watched) + count
        enough = int(LEAST_JUDGED / _MOST_OF_FEW)
        raise TooFewExamples(
            f"Of the {whole} examples of {name} only {count} can be set apart to judge a head on, and at least "
            f"{LEAST_JUDGED} are needed: give more examples ({enough} different ones are enough as a rule), or a "
            "larger share with --held-out."
        )


def _share(wanted: float, count: int, most: int | None) -> float:
    share = wanted if most is None else min(wanted, most / max(count, 1))
    return max(share, min(_ENOUGH / max(count, 1), _MOST_OF_FEW))
