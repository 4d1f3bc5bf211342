"""``slotrag rebuild --postprocessing`` and where a collection's post-processing is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import Command


@pytest.fixture
def many(command: Command, tmp_path: Path) -> Path:
    """A folder of 120 indexed files."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(120):
        (folder / f"{number}.txt").write_text(f"Note {number} about metal{number % 7} and river{number % 11}.\n")
    assert command("index", folder)[0] == 0
    return folder


def test_changing_it_says_what_was_done(command: Command, many: Path) -> None:
    code, out, err = command("rebuild", "--postprocessing", " mean + top=2 ")
    assert code == 0 and "post-processing mean+top=2; 120 passages, no document was encoded again" in out
    assert "Traceback" not in err
    assert "post-processing" in command("status")[1] and "mean+top=2, fitted on 120 passages" in command("status")[1]
    assert "mean+top=2" in command("collections")[1]
    (status,) = json.loads(command("status", "--json")[1])["collections"]
    assert (status["postprocessing"], status["postprocessing_origin"]) == ("mean+top=2", "collection")
    assert status["postprocessing_fitted_on"] == 120
    assert command("search", "metal3 river5")[0] == 0
    report = json.loads(command("rebuild", "--postprocessing", "none", "--json")[1])
    assert (report["postprocessing"], report["encoded"], report["passages"]) == ("none", 0, 120)


def test_a_rebuild_keeps_it(command: Command, many: Path) -> None:
    command("rebuild", "--postprocessing", "whiten=8")
    code, out, _ = command("rebuild")
    assert code == 0 and "0 texts encoded" in out
    assert "whiten=8, fitted on 120 passages" in command("status")[1]


def test_wrong_steps_are_wrong_use_in_one_sentence(command: Command, many: Path) -> None:
    for steps in ("sharpen", "whiten=100000", "whiten=120", "top", "mean+mean", "embedfilter", "whiten=3+mean"):
        code, out, err = command("rebuild", "--postprocessing", steps)
        assert (code, out) == (2, ""), steps
        assert err.count("slotrag: ") == 1 and "Traceback" not in err
    assert json.loads(command("status", "--json")[1])["collections"][0]["postprocessing"] == "none"


def test_few_passages_are_a_notice_and_no_error(command: Command, indexed: Path) -> None:
    code, out, err = command("rebuild", "--postprocessing", "mean")
    assert code == 0 and "post-processing none" in out and "too few" in err


def test_retrieval_is_measured_under_it(command: Command, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "qrels").mkdir(parents=True)
    rows = [{"_id": f"d{n}", "title": "", "text": f"note {n} metal{n % 7} river{n % 11}"} for n in range(110)]
    (data / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (data / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "note 5 metal5 river5"}))
    (data / "qrels" / "test.tsv").write_text("q\td5\t1")
    arguments = ("eval", "retrieval", "--dataset", data, "--encoder", "hashing")
    plain = json.loads(command(*arguments, "--json")[1])
    assert (plain["postprocessing"], plain["postprocessing_fitted_on"]) == ("none", 0)
    code, out, _ = command(*arguments, "--postprocessing", "mean+whiten=16", "--json")
    found = json.loads(out)
    assert code == 0 and (found["postprocessing"], found["postprocessing_fitted_on"]) == ("mean+whiten=16", 110)
    assert found["scores"]["dense"]["mrr@10"] == 1.0
    assert "with post-processing mean" in command(*arguments, "--postprocessing", "mean")[1]
    assert command(*arguments, "--postprocessing", "whiten=1000")[0] == 2
