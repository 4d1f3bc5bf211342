"""The command that trains heads: on labelled files, on a collection, and what it refuses."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from program import Command, value

WORDS = ["heat", "layer", "speed", "angle", "flat", "distance", "grows", "measured", "stands", "written", "numbers"]


@pytest.fixture
def backbone(tiny_model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("SLOTRAG_DECODER", "none-such")
    return tiny_model("bert")


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    draw = random.Random(1)
    rows = [
        {"text": f"{' '.join(draw.choices(WORDS, k=4))} {label}", "label": label} for label in ("wing", "code") * 30
    ]
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def collection(command: Command, backbone: Path, tmp_path: Path) -> str:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(40):
        draw = random.Random(number)
        lines = [f"# The machine {number}", ""]
        for _ in range(4):
            first, second = (" ".join(draw.choices(WORDS, k=count)) for count in (8, 6))
            lines += [f"Machine {number} has {first}. It {second} {draw.randint(100, 999)}.", ""]
        (folder / f"{number}.md").write_text("\n".join(lines))
    assert command("index", folder, "--collection", "notes", "--encoder", f"mean@({backbone})")[0] == 0
    return "notes"


def test_on_labels(command: Command, backbone: Path, labelled: Path, tmp_path: Path) -> None:
    arguments = [
        "train", "ilse:hidden=8", "--backbone", backbone, "--graph", "fc", "--data", labelled, "--epochs", "4",
        "--learning-rate", "0.01", "--held-out", "0.3", "--run", tmp_path / "run", "--licence", "CC0-1.0",
    ]  # fmt: skip
    outcome = command(*arguments, "--json")
    found = value(outcome)
    assert "watched" in outcome[2]
    (row,) = found["comparisons"]
    assert row["measure"] == "accuracy" and row["items"] == 18 and found["data"][0]["licence"] == "CC0-1.0"
    parts = [found["data"][0][part] for part in ("trained_on", "watched", "judged")]
    assert parts == [31, 11, 18]
    assert found["kept"] == (found["gain"] > 0) == (found["spec"] is not None)
    assert len(found["curve"]) >= 2 and found["parameters"] > 0
    assert (tmp_path / "run" / "metrics.jsonl").read_text().count("\n") == len(found["curve"])
    if found["kept"]:
        code, out, _ = command("encoders", "fingerprint", found["spec"])
        assert code == 0 and found["spec"] in out and Path(found["file"]).is_file()
    # The run is at its end: nothing is trained again, and what is said is the same.
    again = value(command(*arguments, "--json"))
    assert again["comparisons"] == found["comparisons"] and again["spec"] == found["spec"]
    code, out, _ = command(*arguments)
    assert code == 0 and "accuracy" in out and "kept" in out and "judged on" in out
    code, out, err = command(*arguments[:-6], "--seed", "3", "--run", tmp_path / "run")
    assert (code, out, err.count("\n")) == (2, "", 1) and "another folder" in err


def test_on_a_collection_and_indexed_anew_on_consent(command: Command, collection: str) -> None:
    arguments = ["train", "ilse:hidden=8", "--collection", collection, "--epochs", "8", "--learning-rate", "0.02"]
    before = value(command("status", "--json"))["collections"][0]
    code, out, err = command(*arguments, "--no-index")
    assert code == 0, err
    assert "ndcg@10" in out and "none-such is not on this machine" in err
    assert value(command("status", "--json"))["collections"][0]["fingerprint"] == before["fingerprint"]
    found = value(command(*arguments, "--yes", "--json"))
    after = value(command("status", "--json"))["collections"][0]
    assert found["against"] == before["encoder"] and found["pairs"]["sentence"] > 10
    # A head that never left its start is not kept either, whatever rounding makes of it.
    assert not found["kept"] or found["gain"] > 0
    assert after["encoder"] == (found["spec"] if found["kept"] else before["encoder"])
    assert after["passages"] == before["passages"]
    assert command("search", "machine 3", "--mode", "dense")[0] == 0


def test_queries_of_a_run_that_is_over(command: Command, backbone: Path, tmp_path: Path) -> None:
    rows = [{"query": f"machine {n} heat", "positive": f"Machine {n} has heat and {WORDS[n % 11]}."} for n in range(40)]
    path = tmp_path / "queries.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["train", "pooled:hidden=8", "--backbone", backbone, "--data", path, "--epochs", "2", "--json"]
    found = value(command(*arguments))
    assert found["comparisons"][0]["measure"] == "ndcg@10" and found["method"] == "attention"
    assert Path(found["run"]).parent.parent == tmp_path / "models"
    assert not (Path(found["run"]) / "states").exists()
    assert value(command(*arguments))["comparisons"] == found["comparisons"]


def test_wrong_use(command: Command, collection: str, labelled: Path, backbone: Path, tmp_path: Path) -> None:
    for wrong in (
        ["glot"],
        ["glot", "--data", labelled, "--collection", collection],
        ["mean", "--data", labelled, "--backbone", backbone],
        ["glot", "--data", labelled, "--backbone", backbone, "--graph", "fc"],
        ["glot:tua=1", "--data", labelled, "--backbone", backbone],
        ["glot", "--data", labelled, "--backbone", backbone, "--columns", "text"],
        ["glot", "--data", labelled, "--backbone", backbone, "--minutes", "0"],
        ["glot", "--data", labelled, "--backbone", backbone, "--pair-loss", "mse"],
        ["glot", "--collection", collection, "--licence", "MIT"],
        ["glot", "--collection", collection, "--yes", "--no-index"],
        ["glot", "--collection", "none"],
    ):
        code, out, err = command("train", *wrong)
        assert (code, out, err.count("\n")) == (2, "", 1), (wrong, err)
    missing = ["--backbone", backbone, "--data", tmp_path / "none.csv"]
    code, out, err = command("train", "glot", *missing)
    assert (code, out, err.count("\n")) == (1, "", 1)
    # Which head it is can be told before any file is looked for.
    code, out, err = command("train", "mean", *missing)
    assert (code, out, err.count("\n")) == (2, "", 1) and "no head to train" in err


def test_its_help_loads_no_model_library() -> None:
    program = (
        "import sys\nfrom slotrag.tui.cli import run\ncode = run(['train', '--help'])\n"
        "print(code, sorted({'torch', 'transformers', 'numpy', 'sqlalchemy'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip().endswith("0 []") and "--collection" in done.stdout
