"""The recipe of the compressors that ship: its commands are understood, and stages follow each other."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path

import pytest

# After the folder of helpers, some of which have the names of benchmarks.
sys.path.append(str(Path(__file__).parent / "benchmarks"))

import icae_recipe as recipe

DICTIONARY = """kernel

   <operating system> The essential part of {Unix} or other systems,
{responsible} for
   resource allocation, low-level hardware interfaces and security.

   (1996-06-07)
short

   Nothing.
sucking mud

   Crashed or wedged. Usually said of a machine that provides some service to a network.
"""


@pytest.fixture
def options(tmp_path: Path) -> argparse.Namespace:
    (tmp_path / "foldoc.dict.dz").write_bytes(gzip.compress(DICTIONARY.encode()))
    return argparse.Namespace(
        work=tmp_path / "work", data=tmp_path / "data", documentation=tmp_path / "documentation",
        dictionary=tmp_path / "foldoc.dict.dz", measured=[tmp_path / "measured.json"], compressor="pooled",
        minutes=90, dtype="float32",
    )  # fmt: skip


def test_a_dictionary_is_parted_into_its_entries(options: argparse.Namespace) -> None:
    sources = recipe.prepared_sources(options)
    lines = [json.loads(line)["text"] for line in (options.work / "dictionary.jsonl").read_text().splitlines()]
    assert lines == [
        "kernel: <operating system> The essential part of Unix or other systems, responsible for resource allocation, "
        "low-level hardware interfaces and security.\n(1996-06-07)",
        "sucking mud: Crashed or wedged. Usually said of a machine that provides some service to a network.",
    ]
    assert all(licence for _, licence in sources) and len(sources) == 6


def test_stages_follow_each_other_and_their_commands_are_understood(
    options: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slotrag.rag.icae.training import trainer
    from slotrag.rag.icae.training.drawing import Plan
    from slotrag.tui import cli

    asked = []

    class Understood(Exception):
        pass

    def train(request, models, work):
        asked.append(request)
        raise Understood

    monkeypatch.setattr(trainer, "train_compressor", train)
    sources = recipe.prepared_sources(options)
    for number, stage in enumerate(recipe.STAGES):
        assert recipe.result(options, stage) is None
        command = recipe.command_of(options, stage, sources)
        assert command[0] == "slotrag" and cli.run(command[1:]) == 1
        request = asked[-1]
        assert len(asked) == number + 1 and request.settings.steps > 1000 and request.exclude == options.measured
        assert [source.licence for source in request.data] == [licence for _, licence in sources]
        assert set(request.settings.mix) == {"autoencode", "continue", "instruct"}
        Plan(request.settings.mix, trainer.curriculum.rates(request.settings.rates),
             trainer.curriculum.lengths(request.settings.lengths))  # fmt: skip
        folder = recipe.run_folder(options, stage)
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps({"hash": f"{number:016x}", "stopped": "steps"}))
    assert asked[0].compressor["compressor"] == "pooled" and asked[0].start is None
    assert asked[1].start == f"{0:016x}" and not asked[1].compressor
    assert asked[0].prepared == asked[1].prepared
