"""Pooling: equal to the plain formula over the text's own tokens, whatever stands in the padding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from slotrag import SlotragError
from slotrag.encoders.pooling import KINDS, pool, unit_rows, without_first

PLAIN = {
    "mean": lambda states: states.mean(axis=0),
    "max": lambda states: states.max(axis=0),
    "first": lambda states: states[0],
    "last": lambda states: states[-1],
}
texts = st.lists(
    st.integers(1, 7).flatmap(
        lambda tokens: hnp.arrays(np.float32, (tokens, 3), elements=st.floats(-1000, 1000, width=32))
    ),
    min_size=1,
    max_size=5,
)


def batch_of(states, left, padding, extra=0):
    """A padded batch; `left` says on which side each text's padding stands."""
    longest = max(len(text) for text in states) + extra
    batch = torch.full((len(states), longest, 3), padding)
    mask = torch.zeros((len(states), longest), dtype=torch.bool)
    for row, text in enumerate(states):
        start = longest - len(text) if left[row] else 0
        batch[row, start : start + len(text)] = torch.from_numpy(text)
        mask[row, start : start + len(text)] = True
    return batch, mask


@pytest.mark.parametrize("kind", KINDS)
@given(
    states=texts,
    left=st.lists(st.booleans(), min_size=5, max_size=5),
    padding=st.sampled_from([0.0, 1e30, float("inf"), float("-inf"), float("nan")]),
    extra=st.integers(0, 3),
)
def test_pooling_sees_the_texts_own_tokens_only(kind, states, left, padding, extra):
    pooled = pool(*batch_of(states, left, padding, extra), kind).numpy()
    np.testing.assert_allclose(pooled, [PLAIN[kind](text) for text in states], rtol=1e-5, atol=1e-3)
    assert pooled.dtype == np.float32


@given(
    tokens=hnp.arrays(np.float32, (5, 3), elements=st.floats(-100, 100, width=32)),
    order=st.permutations(range(5)),
    factor=st.floats(-4, 4, width=32),
)
def test_mean_is_linear_and_knows_no_order(tokens, order, factor):
    mask = torch.ones((1, 5), dtype=torch.bool)
    states = torch.from_numpy(tokens)[None]
    mean = pool(states, mask)
    torch.testing.assert_close(pool(states[:, list(order)], mask), mean, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(pool(factor * states, mask), factor * mean, rtol=1e-4, atol=1e-3)


def test_half_precision_states_are_pooled_in_full_precision():
    states = torch.ones((1, 3000, 1), dtype=torch.bfloat16)
    assert pool(states, torch.ones((1, 3000), dtype=torch.bool)).item() == 1.0


def test_unknown_pooling_is_refused():
    with pytest.raises(ValueError, match="mean, max, first, last"):
        pool(torch.ones(1, 1, 1), torch.ones(1, 1, dtype=torch.bool), "median")


@given(hnp.arrays(np.float32, st.tuples(st.integers(0, 5), st.integers(1, 6)), elements=st.floats(width=32)))
def test_rows_have_unit_length_or_are_refused(vectors):
    if not np.isfinite(vectors).all():
        with pytest.raises(SlotragError, match="not finite"):
            unit_rows(vectors)
        return
    rows = unit_rows(vectors)
    assert rows.shape == vectors.shape and rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    known = lengths[:, 0] > 0
    np.testing.assert_allclose(rows[known], vectors[known] / lengths[known], rtol=0, atol=1e-6)


def test_the_first_token_is_left_out_unless_it_is_alone_whatever_the_padding():
    mask = torch.tensor([[1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 0], [0, 0, 0, 1]]).bool()
    assert without_first(mask).int().tolist() == [[0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 1, 0], [0, 0, 0, 1]]
