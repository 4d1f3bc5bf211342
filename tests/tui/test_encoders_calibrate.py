"""``slotrag encoders calibrate`` on a model that cannot do all that is tried."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_models
from program import Command, value


def test_what_was_left_out_is_told(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "models"))
    pairs = tmp_path / "pairs.tsv"
    lines = [f"boiler {number}\tboiler {'serviced ' * (number % 4)}\t{number % 4}\n" for number in range(24)]
    pairs.write_text("sentence1\tsentence2\tscore\n" + "".join(lines))
    model = tiny_models.write("llama", tmp_path / "narrow", max_position_embeddings=60)
    arguments = [
        "encoders", "calibrate", f"prompteol@({model})", "--pairs", pairs, "--prompt", "eol", "--prompt", "knowledge",
        "--demonstration", "none", "--postprocessing", "none",
    ]  # fmt: skip
    ((spec, reason),) = value(command(*arguments, "--json"))["left_out"].items()
    assert "prompt=knowledge" in spec
    code, out, err = command(*arguments)
    assert code == 0 and f"left out: {spec}: {reason}" in err and reason not in out
