"""What an adaptation had chosen when it was broken off, so that the next one goes on with the same. It chooses nothing.

``plan.json`` in the run's folder holds hashes and numbers, no text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...encoders.whole_files import write_whole
from .portions import Sides

_PLAN = "plan.json"


def read_plan(place: Path, facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """What an interrupted run had chosen; None where there is none that agrees in `facts`, or it is at its end."""
    path = place / _PLAN
    if not path.is_file() or (place / "result.json").is_file():
        return None
    plan = json.loads(path.read_bytes())
    return plan if plan["facts"] == json.loads(json.dumps(facts)) else None


def write_plan(place: Path, facts: Mapping[str, Any], pairs: str, sides: Sides) -> None:
    """Put down what is chosen: of which pairs (their sha256) how many of each kind."""
    plan = {
        "facts": facts,
        "pairs": pairs,
        "training": len(sides.training),
        "pool": len(sides.pool),
        "negatives": sides.negatives,
    }
    write_whole(place / _PLAN, json.dumps(plan, indent=1).encode() + b"\n")
