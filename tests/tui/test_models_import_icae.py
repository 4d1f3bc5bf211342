"""``models import icae``: what it writes, what it refuses, and that a folder called icae is a model as before."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Command, value

SLOTS, RANK = 16, 4


@pytest.fixture
def base(tiny_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "models"))
    return tiny_model("llama")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A checkpoint with the names of the released ones."""
    import tiny_models
    import torch
    from safetensors.torch import save_file

    tensors = {"memory_token_embed.weight": torch.ones(SLOTS + 3, tiny_models.WIDTH)}
    for layer in range(tiny_models.LAYERS):
        name = f"icae.base_model.model.model.layers.{layer}.self_attn.q_proj"
        tensors[f"{name}.lora_A.default.weight"] = torch.ones(RANK, tiny_models.WIDTH)
        tensors[f"{name}.lora_B.default.weight"] = torch.ones(tiny_models.WIDTH, RANK)
    path = tmp_path / "mistral_ft_icae.safetensors"
    save_file(tensors, path)
    return path


def test_a_checkpoint_becomes_a_compressor(command: Command, base: Path, file: Path) -> None:
    from slotrag.encoders.backbones.store import ModelStore
    from slotrag.rag.icae.checkpoint import find_compressor

    code, out, err = command("models", "import", "icae", file, "--base", base)
    assert code == 0, err
    assert f"{SLOTS} slots of up to 512 tokens" in err
    kept = find_compressor(out.strip(), ModelStore(offline=True))
    assert (kept.config.alpha, kept.config.rank, kept.config.memory_rows) == (32, RANK, SLOTS)
    found = value(command("models", "import", "icae", file, "--base", base, "--json"))
    assert found["hash"] == kept.hash and Path(found["file"]).is_file() and found["config"] == kept.config.to_json()
    other = value(command("models", "import", "icae", file, "--base", base, "--alpha", "16", "--json"))
    assert other["hash"] != kept.hash and other["config"]["alpha"] == 16


def test_what_is_wrong_is_said_in_a_line(command: Command, base: Path, file: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.pt").write_text("no weights")
    for arguments, told in (
        ([file], "--base"),
        ([file, "--base", base, "--alpha", "-1"], "alpha"),
        ([file, "--base", tmp_path / "nowhere"], "nowhere"),
        ([tmp_path / "none.safetensors", "--base", base], "cannot be read"),
        ([tmp_path / "notes.pt", "--base", base], "read safely"),
        (["", "--base", base], "path is empty"),
        ([], "FILE"),
    ):
        code, out, err = command("models", "import", "icae", *arguments)
        assert code in (1, 2) and out == "" and err.count("\n") == 1 and told in err, (arguments, err)


def test_a_folder_called_icae_is_a_model(
    command: Command, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(base, tmp_path / "icae")
    for more, name in ((["--name", "mine"], "mine"), (["--name=yours"], "yours"), ([], "icae")):
        code, out, err = command("models", "import", "icae", *more)
        assert code == 0 and Path(out.strip()).name == name, err
        assert (Path(out.strip()) / "config.json").is_file()
    assert command("models", "import", base, "--name", "third")[0] == 0


def test_its_help_loads_no_model_library(command: Command) -> None:
    program = (
        "import sys\nfrom slotrag.tui.cli import run\ncode = run(['models', 'import', 'icae', '--help'])\n"
        "print(code, sorted({'torch', 'transformers', 'numpy', 'sqlalchemy'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip().endswith("0 []") and "--alpha" in done.stdout and "import icae" in done.stdout
    assert "import icae" in command("models", "--help")[1]
    assert "--base" in command("models", "import", "--help")[1]
