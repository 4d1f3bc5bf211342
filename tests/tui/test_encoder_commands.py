"""The commands that measure, calibrate and export encoders: what they write, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from program import Command, value

PAIRS = [(f"boiler {number} serviced", f"boiler {'serviced ' * (number % 4)}", number % 4) for number in range(24)]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("sentence1\tsentence2\tscore\n" + "".join(f"{a}\t{b}\t{s}\n" for a, b, s in PAIRS))
    return path


def test_eval_sts(command: Command, pairs: Path) -> None:
    found = value(command("eval", "sts", "--pairs", pairs, "--json"))
    assert set(found["scores"]) == {"spearman", "pearson"}
    assert set(found["scores"]["spearman"]) == {"value", "low", "high"}
    out = command("eval", "sts", "--pairs", pairs)[1]
    assert "spearman" in out and "95 % interval" in out and f"{found['scores']['spearman']['value']:.3f}" in out
    for wrong in (["--pairs", pairs, "--as", "both"], ["--pairs", pairs, "--postprocessing", "sort"], []):
        code, out, err = command("eval", "sts", *wrong)
        assert (code, out, err.count("\n")) == (2, "", 1)
    pairs.write_text("sentence1\tsentence2\tscore\na\tb\tc\n")
    code, out, err = command("eval", "sts", "--pairs", pairs)
    assert (code, out) == (1, "") and "line 2" in err and err.count("\n") == 1


def test_eval_classification(command: Command, tmp_path: Path) -> None:
    rows = [(f"boiler {number}", "heating") for number in range(12)] + [(f"tram {n}", "travel") for n in range(12)]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    found = value(command("eval", "classification", "--train", path, "--test", path, "--draws", "2", "--json"))
    assert found["scores"]["accuracy"]["value"] == pytest.approx(1.0)
    assert (found["protocol"], found["draws"], found["per_label"]) == ("mteb", 2, 8)
    out = command("eval", "classification", "--train", path, "--test", path, "--protocol", "full")[1]
    assert "macro_f1" in out and "C=1" in out
    other = tmp_path / "other.jsonl"
    other.write_text(path.read_text() + '{"text": "rain", "label": "weather"}\n')
    arguments = ["eval", "classification", "--train", path, "--test", other, "--draws", "1", "--json"]
    code, out, err = command(*arguments)
    assert (code, err.count("\n")) == (0, 1) and "1 of 25 test texts" in err
    assert "such as 'weather'" in json.loads(out)["notices"][0]
    code, out, err = command("eval", "classification", "--train", path, "--test", path, "--protocol", "other")
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_encoders_calibrate(
    command: Command, pairs: Path, tiny_model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "models"))
    arguments = [
        "encoders", "calibrate", f"tp@({tiny_model('llama')})", "--pairs", pairs, "--prompt", "eol", "--exit", "2",
        "--demonstration", "none", "--postprocessing", "none", "--postprocessing", "mean", "--licence", "CC0-1.0",
    ]  # fmt: skip
    found = value(command(*arguments, "--json"))
    assert Path(found["file"]).is_file() and Path(found["file"]).stem in found["spec"]
    assert {row["encoder"] for row in found["rows"]} == {"tp", "prompteol"}
    code, out, err = command(*arguments)
    assert code == 0
    assert f"--encoder {found['spec']}" in out and "uncalibrated" in out and "held out" in out
    assert found["file"] in err
    code, out, err = command("encoders", "fingerprint", found["spec"])
    assert code == 0 and found["spec"] in out
    for wrong in (["tp"], ["tp", "--pairs", pairs, "--dataset", tmp_path], ["hashing", "--pairs", pairs]):
        code, out, err = command("encoders", "calibrate", *wrong)
        assert (code, out, err.count("\n")) == (2, "", 1)


def test_encoders_export(command: Command, tiny_model, tmp_path: Path) -> None:
    code, out, _ = command("encoders", "export", f"mean@({tiny_model('bert')})", tmp_path / "exported")
    assert (code, out.strip()) == (0, str(tmp_path / "exported"))
    assert (tmp_path / "exported" / "modules.json").is_file()
    code, out, err = command("encoders", "export", "tp", tmp_path / "other")
    assert (code, out, err.count("\n")) == (2, "", 1) and "sentence-transformers" in err


def test_encoders_import(command: Command, tiny_model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "models"))
    scorer = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    state = {f"score_layer.{name}": value for name, value in scorer.state_dict().items()}
    folder = tmp_path / "theirs"
    folder.mkdir()
    torch.save(state, folder / "ada.pt")
    backbone = str(tiny_model("bert"))
    code, out, err = command("encoders", "import", folder, "--backbone", backbone, "--max-length", "40")
    assert code == 0 and out.startswith("pooled@") and out.count("\n") == 1 and "models/heads" in err
    code, found, _ = command("encoders", "fingerprint", out.strip(), "--json")
    assert code == 0 and json.loads(found)["spec"] == out.strip()
    again = value(
        command("encoders", "import", folder / "ada.pt", "--backbone", backbone, "--max-length", "40", "--json")
    )
    assert again["spec"] == out.strip() and Path(again["file"]).is_file() and again["head"]["method"] == "attention"
    torch.save({**state, "score_layer.0.weight": torch.zeros(16, 20)}, folder / "narrow.pt")
    torch.save({"encoder_state": Path("anything")}, folder / "trap.pt")
    for wrong, words in (
        ([folder], "name the file itself"),
        ([folder / "narrow.pt"], "states of length 20"),
        ([folder / "trap.pt"], "read safely"),
        ([folder / "ada.pt", "--graph", "fc"], "neither a graph"),
        ([folder / "ada.pt", "--max-length", "4000"], "max_length is at most"),
    ):
        code, out, err = command("encoders", "import", *wrong, "--backbone", backbone)
        assert (code, out, err.count("\n")) == (2, "", 1) and words in err, err
    assert len(list((tmp_path / "models" / "heads").glob("*.json"))) == 1
