"""BEIR-style folders: what is read, and one sentence for each way in which a folder can be malformed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from slotrag import SlotragError
from slotrag.rag.evaluation.beir import CorpusDocument, read_dataset
from slotrag.rag.evaluation.errors import DatasetError

CORPUS = [
    {"_id": "d1", "title": "Wings", "text": "lift and drag"},
    {"_id": "d2", "title": "", "text": "heat"},
    {"_id": "d3", "text": "뜨거운 판"},
]
QUERIES = [{"_id": "q1", "text": "lift"}, {"_id": "q2", "text": "heat"}, {"_id": "q3", "text": "not judged"}]
QRELS = "query-id\tcorpus-id\tscore\nq2\td2\t1\nq1\td1\t3\nq1\td3\t-1\n"


def lines(values: list[dict]) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A well-formed folder."""
    root = tmp_path / "small"
    (root / "qrels").mkdir(parents=True)
    (root / "corpus.jsonl").write_text(lines(CORPUS), encoding="utf-8")
    (root / "queries.jsonl").write_text(lines(QUERIES), encoding="utf-8")
    (root / "qrels" / "test.tsv").write_text(QRELS, encoding="utf-8")
    return root


def test_reads_documents_judged_queries_and_gains(folder: Path) -> None:
    data = read_dataset(folder)
    assert data.name == "small"
    assert data.documents[0] == CorpusDocument("d1", "Wings", "lift and drag")
    assert [document.whole for document in data.documents] == ["Wings lift and drag", "heat", "뜨거운 판"]
    assert data.queries == {"q1": "lift", "q2": "heat"}
    assert list(data.queries) == ["q1", "q2"], "in the order of queries.jsonl, not of the judgements"
    assert data.judgements == {"q1": {"d1": 3, "d3": -1}, "q2": {"d2": 1}}


def test_bom_blank_lines_line_ends_and_a_missing_header_make_no_difference(folder: Path) -> None:
    before = read_dataset(folder)
    (folder / "corpus.jsonl").write_bytes(b"\xef\xbb\xbf" + lines(CORPUS).replace("\n", "\r\n\r\n").encode())
    (folder / "qrels" / "test.tsv").write_bytes(QRELS.split("\n", 1)[1].replace("\n", "\r\n").encode())
    assert read_dataset(folder) == before


def test_numbers_as_ids_are_the_same_as_their_digits(folder: Path) -> None:
    (folder / "corpus.jsonl").write_text(lines([{"_id": 7, "text": "x"}]), encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text("q1\t7\t1\n", encoding="utf-8")
    assert read_dataset(folder).documents[0].id == "7"


def test_the_only_other_judgements_stand_in_for_test(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "dev.tsv")
    assert read_dataset(folder).judgements["q2"] == {"d2": 1}
    assert read_dataset(folder, qrels="dev").judgements["q2"] == {"d2": 1}
    (folder / "qrels" / "train.tsv").write_text(QRELS, encoding="utf-8")
    with pytest.raises(DatasetError, match=r"there are dev, train"):
        read_dataset(folder)


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(DatasetError, match="missing") as caught:
        read_dataset(folder)
    assert str(folder / name) in str(caught.value)


def test_no_folder_says_what_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"no such folder.*corpus\.jsonl"):
        read_dataset(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "line", "problem"),
    [
        ("corpus.jsonl", '{"_id": "d9", "text": ', "not JSON"),
        ("corpus.jsonl", '["d9", "text"]', "JSON object"),
        ("corpus.jsonl", '{"text": "no id"}', "'_id'"),
        ("corpus.jsonl", '{"_id": "d9"}', "'text'"),
        ("corpus.jsonl", '{"_id": "d9", "text": 5}', "'text'"),
        ("corpus.jsonl", '{"_id": "d1", "text": "again"}', "'d1' is there a second time"),
        ("queries.jsonl", '{"_id": "q1", "text": "again"}', "'q1' is there a second time"),
        ("queries.jsonl", '{"_id": "q9", "text": " "}', "'q9' has no text"),
        ("queries.jsonl", "{}", "'_id'"),
        ("qrels/test.tsv", "q1 d1 1", "tabs"),
        ("qrels/test.tsv", "q1\td2\tgood", "whole number, not 'good'"),
        ("qrels/test.tsv", "q1\td2\t0.5", "whole number, not '0.5'"),
        ("qrels/test.tsv", "q8\td2\t1", "'q8' is not in queries.jsonl"),
        ("qrels/test.tsv", "q1\td8\t1", "'d8' is not in corpus.jsonl"),
    ],
)
def test_a_malformed_line_is_named_by_its_number(folder: Path, name: str, line: str, problem: str) -> None:
    path = folder / name
    number = path.read_text(encoding="utf-8").count("\n") + 1
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(DatasetError) as caught:
        read_dataset(folder)
    message = str(caught.value)
    assert message.startswith(f"{path}, line {number}: ")
    assert problem in message
    assert "\n" not in message
    assert message.count(". ") == 0, "one sentence"
    assert isinstance(caught.value, SlotragError)


@pytest.mark.parametrize(("name", "problem"), [("corpus.jsonl", "no document"), ("qrels/test.tsv", "no judgement")])
def test_an_empty_file_is_named(folder: Path, name: str, problem: str) -> None:
    (folder / name).write_text("\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=problem):
        read_dataset(folder)


def test_a_file_that_is_not_utf8_or_not_a_file_is_named(folder: Path) -> None:
    (folder / "corpus.jsonl").write_bytes('{"_id": "d", "text": "비행"}'.encode("cp949"))
    with pytest.raises(DatasetError, match="not UTF-8"):
        read_dataset(folder)
    (folder / "corpus.jsonl").unlink()
    (folder / "corpus.jsonl").mkdir()
    with pytest.raises(DatasetError, match="cannot be read"):
        read_dataset(folder)
