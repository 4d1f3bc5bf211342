"""Where models lie and which folders are usable."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from slotrag.encoders.backbones import locations
from slotrag.encoders.backbones.errors import UnusableModel


@pytest.fixture
def model(tiny_model, tmp_path) -> Path:
    return shutil.copytree(tiny_model("bert"), tmp_path / "model")


def hub_copy(model: Path, cache: Path, revision: str = "abc", *, main: bool = True) -> Path:
    """Lay `model` out as the hub's cache does."""
    repository = cache / "models--owner--name"
    snapshot = repository / "snapshots" / revision
    shutil.copytree(model, snapshot)
    if main:
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / "main").write_text(revision)
    return snapshot


def test_models_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "m"))
    assert locations.models_folder() == tmp_path / "m"
    monkeypatch.delenv("SLOTRAG_MODELS")
    assert locations.models_folder().name == "models"


def test_hub_cache_follows_the_hubs_variables(monkeypatch, tmp_path):
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert locations.hub_cache_folder() == tmp_path / "x" / "huggingface" / "hub"
    monkeypatch.setenv("HF_HOME", str(tmp_path / "h"))
    assert locations.hub_cache_folder() == tmp_path / "h" / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "c"))
    assert locations.hub_cache_folder() == tmp_path / "c"


def test_a_whole_folder_has_no_problem(model):
    assert locations.problem_of(model) is None
    assert locations.require_usable(model) == model


def test_pickled_weights_are_refused_in_one_sentence(model):
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(UnusableModel, match="pickles only, which are never opened") as caught:
        locations.require_usable(model)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(model, missing):
    (model / missing).unlink()
    for other in ("vocab.txt", "vocab.json"):
        (model / other).unlink(missing_ok=True)
    assert locations.problem_of(model) is not None


def test_sharded_weights_count_when_all_are_there(model):
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    shutil.copy(model / "model.safetensors", model / shards[0])
    (model / "model.safetensors").unlink()
    index = {"weight_map": {"a": shards[0], "b": shards[1]}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert locations.problem_of(model) == "lacks some of its safetensors files"
    shutil.copy(model / shards[0], model / shards[1])
    assert [file.name for file in locations.weight_files(model)] == shards


@pytest.mark.parametrize("index", ["not json", "[]", '{"weight_map": {"a": "../outside.safetensors"}}', '{"x": 1}'])
def test_a_strange_index_names_no_files(model, index):
    (model / "model.safetensors").rename(model.parent / "outside.safetensors")
    (model / "model.safetensors.index.json").write_text(index)
    assert locations.weight_files(model) == []


def test_hub_snapshot_is_the_complete_one(model, tmp_path, monkeypatch):
    cache = tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    assert locations.hub_snapshot("owner/name") is None
    broken = hub_copy(model, cache, "new")
    (broken / "model.safetensors").unlink()
    assert locations.hub_snapshot("owner/name") is None
    whole = hub_copy(model, cache, "old", main=False)
    assert locations.hub_snapshot("owner/name") == whole


@pytest.mark.parametrize("name", ["../x", "a/b/c", "/etc", "~/m", "a/..", "", "a b/c", "x"])
def test_paths_are_no_hub_ids(name):
    assert not locations.is_hub_id(name)


@pytest.mark.parametrize("name", ["..", ".partial", "a/b", "", "-x"])
def test_names_that_would_leave_the_cache_are_not_its_own(name):
    assert not locations.is_own_name(name)
