"""Labelled files as examples: which kind a file is, what its rows give, and what is wrong with others."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from slotrag import UsageError
from slotrag.encoders.training.examples import Labelled, Queries, ScoredPairs
from slotrag.rag.evaluation.errors import DatasetError
from slotrag.rag.training.labelled import read_examples


def jsonl(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "jsonl.gz"])
def test_texts_with_labels(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"bank.{form}"
    rows = [("my card, please", "card"), ("the rate", "rate")]
    if form.startswith("jsonl"):
        data = "".join(json.dumps({"text": text, "category": label}) + "\n" for text, label in rows)
    else:
        gap = "," if form == "csv" else "\t"
        quote = '"' if form == "csv" else ""
        data = gap.join(("text", "category")) + "\n"
        data += "".join(f"{quote}{text}{quote}{gap}{label}\n" for text, label in rows)
    path.write_bytes(gzip.compress(data.encode()) if form.endswith("gz") else data.encode())
    found = read_examples(path, licence="CC0-1.0")
    assert isinstance(found, Labelled)
    assert list(zip(found.texts, found.labels, strict=True)) == rows
    assert found.licence == "CC0-1.0" and len(found.sha256) == 64 and found.name.startswith("bank")


def test_pairs_with_names_and_as_the_benchmark_has_them(tmp_path: Path) -> None:
    named = tmp_path / "p.tsv"
    named.write_text("sentence1\tsentence2\tscore\na cat\ta dog\t1\na bird\ta wren\t4.5\nb\tc\t0\n", encoding="utf-8")
    plain = tmp_path / "sts.csv"
    plain.write_text(
        "".join(f"g\tf\ty\t{n}\t{s}\t{a}\t{b}\n" for n, (a, b, s) in enumerate([("x", "y", 1), ("z", "w", 2)] * 2)),
        encoding="utf-8",
    )
    found = read_examples(named)
    assert isinstance(found, ScoredPairs) and found.scores == [1.0, 4.5, 0.0]
    found = read_examples(plain)
    assert isinstance(found, ScoredPairs) and found.first == ["x", "z", "x", "z"]


def test_sentences_with_their_scores_beside_them(tmp_path: Path) -> None:
    (tmp_path / "STS.input.x.txt").write_text("a\tb\nc\td\ne\tf\n")
    (tmp_path / "STS.gs.x.txt").write_text("1\n2\n3\n")
    for path in (tmp_path / "STS.input.x.txt", tmp_path):
        found = read_examples(path)
        assert isinstance(found, ScoredPairs) and found.scores == [1.0, 2.0, 3.0]


def test_queries(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "q.jsonl",
        {"question": "who wrote it?", "passage": "Ann wrote it.", "negative": "Bob read it.", "label": 1},
        {"question": "언제?", "passage": ["화요일.", "수요일."], "negative": ["never", "not now"]},
        {"question": "where", "passage": "here"},
    )
    found = read_examples(path)
    assert isinstance(found, Queries)
    assert found.queries == ["who wrote it?", "언제?", "언제?", "where"]
    assert found.positives == ["Ann wrote it.", "화요일.", "수요일.", "here"]
    assert found.negatives == ["Bob read it.", "never", "never", None]
    without = read_examples(jsonl(tmp_path / "r.jsonl", {"query": "a", "positive": "b"}))
    assert isinstance(without, Queries) and without.negatives is None


def test_columns_decide_the_kind(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("ask\ttext\tlabel\nwho?\tAnn\tperson\nwhen?\tMay\ttime\n", encoding="utf-8")
    assert isinstance(read_examples(path), Labelled)
    found = read_examples(path, columns={"query": "ask", "positive": "text"})
    assert isinstance(found, Queries) and found.queries == ["who?", "when?"]
    with pytest.raises(DatasetError, match=r"line 1: there is no column 'asks'; there are ask, text, label"):
        read_examples(path, columns={"query": "asks", "positive": "text"})
    for wrong in ({"query": "ask"}, {"asked": "ask", "positive": "text"}, {"query": "", "positive": "text"}):
        with pytest.raises(UsageError):
            read_examples(path, columns=wrong)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"query": "a", "positive": "b"}, {"query": "c", "positive": " "}], r"line 2: there is no text in 'positive'"),
        ([{"query": "a", "positive": []}], r"line 1: there is no text in 'positive'"),
        ([{"query": "a", "positive": "b"}, {"positive": "b"}], r"line 2: there is no text in 'query'"),
        ([{"text": "a", "label": "x"}, {"text": "b"}], r"line 2: there is no label in 'label'"),
        ([{"text": "a", "label": "x"}, {"text": "b", "label": "x"}], "two labels are needed"),
        ([{"one": "a", "two": "b"}], r"its columns \(one, two\) are none of the kinds.*--columns"),
        ([["a"]], r"line 1: a line is a JSON object"),
    ],
)
def test_what_is_wrong_is_named_with_line_and_column(tmp_path: Path, rows: list[object], said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        read_examples(jsonl(tmp_path / "x.jsonl", *rows))


def test_a_folder_gives_only_judgements_made_to_train_on(tmp_path: Path) -> None:
    jsonl(tmp_path / "corpus.jsonl", {"_id": "1", "title": "Fees", "text": "It is free."}, {"_id": "2", "text": "No."})
    jsonl(tmp_path / "queries.jsonl", {"_id": "q", "text": "what does it cost?"})
    (tmp_path / "qrels").mkdir()
    judged = "query-id\tcorpus-id\tscore\nq\t1\t1\nq\t2\t0\n"
    (tmp_path / "qrels" / "test.tsv").write_text(judged)
    with pytest.raises(DatasetError, match=r"train.tsv: the file is missing"):
        read_examples(tmp_path)
    (tmp_path / "qrels" / "train.tsv").write_text(judged)
    found = read_examples(tmp_path)
    assert isinstance(found, Queries)
    assert (found.queries, found.positives, found.negatives) == (["what does it cost?"], ["Fees It is free."], None)
