"""``encoders``, ``models`` and ``eval``: what they write and how they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Command, value


def test_encoders(command: Command) -> None:
    _, out, err = command("encoders")
    assert {"mean", "st", "hashing"} <= set(out.split())
    assert "Korean" in err and "--encoder mean@e5-small" in err
    found = value(command("encoders", "fingerprint", "hashing", "--json"))
    assert len(found["fingerprint"]) == 64 and found["dimension"] == 64
    assert found["fingerprint"] in command("encoders", "fingerprint", "hashing")[1]


def test_models(command: Command) -> None:
    found = value(command("models", "list", "--json"))
    names = {model["name"] for model in found["models"]}
    assert {"minilm-l6", "smollm2-135m", "e5-small", found["recommended_decoder"]} <= names
    assert "minilm-l6\t" in command("models")[1]


def test_missing_models_offline_name_the_command(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "no-models"))
    code, out, err = command("index", folder, "--encoder", "mean", "--offline")
    assert (code, out) == (1, "")
    assert "slotrag models pull minilm-l6" in err


def test_import_and_remove_a_model(
    command: Command, tiny_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import tiny_models

    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "models"))
    folder = tiny_model(next(iter(tiny_models.KINDS)))
    code, out, _ = command("models", "import", folder, "--name", "mine")
    assert (code, out.strip()) == (0, str(tmp_path / "models" / "mine"))
    assert any(line.startswith("mine\t") for line in command("models")[1].splitlines())
    assert command("models", "remove", "mine")[0] == 0
    assert not (tmp_path / "models" / "mine").exists()


def test_eval_retrieval(command: Command, tmp_path: Path) -> None:
    texts = {"d1": "boiler service in september", "d2": "music ends at eleven", "d3": "meeting on tuesday"}
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": name, "title": "", "text": text}) + "\n" for name, text in texts.items())
    )
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "boiler service"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    found = value(command("eval", "retrieval", "--dataset", tmp_path, "--json"))
    assert set(found["scores"]) == {"dense", "lexical", "hybrid"}
    assert found["scores"]["hybrid"]["ndcg@10"] == pytest.approx(1.0)
    assert "ndcg@10" in command("eval", "retrieval", "--dataset", tmp_path)[1]
    code, out, err = command("eval", "retrieval", "--dataset", tmp_path / "nothing")
    assert code in (1, 2) and out == "" and err.count("\n") == 1
