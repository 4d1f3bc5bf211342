"""What the measurements of heads rest on: states in memory are the cache's, the best check is what is tested."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

# After the folder of helpers, some of which have the names of benchmarks.
sys.path.append(str(Path(__file__).parent / "benchmarks"))

from head_runs import InMemory, Rows, best_of, measured, run, table, train
from head_training import configured, labelled, open_cache, scored
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.heads.heads import build_head
from slotrag.encoders.training.settings import TrainingSettings

BUDGET = TrainingSettings(epochs=6, batch=8, learning_rate=2e-2, check_every=10, patience=9)


@pytest.fixture(scope="module")
def bert(tiny_model):
    return FrozenLM.load(tiny_model("bert"), device="cpu")


def in_memory(bert, config, folder: Path, texts: list[str]) -> InMemory:
    cache = open_cache(folder, bert, config)
    cache.ensure(texts, prefix=cache.passage_prefix)
    return InMemory(cache, texts)


@pytest.mark.parametrize(
    ("method", "parameters"), [("attention", {}), ("mix", {}), ("ilse", {"over": "glot"})], ids=lambda value: str(value)
)
def test_states_in_memory_are_those_of_the_cache(bert, tmp_path, method, parameters) -> None:
    config = configured(bert, method, **parameters)
    texts = [text[: 4 + 5 * place] for place, text in enumerate(labelled(9).texts)]
    source = in_memory(bert, config, tmp_path, texts)
    cache = open_cache(tmp_path, bert, config)
    asked = [texts[place] for place in (5, 0, 8, 5)]
    for found, wanted in zip(source.batch(asked), cache.batch(asked, prefix=cache.passage_prefix), strict=True):
        assert (found is None and wanted is None) or torch.equal(found, wanted)
    assert len(source.lengths(asked)) == 4


def test_one_layer_of_a_source(bert, tmp_path) -> None:
    texts = labelled(4).texts
    source = in_memory(bert, configured(bert, "mix"), tmp_path, texts)
    assert torch.equal(source.layer(1).batch(texts)[0][:, 0], source.batch(texts)[0][:, 1])


def test_the_best_check_with_its_classifier_is_measured(bert, tmp_path) -> None:
    config = configured(bert, "attention", layer=0)
    parts, test = labelled(120).split(0.25, 0), labelled(60, seed=5)
    source = in_memory(bert, config, tmp_path, [*parts[0].texts, *parts[1].texts, *test.texts])
    trained = train(build_head(config), config.dimension, parts, source, BUDGET)
    assert measured(trained, config.dimension, parts[0], parts[1], source, BUDGET) == trained.held_out
    row = run("attention", config, parts, test, source, BUDGET)
    assert row["measure"] > 0.5
    assert 0 < row["best_step"] <= row["last_step"]


def test_the_best_layer_is_chosen_on_the_held_out_part(bert, tmp_path) -> None:
    config = configured(bert, "layer")
    parts, test = labelled(120).split(0.25, 0), labelled(60, seed=5)
    source = in_memory(bert, config, tmp_path, [*parts[0].texts, *parts[1].texts, *test.texts])
    last, best = (run(name, config, parts, test, source, BUDGET) for name in ("last-layer", "best-layer"))
    assert last["layer"] == config.layers
    # The tiny model's layers are random: words are told apart best before them.
    assert best["layer"] < config.layers
    assert best["held_out"] > last["held_out"]


def test_pairs_have_no_classifier(bert, tmp_path) -> None:
    config = configured(bert, "attention", layer=0)
    parts, test = scored(80).split(0.25, 0), scored(40, seed=5)
    texts = [text for part in (*parts, test) for text in (*part.first, *part.second)]
    row = run("attention", config, parts, test, in_memory(bert, config, tmp_path, list(dict.fromkeys(texts))), BUDGET)
    assert -1 <= row["measure"] <= 1


def test_a_finished_run_is_not_made_again(tmp_path) -> None:
    path = tmp_path / "work" / "rows.jsonl"
    key = {"head": "glot", "seed": 0}
    assert Rows(path).made(key, lambda: {"measure": 0.5}) == {**key, "measure": 0.5}
    with path.open("a", encoding="utf-8") as file:
        file.write('{"head": "glot", "se')
    rows = Rows(path)
    assert rows.made(key, lambda: pytest.fail("made again"))["measure"] == 0.5
    rows.made({**key, "seed": 1}, lambda: {"measure": 0.25})
    assert [json.loads(line)["seed"] for line in path.read_text(encoding="utf-8").splitlines()] == [0, 1]


def test_an_outcome_does_not_change_the_key_of_its_run(tmp_path) -> None:
    with pytest.raises(ValueError, match="both have seed"):
        Rows(tmp_path / "rows.jsonl").made({"seed": 0}, lambda: {"seed": 1})


def test_the_learning_rate_is_chosen_on_the_held_out_part(tmp_path) -> None:
    outcomes = {0.1: {"measure": 0.9, "held_out": 0.5}, 0.2: {"measure": 0.6, "held_out": 0.7}}
    assert best_of(Rows(tmp_path / "rows.jsonl"), {"head": "glot"}, outcomes.__getitem__, [0.1, 0.2]) == 0.6


def test_a_table_of_means_and_deviations() -> None:
    lines = table("heads", ["all", "few"], {("mean", "all"): [0.5, 0.7], ("GLOT", "few"): [0.25]}).splitlines()
    assert lines[2:] == ["| mean | 60.0 ± 14.1 |  |", "| GLOT |  | 25.0 |"]
