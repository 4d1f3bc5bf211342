"""Measuring retrieval: figures computed by hand, halves of the queries, splitting, progress and bad calls."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from slotrag import SlotragError, UsageError
from slotrag.encoders.registry import create
from slotrag.rag.evaluation.retrieval import RetrievalScores, evaluate_retrieval
from slotrag.rag.events import Cancelled, CancelToken, Progress

CORPUS = {
    "d1": ("apples", "red apples grow on trees"),
    "d2": ("", "green pears"),
    "d3": ("", "blue plums and red plums"),
    "d4": ("", "the tram leaves at noon"),
    "d5": ("empty", ""),
}
QUERIES = {"q1": "apples", "q2": "red", "q3": "tram noon", "q4": "zeppelin"}
JUDGEMENTS = {"q1": {"d1": 2}, "q2": {"d3": 1, "d1": 1}, "q3": {"d2": 1}, "q4": {"d4": 1}}


def write(folder: Path, corpus: dict[str, tuple[str, str]], queries: dict[str, str], judgements: dict) -> Path:
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": name, "title": title, "text": text} for name, (title, text) in corpus.items()]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    questions = [{"_id": name, "text": text} for name, text in queries.items()]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")
    rows = [f"{query}\t{document}\t{gain}" for query, gains in judgements.items() for document, gain in gains.items()]
    (folder / "qrels" / "test.tsv").write_text("\n".join(rows), encoding="utf-8")
    return folder


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write(tmp_path / "fruit", CORPUS, QUERIES, JUDGEMENTS)


def test_lexical_scores_by_hand(dataset: Path) -> None:
    found = evaluate_retrieval(dataset, encoder="there is no such encoder", modes=["lexical"])
    # q1 finds d1 first; q2 finds d1 and d3, in one order or the other; q3 finds d4, which is not relevant; q4 nothing.
    assert found.scores["lexical"]["recall@1"] == pytest.approx((1 + 1 / 2) / 4)
    assert found.scores["lexical"]["recall@5"] == pytest.approx((1 + 1) / 4)
    assert found.scores["lexical"]["mrr@10"] == pytest.approx((1 + 1) / 4)
    assert found.scores["lexical"]["ndcg@10"] == pytest.approx((1 + 1) / 4)
    assert (found.documents, found.passages, found.queries) == (5, 5, 4)
    assert found.encoder is None


def test_dense_is_exact_search_over_whole_documents(dataset: Path, hashing_encoder: str) -> None:
    found = evaluate_retrieval(dataset, encoder=hashing_encoder)
    assert list(found.scores) == ["dense", "lexical", "hybrid"]
    encoder = create(hashing_encoder)
    documents = encoder.encode_documents([f"{title} {text}".strip() for title, text in CORPUS.values()])
    cosines = encoder.encode_queries(list(QUERIES.values())) @ documents.T
    total = 0.0
    for row, gains in zip(cosines, JUDGEMENTS.values(), strict=True):
        order = [list(CORPUS)[position] for position in np.argsort(-row, kind="stable")]
        ideal = sum(gain / math.log2(rank + 1) for rank, gain in enumerate(sorted(gains.values())[::-1], start=1))
        gained = sum(gains.get(name, 0) / math.log2(rank + 1) for rank, name in enumerate(order, start=1))
        total += gained / ideal
    assert found.scores["dense"]["ndcg@10"] == pytest.approx(total / len(QUERIES))
    assert found.fingerprint == encoder.fingerprint


def test_an_encoder_object_is_taken_as_it_is(dataset: Path, hashing_encoder: str) -> None:
    by_name = evaluate_retrieval(dataset, encoder=hashing_encoder)
    by_object = evaluate_retrieval(dataset, encoder=create(hashing_encoder))
    assert by_name.scores == by_object.scores


def test_halves_part_the_queries(dataset: Path) -> None:
    options = {"encoder": "none", "modes": ["lexical"]}
    whole, even, odd = (evaluate_retrieval(dataset, queries=half, **options) for half in ("all", "even", "odd"))
    assert (even.queries, odd.queries) == (2, 2)
    assert even.scores["lexical"]["recall@5"] == pytest.approx(1 / 2)  # q1, q3
    assert odd.scores["lexical"]["recall@5"] == pytest.approx(1 / 2)  # q2, q4
    for name, value in whole.scores["lexical"].items():
        assert value == pytest.approx((even.scores["lexical"][name] + odd.scores["lexical"][name]) / 2)


def test_split_scores_a_document_by_its_best_passage(tmp_path: Path, hashing_encoder: str) -> None:
    filler = " ".join(f"Sentence {n} speaks of nothing but weather and roads." for n in range(200))
    corpus = {
        "long": ("", f"{filler} The zeppelin landed in Lakehurst. {filler}"),
        "other": ("", filler),
        "third": ("", "A balloon landed."),
    }
    folder = write(tmp_path / "long", corpus, {"q": "zeppelin Lakehurst"}, {"q": {"long": 1}})
    encoder = f"{hashing_encoder}:dimension=4096"
    whole = evaluate_retrieval(folder, encoder=encoder)
    parted = evaluate_retrieval(folder, encoder=encoder, split=True)
    assert whole.passages == 3
    assert parted.passages > 10
    assert parted.split
    assert [parted.scores[mode]["mrr@10"] for mode in parted.scores] == [1, 1, 1]
    # Each document is ranked once, however many of its passages are found.
    assert parted.scores["dense"]["recall@5"] == 1


def test_split_finds_many_documents_behind_one_with_many_passages(tmp_path: Path, hashing_encoder: str) -> None:
    crowd = " ".join(f"The red tram number {n} stops here." for n in range(5000))
    corpus = {"crowd": ("", crowd)} | {f"d{n}": ("", f"A tram, and {n} other words.") for n in range(20)}
    folder = write(tmp_path / "crowd", corpus, {"q": "red tram"}, {"q": {f"d{n}": 1 for n in range(20)}})
    found = evaluate_retrieval(folder, encoder=hashing_encoder, split=True)
    assert found.passages > 150
    assert found.scores["dense"]["recall@100"] == 1
    assert found.scores["lexical"]["recall@100"] == 1


def test_progress_goes_to_the_end_and_the_library_is_gone(dataset: Path, hashing_encoder: str) -> None:
    before = set(Path(tempfile.gettempdir()).glob("slotrag-evaluation-*"))
    seen: list[Progress] = []
    evaluate_retrieval(dataset, encoder=hashing_encoder, progress=seen.append)
    assert {report.stage for report in seen} == {"evaluate", "load"}
    ends = {report.unit: (report.done, report.total) for report in seen}
    assert ends["documents"] == (5, 5)
    assert ends["texts"] == (5, 5)
    assert ends["queries"] == (4, 4)
    assert set(Path(tempfile.gettempdir()).glob("slotrag-evaluation-*")) == before


def test_can_be_cancelled(dataset: Path, hashing_encoder: str) -> None:
    cancel = CancelToken()
    seen: list[Progress] = []

    def listen(report: Progress) -> None:
        seen.append(report)
        cancel.cancel()

    with pytest.raises(Cancelled):
        evaluate_retrieval(dataset, encoder=hashing_encoder, progress=listen, cancel=cancel)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"modes": ["sparse"]}, "no mode 'sparse'"),
        ({"modes": []}, "at least one"),
        ({"queries": "third"}, "all, even, odd"),
        ({"encoder": "hashin"}, "hashin"),
        ({"qrels": "dev"}, "missing"),
    ],
)
def test_bad_calls_say_what_is_wrong(dataset: Path, hashing_encoder: str, options: dict, problem: str) -> None:
    with pytest.raises(SlotragError, match=problem) as caught:
        evaluate_retrieval(dataset, **{"encoder": hashing_encoder, **options})
    assert "\n" not in str(caught.value)


def test_an_empty_half_is_declined(tmp_path: Path) -> None:
    folder = write(tmp_path / "one", CORPUS, {"q1": "apples"}, {"q1": {"d1": 1}})
    with pytest.raises(UsageError, match="odd half"):
        evaluate_retrieval(folder, encoder="none", modes=["lexical"], queries="odd")


def test_json_holds_the_scores(dataset: Path) -> None:
    found = evaluate_retrieval(dataset, encoder="none", modes=["lexical"])
    value = json.loads(json.dumps(found.to_json()))
    assert value["schema"] == 1
    assert value["dataset"] == "fruit"
    assert value["scores"]["lexical"] == found.scores["lexical"]
    assert isinstance(found, RetrievalScores)
