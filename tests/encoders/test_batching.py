"""Batching: every text once, within the budget, results in the caller's order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from slotrag.encoders.batching import batches, encode_in_batches

all_lengths = st.lists(st.integers(1, 50), max_size=60)


@given(all_lengths, st.integers(1, 200), st.integers(1, 20))
def test_each_position_once_and_within_the_budget(lengths, budget, most):
    found = list(batches(lengths, budget, most))
    assert sorted(position for batch in found for position in batch) == list(range(len(lengths)))
    for batch in found:
        padded = len(batch) * max(lengths[position] for position in batch)
        assert 1 <= len(batch) <= most
        assert padded <= budget or len(batch) == 1


@given(all_lengths, st.integers(1, 200), st.integers(1, 20))
def test_batches_hold_neighbours_in_length(lengths, budget, most):
    flat = [lengths[position] for batch in batches(lengths, budget, most) for position in batch]
    assert flat == sorted(lengths, reverse=True)


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=20), max_size=40), st.integers(1, 60))
def test_results_come_back_in_order(token_lists, budget):
    calls = []

    def encode(batch):
        calls.append(len(batch))
        return np.array([[len(tokens), sum(tokens)] for tokens in batch], dtype=np.float32)

    rows = encode_in_batches(token_lists, encode, 2, budget=budget, most=8)
    assert rows.shape == (len(token_lists), 2) and rows.dtype == np.float32
    assert rows.tolist() == [[len(tokens), sum(tokens)] for tokens in token_lists]
    assert sum(calls) == len(token_lists)


def test_padding_is_a_small_part_of_mixed_lengths():
    lengths = list(np.random.default_rng(0).integers(5, 250, 1000))
    padded = sum(len(batch) * max(lengths[place] for place in batch) for batch in batches(lengths, 2048, 32))
    assert padded < 1.05 * sum(lengths)
