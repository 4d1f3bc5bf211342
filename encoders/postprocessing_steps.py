"""The steps of a post-processing as text, such as ``mean+top=3``. It knows no vector."""

from __future__ import annotations

from dataclasses import dataclass

from .. import UsageError

NONE = "none"
CHOICES = "none, or steps joined by '+': mean, top=N, whiten=N, embedfilter, embedfilter=N (for example mean+top=3)"


class PostprocessingError(UsageError):
    """Steps that do not exist, do not fit together, or that the vectors at hand do not allow."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: ``mean``, ``top``, ``whiten`` or ``embedfilter``, and its number (0 where it was left out)."""

    name: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.name}={self.number}" if self.number else self.name


class Steps(tuple[Step, ...]):
    """Steps in their order; `str` gives the canonical text, ``none`` without any."""

    __slots__ = ()

    def __str__(self) -> str:
        return "+".join(map(str, self)) or NONE

    @property
    def need_vectors(self) -> bool:
        """Whether statistics of vectors are needed."""
        return any(step.name != "embedfilter" for step in self)

    @property
    def need_unembedding(self) -> bool:
        """Whether the unembedding matrix of a causal language model is needed."""
        return any(step.name == "embedfilter" for step in self)


def parse_steps(text: str) -> Steps:
    """Take ``mean+top=3`` apart.

    Raises
    ------
    slotrag.UsageError
        An unknown step, a missing or superfluous number, a step given twice, a step after ``whiten``.

    Examples
    --------
    >>> str(parse_steps(" mean + top=3 "))
    'mean+top=3'
    >>> parse_steps("none")
    ()
    """
    if text.strip().lower() == NONE:
        return Steps()
    steps = Steps(_step(part) for part in text.split("+"))
    names = [step.name for step in steps]
    for name in names:
        if names.count(name) > 1:
            raise PostprocessingError(f"Give the post-processing step {name!r} only once, not {text!r}.")
    if "whiten" in names[:-1]:
        raise PostprocessingError(f"After 'whiten' all directions count alike, so it is the last step: not {text!r}.")
    return steps


def _step(part: str) -> Step:
    name, equals, number = (piece.strip() for piece in part.lower().partition("="))
    if name not in ("mean", "top", "whiten", "embedfilter"):
        raise PostprocessingError(f"There is no post-processing step {part.strip()!r}; write {CHOICES}.")
    if name == "mean" and equals:
        raise PostprocessingError(f"The post-processing step 'mean' takes no number: not {part.strip()!r}.")
    if name in ("top", "whiten") and not equals:
        raise PostprocessingError(f"The post-processing step {name!r} needs a number, as in {name}=3.")
    if equals and not (number.isascii() and number.isdecimal() and 0 < int(number) < 1_000_000):
        raise PostprocessingError(f"The number in {part.strip()!r} is a whole number from 1 on.")
    return Step(name, int(number) if equals else 0)


def require_possible(steps: Steps, dimension: int) -> None:
    """Refuse steps that no vectors of this dimension allow, before anything is encoded for them.

    Raises
    ------
    slotrag.UsageError
    """
    for step in steps:
        whole = step.name in ("whiten", "embedfilter")
        most = dimension if whole else dimension - 1
        if step.number > most:
            advice = f"choose {step.name}={most} or less" if most else "leave it out"
            raise PostprocessingError(f"{str(step)!r} is too much for vectors of {dimension} dimensions: {advice}.")
        if whole:
            dimension = step.number or max(dimension // 2, 1)
