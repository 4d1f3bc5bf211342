"""The command that trains compressors, on a tiny model: from texts to a checkpoint, in pieces, and what it refuses."""

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
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import tiny_models

    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "models"))
    return tiny_models.write("llama", tmp_path / "llama", max_position_embeddings=4096)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    draw = random.Random(0)
    path = tmp_path / "texts.jsonl"
    rows = []
    for _ in range(150):
        sentences = (f"The {' '.join(draw.choices(WORDS, k=8))} {draw.randint(10, 99)}." for _ in range(3))
        rows.append(json.dumps({"text": " ".join(sentences)}) + "\n")
    path.write_text("".join(rows))
    return path


def arguments(base: Path, texts: Path, *more: str | Path) -> list[str | Path]:
    return [
        "train", "icae", "--base", base, "--data", texts, "--licence", "CC0-1.0", "--read-out", "2", "--rank", "4",
        "--steps", "4", "--rate", "2", "--lengths", "12-16", "--batch-tokens", "32", "--check-every", "2",
        "--check-rows", "2", "--write-every", "0", "--mix", "autoencode=1,continue=1", *more,
    ]  # fmt: skip


def test_from_texts_to_a_checkpoint_that_another_training_starts_from(
    command: Command, base: Path, texts: Path, tmp_path: Path
) -> None:
    from slotrag.encoders.backbones.store import ModelStore
    from slotrag.rag.icae.checkpoint import find_compressor

    run = tmp_path / "run"
    found = value(command(*arguments(base, texts, "--run", run, "--json")))
    assert (found["steps"], found["stopped"]) == (4, "steps") and found["best"]["loss"] <= found["first"]["loss"]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "check"] == [0, 2, 4]
    kept = find_compressor(found["hash"], ModelStore(offline=True))
    assert kept.training["data"][0]["licence"] == "CC0-1.0" and kept.config.rate == 2
    assert kept.measured["held out"]["loss"] == found["best"]["loss"]
    # The run is at its end: the same checkpoint again.
    code, out, err = command(*arguments(base, texts, "--run", run))
    assert code == 0 and found["hash"] in out, err
    code, out, err = command(*arguments(base, texts, "--run", run, "--seed", "3"))
    assert (code, out, err.count("\n")) == (2, "", 1) and "another folder" in err

    more = ["--start", found["hash"], "--stage", "finetune", "--run", tmp_path / "more", "--json"]
    second = arguments(base, texts, *more)
    code, _, err = command(*second)
    assert code == 2 and "read_out" in err
    for name in ("--read-out", "--rank"):
        at = second.index(name)
        del second[at : at + 2]
    tuned = value(command(*second))
    after = find_compressor(tuned["hash"], ModelStore(offline=True))
    assert [one["hash"] for one in after.training["before"]] == [found["hash"]]
    assert abs(tuned["first"]["loss"] - found["best"]["loss"]) < 0.01


def test_time_that_is_over_keeps_what_there_is(command: Command, base: Path, texts: Path, tmp_path: Path) -> None:
    code, out, err = command(*arguments(base, texts, "--run", tmp_path / "run", "--minutes", "0.0001"))
    assert code == 0 and "compressor" in out and "the same command goes on" in err
    found = value(command(*arguments(base, texts, "--run", tmp_path / "run", "--json")))
    whole = value(command(*arguments(base, texts, "--run", tmp_path / "whole", "--json")))
    assert found["hash"] == whole["hash"]
    # The prepared data alone serve as well.
    options = [part for part in arguments(base, texts) if part not in ("--data", texts, "--licence", "CC0-1.0")]
    again = value(command(*options, "--prepared", tmp_path / "run" / "tokens", "--run", tmp_path / "again", "--json"))
    assert again["hash"] == whole["hash"]


def test_wrong_use(command: Command, base: Path, texts: Path, tmp_path: Path) -> None:
    command("collections")  # whatever making the model has written is read
    for wrong in (
        ["--stage", "warm"],
        ["--rates", "0.5"],
        ["--lengths", "9-3"],
        ["--mix", "copy=1"],
        ["--mix", "autoencode"],
        ["--compressor", "glot"],
        ["--minutes", "0"],
        ["--read-out", "99"],
        ["--start", "abc"],
        ["--licence", "MIT", "--licence", "MIT"],
        ["--data", tmp_path / "none"],
    ):
        code, out, err = command(*arguments(base, texts, "--run", tmp_path / "run", *wrong))
        assert (code, out, err.count("\n")) == (2, "", 1), (wrong, err)
    code, _, err = command("train", "icae")
    assert code == 2 and "--data" in err
    code, _, err = command("train", "icae", "--base", base, "--prepared", tmp_path / "none")
    assert code == 2 and "no prepared data" in err


def test_its_help_loads_no_model_library() -> None:
    program = (
        "import sys\nfrom slotrag.tui.cli import run\ncode = run(['train', 'icae', '--help'])\n"
        "print(code, sorted({'torch', 'transformers', 'numpy', 'sqlalchemy'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip().endswith("0 []") and "--read-out" in done.stdout
