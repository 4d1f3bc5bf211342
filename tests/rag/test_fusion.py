import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag import UsageError
from slotrag.rag.fusion import reciprocal_rank_fusion

rankings = st.lists(st.lists(st.integers(0, 20), unique=True, max_size=12), max_size=4)


def test_scores_are_summed_reciprocal_ranks():
    fused = dict(reciprocal_rank_fusion([[7, 8], [8, 9]], constant=60))
    assert fused == pytest.approx({7: 1 / 61, 8: 1 / 62 + 1 / 61, 9: 1 / 62})


def test_a_weight_of_zero_leaves_the_other_order():
    assert [key for key, _ in reciprocal_rank_fusion([[1, 2], [2, 1]], weights=[0, 1])] == [2, 1]


@given(rankings)
def test_every_id_once_scores_descending(lists):
    fused = reciprocal_rank_fusion(lists)
    assert sorted(key for key, _ in fused) == sorted({key for ranking in lists for key in ranking})
    assert all(a[1] >= b[1] for a, b in zip(fused, fused[1:], strict=False))


@given(st.lists(st.integers(), unique=True), st.integers(1, 4))
def test_equal_rankings_keep_their_order(ranking, times):
    assert [key for key, _ in reciprocal_rank_fusion([ranking] * times)] == ranking


@given(rankings)
def test_equal_scores_keep_the_order_of_first_appearance(lists):
    fused = reciprocal_rank_fusion(lists)
    first = list(dict.fromkeys(key for ranking in lists for key in ranking))
    for (a, score), (b, other) in zip(fused, fused[1:], strict=False):
        assert score > other or first.index(a) < first.index(b)


@pytest.mark.parametrize("wrong", [{"constant": -1}, {"weights": [1.0]}])
def test_wrong_use(wrong):
    with pytest.raises(UsageError):
        reciprocal_rank_fusion([[1], [2]], **wrong)
