"""JSON of which equal values give equal bytes, so that it can be hashed. It knows nothing of what is hashed."""

from __future__ import annotations

import json
from collections.abc import Mapping


def canonical_json(value: Mapping[str, object]) -> bytes:
    """`value` as ASCII JSON on one line, keys in order; 1 and 1.0 are different.

    Raises
    ------
    TypeError, ValueError
        It holds what JSON cannot hold exactly: an object, a set, not a number, a key that is no text.

    Examples
    --------
    >>> canonical_json({"b": [2], "a": 1})
    b'{"a":1,"b":[2]}'
    """
    _require_text_keys(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def _require_text_keys(value: object) -> None:
    """JSON turns the key 1 into "1" in silence, and so two values into one."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a key is text, not {key!r}")
            _require_text_keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _require_text_keys(inner)
