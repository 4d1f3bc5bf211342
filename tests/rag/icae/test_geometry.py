"""Groups, centres, segments and places, for every size that can come."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.rag.icae.geometry import centres, groups, segments, slot_count, slotting, starts

TOKENS = st.integers(1, 700)


@given(TOKENS, st.integers(10, 320))
def test_slots_are_the_tokens_by_the_rate_rounded_up(tokens, tenths):
    exact = -(-tokens // Fraction(tenths, 10))
    assert slot_count(tokens, tenths / 10) == min(tokens, exact)
    assert slot_count(tokens, 1) == tokens


@pytest.mark.parametrize("rate", [0, 0.99, -2, float("inf"), float("nan")])
def test_a_rate_below_one_is_refused(rate):
    with pytest.raises(ValueError, match="rate"):
        slot_count(8, rate)


@given(TOKENS, st.data())
def test_each_token_is_in_exactly_one_group_of_like_size(tokens, data):
    slots = data.draw(st.integers(1, tokens))
    boundaries = groups(tokens, slots)
    sizes = np.diff(boundaries)
    assert boundaries[0] == 0 and boundaries[-1] == tokens and len(sizes) == slots
    assert sizes.min() >= 1 and sizes.max() - sizes.min() <= 1
    for centre, first, last in zip(centres(boundaries), boundaries, boundaries[1:], strict=False):
        assert first <= centre < last and abs((centre - first) - (last - 1 - centre)) <= 1


@pytest.mark.parametrize(("tokens", "slots"), [(3, 4), (3, 0), (0, 1), (3, -1)])
def test_groups_that_cannot_be_are_refused(tokens, slots):
    with pytest.raises(ValueError, match="groups"):
        groups(tokens, slots)


@given(st.integers(0, 5000), st.integers(1, 600))
def test_segments_cover_a_text_once_and_are_as_few_as_can_be(tokens, longest):
    cuts = segments(tokens, longest)
    assert [at for cut in cuts for at in range(cut.start, cut.stop)] == list(range(tokens))
    assert len(cuts) == -(-tokens // longest)
    sizes = [cut.stop - cut.start for cut in cuts]
    assert all(0 < size <= longest for size in sizes) and len(set(sizes[:-1])) <= 1
    assert not sizes or sizes[0] - len(sizes) < sizes[-1] <= sizes[0]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.data())
def test_a_batch_holds_each_segments_own_slots(lengths, data):
    counts = [data.draw(st.integers(1, tokens)) for tokens in lengths]
    plan = slotting(lengths, counts, centred=True)
    assert plan.weights is not None and plan.weights.shape == (len(lengths), max(counts), max(lengths))
    for row, (tokens, slots) in enumerate(zip(lengths, counts, strict=True)):
        alone = slotting([tokens], [slots], centred=True)
        assert alone.weights is not None
        assert np.array_equal(plan.weights[row, :slots, :tokens], alone.weights[0])
        assert np.array_equal(plan.positions[row, :slots], alone.positions[0])
        assert plan.mask[row].sum() == slots and not plan.weights[row, slots:].any()
        assert np.allclose(alone.weights[0].sum(axis=1), 1.0)
        assert (np.diff(alone.positions[0]) >= 1).all()


def test_numbered_slots_need_no_groups():
    plan = slotting([2, 5], [4, 4], centred=False, grouped=False)
    assert plan.weights is None and plan.positions.tolist() == [[0, 1, 2, 3]] * 2
    with pytest.raises(ValueError, match="centres"):
        slotting([4], [2], centred=True, grouped=False)


@given(st.lists(st.integers(0, 50), max_size=6), st.integers(0, 99))
def test_places_of_several_passages(spans, base):
    assert starts(spans, base, parallel=True) == ([base] * len(spans), base + max(spans, default=0))
    begins, after = starts(spans, base, parallel=False)
    assert after == base + sum(spans) and begins == [base + sum(spans[:at]) for at in range(len(spans))]
