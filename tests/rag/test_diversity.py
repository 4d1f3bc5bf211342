import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag import UsageError
from slotrag.rag.diversity import fold, spread

TEXT = (
    "The committee decided that every member pays the yearly fee of 100 won before the end of May, and that whoever is "
    "late by more than a month loses the vote."
)


def unit(rows):
    rows = np.asarray(rows, dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@given(st.integers(1, 12), st.integers(1, 15), st.integers(0, 2**16))
def test_zero_is_the_plain_order(count, k, seed):
    vectors = unit(np.random.default_rng(seed).normal(size=(count, 4)))
    assert spread(np.arange(count, 0, -1), vectors, k, 0.0) == list(range(min(k, count)))


@given(st.integers(1, 12), st.integers(1, 15), st.floats(0, 1), st.integers(0, 2**16))
def test_each_place_once_and_the_best_first_unless_only_unlikeness_counts(count, k, diversity, seed):
    vectors = unit(np.random.default_rng(seed).normal(size=(count, 4)))
    order = spread(np.arange(count, 0, -1), vectors, k, diversity)
    assert len(order) == min(k, count) == len(set(order))
    assert order[0] == 0


def test_a_like_passage_gives_way():
    vectors = unit([[1, 0], [1, 0.01], [0, 1]])
    assert spread(np.array([1.0, 0.99, 0.5]), vectors, 2, 0.0) == [0, 1]
    assert spread(np.array([1.0, 0.99, 0.5]), vectors, 2, 0.7) == [0, 2]


@pytest.mark.parametrize("diversity", [-0.1, 1.1, float("nan")])
def test_out_of_range(diversity):
    with pytest.raises(UsageError):
        spread(np.array([1.0]), unit([[1, 0]]), 1, diversity)


def test_nothing_to_spread():
    assert spread(np.empty(0), np.empty((0, 3), np.float32), 5, 0.5) == []


@pytest.mark.parametrize(
    "other",
    [TEXT.upper(), TEXT.replace(" ", "\n"), TEXT.replace(",", ""), TEXT.replace("yearly", "annual")],
)
def test_near_identical_texts_fold(other):
    assert fold([TEXT, "Something else.", other]) == [0, 1, 0]


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("100", "200"),
        TEXT + " The board may waive it once for a member who asks in writing.",
        TEXT.replace("May", "June").replace("month", "year").replace("vote", "seat"),
        "",
    ],
)
def test_different_texts_stay(other):
    assert fold([TEXT, other]) == [0, 1]


def test_short_texts_differ_by_a_word():
    assert fold(["The red door", "The blue door", "?", "!"]) == [0, 1, 2, 3]
