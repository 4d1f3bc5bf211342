"""The sets of examples that one training learns together: each parted, each with a name of its own.

It knows no head and no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import UsageError
from .examples import Examples
from .settings import TrainingSettings


def parted(
    examples: Examples | Sequence[Examples],
    held_out: Examples | Sequence[Examples] | None,
    settings: TrainingSettings,
) -> list[tuple[Examples, Examples]]:
    """Of each set what is trained on and what is held out; by default a part of its own, as `settings` say.

    Raises
    ------
    TooFewExamples
        One of the sets has too few to hold some out.
    slotrag.UsageError
        There are no examples, or not as many sets held out.
    """
    sets = _listed(examples)
    if not sets:
        raise UsageError("There are no examples to train on; give at least one set of them.")
    if held_out is not None:
        others = _listed(held_out)
        if len(others) != len(sets) or not all(map(len, [*sets, *others])):
            raise UsageError("Every set of examples needs one that is held out, and none may be empty.")
        return list(zip(sets, others, strict=True))
    return [
        each.split(min(settings.held_out, settings.most_held_out / max(len(each), 1)), settings.seed) for each in sets
    ]


def names_of(parts: Sequence[tuple[Examples, Examples]]) -> list[str]:
    """The names of the sets, each once: the second of the same gets a number."""
    found: dict[str, None] = {}
    for train, _ in parts:
        number, candidate = 1, train.name
        while candidate in found:
            number += 1
            candidate = f"{train.name} {number}"
        found[candidate] = None
    return list(found)


def facts_of(parts: Sequence[tuple[Examples, Examples]]) -> list[dict[str, Any]]:
    """What decides what is learned from the sets, as JSON values."""
    return [
        {
            "kind": type(train).__name__,
            "name": train.name,
            "sha256": train.sha256,
            "licence": train.licence,
            "trained_on": {"examples": len(train), "sha256": train.content_sha256()},
            "held_out": {"examples": len(held), "sha256": held.content_sha256()},
        }
        for train, held in parts
    ]


def _listed(examples: Examples | Sequence[Examples]) -> list[Examples]:
    return list(examples) if isinstance(examples, Sequence) else [examples]
