"""The held-out measures, against those of ir-measures and scipy."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
from slotrag.encoders.training.measures import accuracy, ranking, spearman


@pytest.mark.parametrize("seed", range(4))
def test_ndcg_and_mrr_are_those_of_ir_measures(seed):
    generator = np.random.default_rng(seed)
    queries, passages = generator.normal(size=(300, 6)), generator.normal(size=(40, 6))
    relevant = [set(generator.choice(40, size=generator.integers(1, 14), replace=False).tolist()) for _ in queries]
    found = ranking(queries, passages, relevant)
    judged = [ir_measures.Qrel(str(q), str(p), 1) for q, places in enumerate(relevant) for p in places]
    scores = queries @ passages.T
    run = [ir_measures.ScoredDoc(str(q), str(p), scores[q, p]) for q in range(300) for p in range(40)]
    for name, measure in (("ndcg", ir_measures.nDCG @ 10), ("mrr", ir_measures.RR @ 10)):
        each = {int(one.query_id): one.value for one in measure.iter_calc(judged, run)}
        assert [each[query] for query in range(300)] == pytest.approx(found[name].tolist(), abs=1e-6)


def test_fewer_passages_than_ranks():
    found = ranking(np.eye(2), np.eye(2), [{0}, {0}])
    assert found["ndcg"].tolist() == [1.0, pytest.approx(1 / np.log2(3))]
    assert found["mrr"].tolist() == [1.0, 0.5]


def test_spearman_is_that_of_scipy():
    from scipy.stats import spearmanr

    generator = np.random.default_rng(0)
    found, expected = generator.normal(size=200).round(1), generator.integers(0, 6, size=200)
    assert spearman(found, expected) == pytest.approx(spearmanr(found, expected).statistic, abs=1e-12)
    assert spearman(np.ones(3), np.arange(3)) == 0.0


def test_accuracy():
    assert accuracy(["a", "b", "c", "a"], ["a", "b", "b", "b"]) == 0.5
