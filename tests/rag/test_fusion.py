import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag import UsageError
from slotrag.rag.fusion import FusionSettings, fuse_sides

sides = st.dictionaries(st.integers(0, 20), st.floats(-1, 50), max_size=12).map(
    lambda scores: sorted(scores.items(), key=lambda item: -item[1])
)


def test_scores_are_reciprocal_ranks_scaled_by_the_share_of_the_best():
    settings = FusionSettings(constant=60, dense_weight=2, lexical_weight=1)
    fused = dict(fuse_sides([(7, 0.8), (8, 0.6)], [(8, 20.0), (9, 5.0)], settings))
    assert fused == pytest.approx({7: 2, 8: 2 * 0.75 * 61 / 62 + 1, 9: 0.25 * 61 / 62})


def test_first_on_both_sides_scores_one():
    assert fuse_sides([(1, 0.7), (2, 0.1)], [(1, 12.0)])[0] == (1, pytest.approx(1.0))


def test_the_hit_that_both_sides_rate_well_comes_first():
    assert fuse_sides([(1, 0.9), (2, 0.8)], [(3, 9.0), (2, 8.0)])[0][0] == 2


def test_a_far_better_first_hit_outweighs_being_second_on_both_sides():
    fused = fuse_sides([(1, 0.82), (2, 0.80)], [(1, 30.0), (2, 10.0), (3, 9.0)])
    assert [key for key, _ in fused] == [1, 2, 3]
    third_on_the_other = fuse_sides([(2, 0.82), (3, 0.81), (1, 0.80)], [(1, 30.0), (2, 5.0), (3, 5.0)])
    assert third_on_the_other[0][0] == 1


def test_a_weight_of_zero_leaves_the_other_order():
    fused = fuse_sides([(1, 0.9), (2, 0.8)], [(2, 9.0), (1, 1.0)], FusionSettings(dense_weight=0))
    assert [key for key, _ in fused] == [2, 1]


def test_a_side_without_a_score_above_zero_counts_by_rank():
    fused = fuse_sides([(1, -0.1), (2, -0.2)], [])
    assert [key for key, _ in fused] == [1, 2]
    assert fused[0][1] > fused[1][1] > 0


@given(sides, sides)
def test_every_id_once_scores_descending_and_finite(dense, lexical):
    fused = fuse_sides(dense, lexical)
    assert sorted(key for key, _ in fused) == sorted({key for key, _ in [*dense, *lexical]})
    assert all(a[1] >= b[1] >= 0 for a, b in itertools.pairwise(fused))


@given(sides, st.floats(1e-3, 1e3))
def test_the_scale_of_a_side_makes_no_difference(side, factor):
    scaled = [(key, score * factor) for key, score in side]
    assert dict(fuse_sides(side, [])) == pytest.approx(dict(fuse_sides(scaled, [])))


@given(sides, sides)
def test_equal_scores_keep_the_order_of_first_appearance(dense, lexical):
    fused = fuse_sides(dense, lexical)
    first = list(dict.fromkeys(key for key, _ in [*dense, *lexical]))
    for (a, score), (b, other) in itertools.pairwise(fused):
        assert score > other or first.index(a) < first.index(b)


def test_a_negative_constant_is_wrong_use():
    with pytest.raises(UsageError):
        FusionSettings(constant=-1)


@given(sides, st.randoms(use_true_random=False))
def test_the_order_of_equal_scores_does_not_count(side, random):
    equal = [(key, float(round(score))) for key, score in side]
    shuffled = random.sample(equal, len(equal))
    first, second = (sorted(rows, key=lambda row: -row[1]) for rows in (equal, shuffled))
    assert dict(fuse_sides(first, second)) == pytest.approx(dict(fuse_sides(second, first)))
    assert dict(fuse_sides(first, [])) == pytest.approx(dict(fuse_sides(second, [])))
