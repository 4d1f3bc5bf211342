"""Fingerprints: the same for the same facts everywhere, another for any other."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.encoders.fingerprint import fingerprint

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
facts = st.dictionaries(st.text(max_size=6), values, max_size=5)


def written(value):
    """A value with its types: Python takes 1, 1.0 and True for equal."""
    if isinstance(value, dict):
        return {key: written(inner) for key, inner in value.items()}
    return [written(inner) for inner in value] if isinstance(value, list) else repr(value)


@given(facts, st.randoms(use_true_random=False))
def test_order_of_facts_does_not_matter(given_facts, random):
    shuffled = list(given_facts.items())
    random.shuffle(shuffled)
    assert fingerprint(dict(shuffled)) == fingerprint(given_facts)


@given(facts, facts)
def test_other_facts_have_another_fingerprint(first, second):
    assert (fingerprint(first) == fingerprint(second)) == (written(first) == written(second))


def test_it_is_64_hex_digits_and_never_changes():
    # Stored libraries hold such values: a change here would make every one of them be rebuilt.
    assert (
        fingerprint({"method": "mean", "layer": 6, "prefix": "query: ", "글": [1, 2.5, None, True]})
        == "e617e4d708dcb762098048e1d9b36c7e417ee3e469de2700e28d24df41ac3d9d"
    )


def test_another_process_gives_the_same():
    program = "from slotrag.encoders.fingerprint import fingerprint; print(fingerprint(dict(b=1, a=dict(y=2, x=3))))"
    found = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {fingerprint({"a": {"x": 3, "y": 2}, "b": 1})}


@pytest.mark.parametrize("fact", [float("nan"), float("inf"), {1, 2}, object(), {1: "a"}, b"bytes"])
def test_what_json_cannot_hold_is_refused(fact):
    with pytest.raises((TypeError, ValueError)):
        fingerprint({"fact": fact})
