"""``slotrag encoders calibrate``: a model that cannot do all that is tried, and which encoder is recommended."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_models
from program import Command, value
from slotrag.encoders.calibrating import Outcome
from slotrag.encoders.estimates import Estimate
from slotrag.tui.commands import encoders_calibrate


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


@pytest.mark.parametrize(
    ("gain", "used", "words"),
    [
        (Estimate(-0.02, -0.06, 0.01), "tp:calibration=none", "no better"),
        (Estimate(0.02, -0.01, 0.05), "tp:calibration=0123456789abcdef", "may be chance"),
        (Estimate(0.13, 0.06, 0.21), "tp:calibration=0123456789abcdef", ""),
    ],
)
def test_the_calibration_is_recommended_only_where_it_gained(
    gain: Estimate, used: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = Estimate(0.7, 0.6, 0.8)
    outcome = Outcome(
        spec="tp:calibration=0123456789abcdef", file=None, steps="top=1", measure="ndcg@10",
        uncalibrated_spec="tp:calibration=none", winner=plain, uncalibrated=plain, gain=gain, items=(4, 4), rows=[],
        others={}, left_out={}, seconds=1.0,
    )  # fmt: skip
    assert outcome.recommended == used
    encoders_calibrate._show(outcome)
    line = next(line for line in capsys.readouterr().out.splitlines() if "--encoder" in line)
    assert f"--encoder {used}" in line and (words in line if words else "(" not in line)
