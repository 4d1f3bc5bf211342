"""Which rates and lengths a training step takes, by the steps done. It knows no data and no model.

``1:200,2:1000,2+4:*`` is rate 1 for 200 steps, then rate 2 for 1,000, then 2 and 4 by turns to the end. Lengths are
ranges in tokens: ``32-64:500,64-256:*``. Rates that rise step by step: METHODS' measurements; long contexts after short
ones: arXiv 2307.06945, appendix A.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .... import UsageError

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Stage(Generic[Value]):
    """Some values that hold for some steps.

    Attributes
    ----------
    values : tuple
        Of which each step takes one.
    steps : int or None
        None for all the steps that are left.
    """

    values: tuple[Value, ...]
    steps: int | None


@dataclass(frozen=True, slots=True)
class Curriculum(Generic[Value]):
    """Stages one after the other; the last one lasts.

    Attributes
    ----------
    text : str
        As it was written.
    stages : tuple of Stage
    """

    text: str
    stages: tuple[Stage[Value], ...]

    def values(self, step: int) -> tuple[Value, ...]:
        """Among which the step after `step` others chooses."""
        for stage in self.stages:
            if stage.steps is None or step < stage.steps:
                return stage.values
            step -= stage.steps
        return self.stages[-1].values

    @property
    def last(self) -> tuple[Value, ...]:
        """The values that it all leads to."""
        return self.stages[-1].values


def rates(text: str) -> Curriculum[float]:
    """A curriculum of rates (tokens for each slot, 1 or more).

    Raises
    ------
    slotrag.UsageError
        `text` is not of the form.

    Examples
    --------
    >>> found = rates("1:200,2+4:*")
    >>> found.values(199), found.values(200), found.last
    ((1.0,), (2.0, 4.0), (2.0, 4.0))
    """
    return _parsed(text, _rate, "--rates", "1:200,2:1000,4:*")


def lengths(text: str) -> Curriculum[tuple[int, int]]:
    """A curriculum of ranges of tokens, both ends in.

    Raises
    ------
    slotrag.UsageError
        `text` is not of the form.

    Examples
    --------
    >>> lengths("32-64:500,128:*").values(600)
    ((128, 128),)
    """
    return _parsed(text, _length, "--lengths", "32-64:500,64-256:*")


def _parsed(text: str, value: Callable[[str], Value], option: str, example: str) -> Curriculum[Value]:
    stages: list[Stage[Value]] = []
    try:
        for part in text.split(","):
            written, colon, count = part.strip().partition(":")
            steps = None if not colon or count.strip() == "*" else int(count)
            if (steps is not None and steps < 1) or (stages and stages[-1].steps is None):
                raise ValueError
            stages.append(Stage(tuple(value(one.strip()) for one in written.split("+")), steps))
    except ValueError:
        raise UsageError(
            f"{option} is a list of VALUE:STEPS, as in {example} (only the last may last, with *), not {text!r}."
        ) from None
    return Curriculum(text, tuple(stages))


def _rate(text: str) -> float:
    rate = float(text)
    if not 1 <= rate < math.inf:
        raise ValueError
    return rate


def _length(text: str) -> tuple[int, int]:
    shortest, dash, longest = text.partition("-")
    found = int(shortest), int(longest if dash else shortest)
    if not 1 <= found[0] <= found[1]:
        raise ValueError
    return found
