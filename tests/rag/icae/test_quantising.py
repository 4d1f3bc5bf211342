"""Slots as bytes: what each form loses, what it takes up, and that changed bytes are not read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from slotrag import UsageError
from slotrag.rag.icae.quantising import FORMS, SlotsDamaged, byte_count, form_of, from_bytes, to_bytes
from slotrag.rag.icae.slots import Slots

LARGEST = {"int8": 127, "int4": 7}
HEADER = 28


@st.composite
def some_slots(draw, limit: float = 60_000.0) -> Slots:
    rows, width = draw(st.integers(0, 6)), draw(st.integers(1, 9))
    numbers = st.floats(-limit, limit, width=32)
    values = draw(arrays(np.float32, (rows, width), elements=numbers))
    places = sorted(draw(st.sets(st.integers(0, 5_000), min_size=rows, max_size=rows)))
    tokens, span = draw(st.integers(0, 2**32 - 1)), draw(st.integers(0, 2**32 - 1))
    return Slots(values, np.array(places, dtype=np.int64), tokens, span)


def drawn(rows: int = 5, width: int = 7) -> Slots:
    values = np.random.default_rng(0).normal(size=(rows, width)).astype(np.float32)
    return Slots(values, np.arange(rows, dtype=np.int64) * 4, rows * 4, rows * 4)


@given(some_slots(), st.sampled_from(FORMS))
def test_everything_but_the_rows_comes_back_exactly(slots: Slots, form: str) -> None:
    data = to_bytes(slots, form)
    found = from_bytes(data)
    assert form_of(data) == form
    assert found.rows.shape == slots.rows.shape and found.rows.dtype == np.float32
    assert found.positions.tolist() == slots.positions.tolist() and found.positions.dtype == np.int64
    assert (found.tokens, found.span) == (slots.tokens, slots.span)


@given(some_slots())
def test_float16_loses_its_own_rounding(slots: Slots) -> None:
    found = np.asarray(from_bytes(to_bytes(slots, "float16")).rows)
    assert (np.abs(found - slots.rows) <= np.maximum(np.abs(slots.rows) * 2.0**-11, 2.0**-25)).all()


@given(some_slots(limit=float(np.float32(1e30))), st.sampled_from(sorted(LARGEST)))
def test_whole_numbers_are_off_by_half_a_step_of_their_row(slots: Slots, form: str) -> None:
    found = np.asarray(from_bytes(to_bytes(slots, form)).rows, dtype=np.float64)
    given_rows = np.asarray(slots.rows, dtype=np.float64)
    steps = np.abs(given_rows).max(axis=1, initial=0) / LARGEST[form]
    # Scale, quotient and product are rounded to float32; steps below its normal numbers are not even.
    bound = steps * 0.5 * (1 + 1e-4) + 1e-37
    assert (np.abs(found - given_rows) <= bound[:, None]).all()


@given(some_slots(), st.sampled_from(FORMS))
def test_a_row_and_its_negative_lose_the_same_and_reading_again_loses_nothing(slots: Slots, form: str) -> None:
    found = from_bytes(to_bytes(slots, form))
    mirrored = from_bytes(to_bytes(Slots(-slots.rows, slots.positions, slots.tokens, slots.span), form))
    np.testing.assert_array_equal(mirrored.rows, -found.rows)
    again = from_bytes(to_bytes(found, form))
    np.testing.assert_allclose(again.rows, found.rows, rtol=1e-6, atol=1e-37)


@given(st.integers(0, 9), st.integers(1, 9), st.sampled_from(FORMS))
def test_sizes(rows: int, width: int, form: str) -> None:
    body = {"float16": 2 * width, "int8": 4 + width, "int4": 4 + -(-width // 2)}[form]
    assert len(to_bytes(drawn(rows, width), form)) == byte_count(rows, width, form) == HEADER + rows * (4 + body)


def test_a_passage_of_a_small_model_at_rate_4() -> None:
    """50 slots of width 576: the sizes that a limit is chosen by."""
    assert [byte_count(50, 576, form) for form in FORMS] == [57_828, 29_228, 14_828]


def test_the_bytes_of_int4_written_out() -> None:
    data = to_bytes(Slots(np.array([[7.0, -7.0, 3.2]], dtype=np.float32), np.array([2]), 5, 6), "int4")
    assert data[HEADER:] == bytes([2, 0, 0, 0]) + np.float32(1).tobytes() + bytes([15 | 1 << 4, 11])
    assert np.asarray(from_bytes(data).rows).tolist() == [[7.0, -7.0, 3.0]]


@pytest.mark.parametrize("form", FORMS)
def test_changed_bytes_are_refused(form: str) -> None:
    data = to_bytes(drawn(), form)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 0x10
        with pytest.raises(SlotsDamaged, match="made again"):
            from_bytes(bytes(changed))
    for cut in (b"", data[:10], data[:-1], data + b"\0"):
        with pytest.raises(SlotsDamaged):
            from_bytes(cut)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_refused(form: str, number: float) -> None:
    slots = drawn()
    np.asarray(slots.rows)[2, 3] = number
    with pytest.raises(ValueError, match="not finite"):
        to_bytes(slots, form)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="float16"):
        to_bytes(Slots(np.full((1, 2), 70_000, dtype=np.float32), np.zeros(1), 1, 1), "float16")
    with pytest.raises(ValueError, match="32 bits"):
        to_bytes(Slots(np.zeros((1, 2), dtype=np.float32), np.array([2**32]), 1, 1), "int8")
    with pytest.raises(UsageError, match="float16, int8, int4"):
        to_bytes(drawn(), "int2")
