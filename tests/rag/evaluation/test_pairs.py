"""Pairs of sentences in the forms that they are handed out in, and what is wrong with others."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from slotrag import UsageError
from slotrag.rag.evaluation.errors import DatasetError
from slotrag.rag.evaluation.pairs import read_pairs

LEFT = ["A plane takes off.", 'A man says "no" to a dog', "비행기가 이륙한다."]
RIGHT = ["An aeroplane is taking off.", "A cat sleeps, and purrs.", "고양이가 잔다."]
GOLD = [5.0, 0.25, 1.0]


def rows(form: str) -> str:
    """The three pairs in the form of a data set."""
    lines = []
    for number, (left, right, score) in enumerate(zip(LEFT, RIGHT, GOLD, strict=True)):
        lines.append(
            {
                "benchmark": f"main-captions\tMSRvid\t2012test\t{number:04}\t{score:.3f}\t{left}\t{right}",
                "korsts": f"main-captions\tMSRvid\t2012test\t{number:04}\t{score:.3f}\t{left}\t{right}",
                "sick": f"{number}\t{left}\t{right}\t{score}\tNEUTRAL",
                "csv": ",".join('"' + part.replace('"', '""') + '"' for part in (left, right, str(score))),
                "jsonl": json.dumps({"sentence1": left, "sentence2": right, "score": score}),
            }[form]
        )
    heads = {
        "korsts": "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2",
        "sick": "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment",
        "csv": "Sentence1,Sentence2,Score",
    }
    return "\n".join([*([heads[form]] if form in heads else []), *lines]) + "\n"


NAMES = {"benchmark": "sts-dev.csv", "korsts": "sts-dev.tsv", "sick": "SICK.txt", "csv": "p.csv", "jsonl": "p.jsonl"}


@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("form", sorted(NAMES))
def test_forms(form: str, packed: bool, ending: str, tmp_path: Path) -> None:
    data = ("\ufeff" + rows(form)).replace("\n", ending).encode()
    path = tmp_path / (NAMES[form] + (".gz" if packed else ""))
    path.write_bytes(gzip.compress(data) if packed else data)
    found = read_pairs(path)
    assert (found.first, found.second, found.gold) == (LEFT, RIGHT, GOLD)


def test_a_benchmark_line_may_name_its_sources(tmp_path: Path) -> None:
    path = tmp_path / "sts.csv"
    path.write_text(rows("benchmark").replace("off.\n", "off.\tLICENSE\tsource\n", 1), encoding="utf-8")
    assert read_pairs(path).second == RIGHT


def semeval(folder: Path, name: str, scores: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"STS.input.{name}.txt"
    path.write_text("".join(f"{a}\t{b}\tsource\n" for a, b in zip(LEFT, RIGHT, strict=True)), encoding="utf-8")
    (folder / f"STS.gs.{name}.txt").write_text("".join(f"{score}\n" for score in scores))
    return path


def test_scores_lie_beside_the_input_and_a_pair_without_one_is_left_out(tmp_path: Path) -> None:
    path = semeval(tmp_path, "headlines", ["4", "", "1.5"])
    with pytest.raises(DatasetError, match="2 judged pairs"):
        read_pairs(path)
    found = read_pairs(semeval(tmp_path, "headlines", ["4", "0", "1.5"]))
    assert (found.first, found.gold) == (LEFT, [4, 0, 1.5])


def test_a_folder_is_one_set(tmp_path: Path) -> None:
    semeval(tmp_path / "STS16", "b", ["1", "", ""])
    semeval(tmp_path / "STS16", "a", ["4", "0", "1.5"])
    (tmp_path / "STS16" / "readme.txt").write_text("nothing")
    found = read_pairs(tmp_path / "STS16")
    assert (found.name, found.gold) == ("STS16", [4, 0, 1.5, 1])
    assert found.first == [*LEFT, LEFT[0]]


def test_the_file_of_scores_may_be_named(tmp_path: Path) -> None:
    path = semeval(tmp_path, "a", ["4", "0", "1.5"]).rename(tmp_path / "sentences.txt")
    other = (tmp_path / "STS.gs.a.txt").rename(tmp_path / "scores.txt")
    assert read_pairs(path, gold=other).gold == [4, 0, 1.5]


def test_columns_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_text("eins\tzwei\tnote\na\tb\t1\nc\td\t2\ne\tf\t3\n")
    assert read_pairs(path, columns=["zwei", "eins", "note"]).first == ["b", "d", "f"]
    with pytest.raises(DatasetError, match=r"no column 'drei'; there are eins, zwei, note"):
        read_pairs(path, columns=["drei", "eins", "note"])
    with pytest.raises(UsageError, match="three columns"):
        read_pairs(path, columns=["eins", "note"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.csv", "", "is empty"),
        ("p.csv", "\n \n", "is empty"),
        ("p.csv", "sentence1,sentence2,score\n", "0 judged pairs"),
        ("p.csv", "sentence1,sentence2,score\na,b,1\nc,d\n", "line 3: the line has 2 fields, the first line names 3"),
        ("p.csv", "sentence1,sentence2,score\na,b,much\n", "line 2: the score is a number, not 'much'"),
        ("p.csv", "sentence1,sentence2,score\na,b,nan\n", "line 2: the score is a number"),
        ("p.csv", "sentence1,sentence2,score\n\na, ,1\n", "line 3: a sentence is missing"),
        ("p.csv", 'sentence1,sentence2,score\n"a\nb",c,1\nd,e,x\n', "line 4: the score"),
        ("p.csv", "a,b,1\nc,d,2\n", "line 1: the first line names no columns"),
        ("p.tsv", "a\tb\t1\nc\td\t2\n", "line 1: the first line names no columns"),
        ("p.tsv", "g\tf\ty\ti\t1.0\ta\tb\ng\tf\ty\ti\t1.0\ta\n", "line 2: the line has 6 fields of 7"),
        ("p.jsonl", '{"sentence1":"a","sentence2":"b","score":1}\n{"sentence1":"a"\n', "line 2: not JSON"),
        ("p.jsonl", '{"sentence1":"a","sentence2":"b","score":1}\n[1]\n', "line 2: a line is a JSON object"),
        ("p.jsonl", '{"sentence1":"a","sentence2":"b","score":1}\n{"sentence1":"a"}\n', "line 2: the line has no"),
        ("p.jsonl", '{"sentence1":"a","sentence2":"b","score":true}\n', "line 1: the score is a number, not True"),
        ("p.jsonl", '{"sentence1":"a","sentence2":3,"score":1}\n', "line 1: a sentence is missing"),
        ("p.jsonl", '{"s1":"a","sentence2":"b"}\n', "line 1: there is no column 'score'"),
        ("p.csv", "sentence1,sentence2,score\na,b,1\nc,d,1\ne,f,1\n", "all its scores are equal"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(name: str, content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DatasetError) as caught:
        read_pairs(path)
    assert message in str(caught.value) and str(path) in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="missing"):
        read_pairs(tmp_path / "nothing.csv")
    (tmp_path / "latin.csv").write_bytes(b"sentence1,sentence2,score\na,b,1\nc,caf\xe9,2\n")
    with pytest.raises(DatasetError, match="line 3: the file is not UTF-8"):
        read_pairs(tmp_path / "latin.csv")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"sentence1,sentence2,score\n" * 50)[:40])
    with pytest.raises(DatasetError, match="no whole gzip file"):
        read_pairs(tmp_path / "cut.csv.gz")
    with pytest.raises(DatasetError, match=r"no STS\.input"):
        read_pairs(tmp_path)
    path = semeval(tmp_path, "a", ["4", "0"])
    with pytest.raises(DatasetError, match=r"2 lines, STS\.input\.a\.txt 3"):
        read_pairs(path)


def test_a_sample_is_spread_evenly(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("sentence1,sentence2,score\n" + "".join(f"a{n},b{n},{n}\n" for n in range(10)))
    pairs = read_pairs(path)
    assert pairs.sample(4).gold == [0, 2, 5, 7]
    assert pairs.sample(4).second == ["b0", "b2", "b5", "b7"]
    assert pairs.sample(99) is pairs
