"""What tests of the commands get from a run of the program, and its JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Outcome = tuple[int, str, str]
Command = Callable[..., Outcome]


def value(outcome: Outcome, code: int = 0) -> dict[str, Any]:
    assert outcome[0] == code, outcome
    assert outcome[1].count("\n") == 1
    found = json.loads(outcome[1])
    assert found["schema"] == 1
    return found
