"""Retrieval measures by ir-measures: nDCG@10 with linear gain, recall and reciprocal rank. It knows no retrieval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MEASURES = {
    "ndcg@10": "nDCG@10",
    "recall@1": "R@1",
    "recall@5": "R@5",
    "recall@10": "R@10",
    "recall@100": "R@100",
    "mrr@10": "RR@10",
}
"""Our names, and those of ir-measures. nDCG is trec_eval's, whose gain is the judgement itself (linear)."""


def mean_scores(judgements: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Each measure's mean over all judged queries; a query without a ranking counts as nothing found.

    Parameters
    ----------
    judgements : gains by query id and document id; 0 and below is not relevant
    rankings : document ids by query id, best first. Only the order counts, so that equal scores make no difference.

    Examples
    --------
    >>> scores = mean_scores({"q": {"a": 1}}, {"q": ["b", "a"]})
    >>> scores["recall@1"], scores["recall@5"], scores["mrr@10"]
    (0.0, 1.0, 0.5)
    """
    import ir_measures

    run = {
        query: {document: float(-rank) for rank, document in enumerate(documents)}
        for query, documents in rankings.items()
    }
    names = {ir_measures.parse_measure(theirs): ours for ours, theirs in MEASURES.items()}
    qrels = {query: dict(gains) for query, gains in judgements.items()}
    found = ir_measures.calc_aggregate(list(names), qrels, run)
    by_name = {names[measure]: float(value) for measure, value in found.items()}
    return {name: by_name[name] for name in MEASURES}


def scores_by_query(
    judgements: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]], measure: str
) -> dict[str, float]:
    """One of `MEASURES` for each judged query; arguments as for `mean_scores`.

    Examples
    --------
    >>> scores_by_query({"q": {"a": 1}, "p": {"b": 1}}, {"q": ["b", "a"]}, "mrr@10")
    {'q': 0.5, 'p': 0.0}
    """
    import ir_measures

    run = {
        query: {document: float(-rank) for rank, document in enumerate(documents)}
        for query, documents in rankings.items()
    }
    qrels = {query: dict(gains) for query, gains in judgements.items()}
    found = dict.fromkeys(judgements, 0.0)
    for row in ir_measures.iter_calc([ir_measures.parse_measure(MEASURES[measure])], qrels, run):
        found[row.query_id] = float(row.value)
    return found
