"""Fingerprints: one hash of everything that changes a vector. It knows no encoder: each lists its own facts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from .canonical_json import canonical_json


def fingerprint(facts: Mapping[str, object]) -> str:
    """sha256 of the canonical JSON of `facts`, 64 hex digits.

    Parameters
    ----------
    facts : mapping
        JSON values: the method's name and version, its parameters with the defaults filled in, prompts, pooling, the
        sha256 of weights and tokenizer. The order of keys does not matter; 1 and 1.0 are different facts.

    Raises
    ------
    TypeError, ValueError
        A value that JSON cannot hold exactly (an object, a set, not a number).

    Examples
    --------
    >>> fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    True
    >>> fingerprint({"a": 1}) == fingerprint({"a": "1"})
    False
    """
    return hashlib.sha256(canonical_json(facts)).hexdigest()
