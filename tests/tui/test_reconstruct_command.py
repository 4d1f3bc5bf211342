"""``reconstruct``: the marked text, its JSON, colour on a terminal, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Command, value
from slotrag.rag.icae.reconstructing import differences
from slotrag.tui import cli
from slotrag.tui.commands import reconstruct


@pytest.fixture
def command(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setitem(cli.COMMANDS, "reconstruct", "Show what memory slots remember of a passage.")
    return command


@pytest.fixture
def trained(generator: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The hash of a compressor in the model cache, for the tiny model `generator`."""
    from compressors import compressor
    from slotrag.encoders.backbones.store import ModelStore
    from slotrag.rag.icae.checkpoint import CompressorCheckpoint, save_compressor

    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("SLOTRAG_DECODER", str(generator))
    store, module = ModelStore(offline=True), compressor(generator)
    base = str(generator)
    digests = {"base_weights": store.weights_sha256(base), "tokenizer": store.tokenizer_sha256(base)}
    checkpoint = CompressorCheckpoint(config=module.config, weights=module.weights(), **digests)
    save_compressor(checkpoint, store)
    return checkpoint.hash


def passage(command: Command) -> tuple[int, str]:
    (hit, *_) = value(command("search", "boiler", "--mode", "lexical", "--json"))["results"]
    return hit["passage_id"], hit["text"]


def test_a_passage_and_what_its_slots_remember(command: Command, indexed: Path, trained: str) -> None:
    number, text = passage(command)
    found = value(command("reconstruct", number, "--compressor", trained, "--json"))
    assert (found["passage_id"], found["text"], found["compressor"], found["rate"]) == (number, text, trained, 4)
    assert found["slots"] == -(-found["tokens"] // 4) and 0 <= found["token_accuracy"] <= 1
    kept = "".join(part["text"] for part in found["differences"] if part["kind"] != "new")
    assert kept == text and found["path"] == "boiler.md"
    twice = value(command("reconstruct", number, "--compressor", trained, "--rate", "2", "--json"))
    assert twice["rate"] == 2 and twice["slots"] == -(-found["tokens"] // 2)
    code, out, err = command("reconstruct", number, "--compressor", trained)
    assert code == 0, err
    assert out.startswith("boiler.md\n") and "[-" in out and "\x1b" not in out
    assert f"{found['slots']} for {found['tokens']} tokens" in out and f"{found['token_accuracy']:.0%}" in out


def test_differences_are_marks_or_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    found = differences("It opened in 1844 \x1b[2Jby sea", "It opened in 1848 by")
    assert reconstruct.marked(found) == "It opened in [-1844 [2Jby sea-] {+1848 by+} "
    assert reconstruct.marked(differences("a b c", "a x c")) == "a [-b-] {+x+} c"
    monkeypatch.setattr(reconstruct, "styled", lambda: True)
    assert reconstruct.marked(differences("a b c", "a x c")) == "a \x1b[31;9mb\x1b[0m \x1b[32mx\x1b[0m c"


def test_what_is_wrong_is_said_in_a_line(command: Command, indexed: Path, trained: str) -> None:
    number, _ = passage(command)
    for arguments, told in (
        ([number], "slotrag train icae --base"),
        ([number, "--compressor", "0" * 16], "not on this machine"),
        ([number, "--compressor", "x"], "hex digits"),
        ([number, "--compressor", trained, "--rate", "0.5"], "from 1 on"),
        ([9_999, "--compressor", trained], "no passage 9999"),
        ([], "PASSAGE_ID"),
    ):
        code, out, err = command("reconstruct", *arguments)
        assert code in (1, 2, 3) and out == "" and told in err, (arguments, err)
        assert "Traceback" not in err
