"""Heads as files: the same content under the same name, and every way in which a file can be wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from slotrag import SlotragError, UsageError
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.heads import checkpoint as module
from slotrag.encoders.heads.checkpoint import (
    HeadCheckpoint,
    HeadDamaged,
    HeadMismatch,
    HeadMissing,
    find_head,
    load_module,
    save_head,
    shipped_head,
    weights_of,
    write_head,
)
from slotrag.encoders.heads.configuration import head_config
from slotrag.encoders.heads.heads import build_head
from slotrag.encoders.named_files import name_of


def made(method: str = "attention", *, seed: int = 0, **parameters) -> HeadCheckpoint:
    config = head_config(method, width=16, layers=3, **parameters)
    return HeadCheckpoint(
        config=config,
        weights=weights_of(build_head(config, seed=seed)),
        backbone_weights="b" * 64,
        tokenizer="c" * 64,
        query_prefix="query: ",
        passage_prefix="",
        max_length=128,
        training={"data": [{"name": "pairs", "sha256": "d" * 64, "licence": "CC-BY-4.0"}], "seed": 0, "loss": "pairs"},
        measured={"accuracy": 0.75, "mean": {"accuracy": 0.5}, "curve": [1, 2.5]},
    )


@pytest.fixture
def models(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models", offline=True)


@pytest.mark.parametrize(
    ("method", "parameters"), [("attention", {}), ("mix", {}), ("glot", {}), ("ilse", {}), ("ilse", {"graph": "set"})]
)
def test_saved_and_found(method: str, parameters: dict, models: ModelStore) -> None:
    head = made(method, **parameters)
    path = save_head(head, models)
    assert path == models.folder / "heads" / f"{head.hash}.json"
    found = find_head(head.hash, models)
    assert found.hash == head.hash and found.config == head.config
    for name in ("query_prefix", "passage_prefix", "max_length", "training", "measured", "backbone_weights"):
        assert getattr(found, name) == getattr(head, name)
    before, after = build_head(head.config), load_module(found)
    before.load_state_dict({name: torch.tensor(value) for name, value in head.weights.items()})
    assert not after.training
    for name, value in before.state_dict().items():
        assert torch.equal(after.state_dict()[name], value)


def test_weights_are_read_by_the_safetensors_library(models: ModelStore) -> None:
    from safetensors.numpy import load_file

    head = made()
    loaded = load_file(save_head(head, models).with_suffix(".safetensors"))
    assert set(loaded) == set(head.weights)
    for name, value in head.weights.items():
        np.testing.assert_array_equal(loaded[name], value)


def test_the_name_stands_for_everything() -> None:
    head = made()
    others = [
        made(seed=1),
        made(hidden=64),
        made(layer=1),
        made(start="authors"),
        replace(head, backbone_weights="0" * 64),
        replace(head, tokenizer="0" * 64),
        replace(head, query_prefix=""),
        replace(head, passage_prefix="passage: "),
        replace(head, max_length=64),
        replace(head, training={}),
        replace(head, measured={}),
    ]
    assert len({head.hash, *(other.hash for other in others)}) == len(others) + 1
    assert made().hash == head.hash


def test_the_name_is_the_same_on_every_machine() -> None:
    config = head_config("mix", width=2, layers=1)
    weights = {"scalars": np.array([0.5, -0.25], dtype=np.float32)}
    head = HeadCheckpoint(config, weights, "b" * 64, "c" * 64, "", "", 128)
    assert head.weights_sha256 == "3117af524869a0544e737ce4e7c26fee0d0988586132ae2022c246bd3945b78e"
    assert head.hash == "1acb9c3090a0c7bb"


@pytest.mark.parametrize("value", [{"x": float("nan")}, {"x": object()}, {1: "x"}, {"x": {2: 3}}])
def test_what_json_cannot_hold_is_refused(value: dict) -> None:
    with pytest.raises((TypeError, ValueError)):
        replace(made(), measured=value).to_json_bytes()


def test_missing(models: ModelStore) -> None:
    with pytest.raises(HeadMissing, match=r"copy its files 0{16}\.json and 0{16}\.safetensors"):
        find_head("0" * 16, models)
    for name in ("", "../../x", "0" * 15, "G" * 16):
        with pytest.raises(HeadMissing, match="named by 16 hex digits"):
            find_head(name, models)


def test_damaged_files(models: ModelStore) -> None:
    head = made()
    path = save_head(head, models)
    content, weights = path.read_bytes(), path.with_suffix(".safetensors").read_bytes()
    path.write_bytes(content.replace(b"0.75", b"0.95"))
    with pytest.raises(HeadDamaged, match=r"json was changed"):
        find_head(head.hash, models)
    path.write_bytes(content)
    path.with_suffix(".safetensors").write_bytes(weights[:-1] + b"\x01")
    with pytest.raises(HeadDamaged, match=r"safetensors was changed"):
        find_head(head.hash, models)
    path.with_suffix(".safetensors").unlink()
    with pytest.raises(HeadDamaged, match="lacks its weights"):
        find_head(head.hash, models)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 2}, "of form 2, not 1"),
        ({"max_length": "long"}, "no proper 'max_length'"),
        ({"head": {"method": "glot"}}, "of another version"),
    ],
)
def test_a_file_of_another_form(models: ModelStore, change: dict, words: str) -> None:
    head = made()
    path = save_head(head, models)
    content = json.dumps({**json.loads(path.read_bytes()), **change}).encode()
    name = name_of(content)
    path.with_name(f"{name}.json").write_bytes(content)
    path.with_name(f"{name}.safetensors").write_bytes(head.weights_bytes)
    with pytest.raises(HeadDamaged, match=words):
        find_head(name, models)


def test_weights_of_another_shape_are_not_saved(models: ModelStore) -> None:
    head = made()
    weights = {**head.weights, "scorer.0.weight": np.zeros((3, 3), dtype=np.float32)}
    with pytest.raises(HeadDamaged, match=r"scorer\.0\.weight is \(3, 3\), not \(128, 16\)"):
        save_head(replace(head, weights=weights), models)
    del weights["scorer.0.weight"]
    with pytest.raises(HeadDamaged, match=r"scorer\.0\.weight is missing"):
        save_head(replace(head, weights=weights), models)
    assert not (models.folder / "heads").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    with pytest.raises(SlotragError, match="cannot be written"):
        save_head(made(), ModelStore(tmp_path / "models", offline=True))


def test_mismatch_names_the_reason() -> None:
    head = made("ilse", graph="fc")
    here = {"backbone_weights": "b" * 64, "tokenizer": "c" * 64}
    head.require_for("ilse", **here)
    for method, changed, words in (
        ("glot", {}, "one of the method 'ilse', not of 'glot'"),
        (
            "ilse",
            {"backbone_weights": "e" * 64},
            r"another backbone \(weights bbbbbbbbbbbbbbbb, here eeeeeeeeeeeeeeee\)",
        ),
        ("ilse", {"tokenizer": "e" * 64}, "another backbone .tokenizer"),
    ):
        with pytest.raises(HeadMismatch, match=words) as raised:
            head.require_for(method, **{**here, **changed})
        assert isinstance(raised.value, UsageError)
    head.require_parameters(graph="fc")
    with pytest.raises(HeadMismatch, match="trained with graph=fc, not cayley"):
        head.require_parameters(graph="cayley")


def test_shipped_heads_are_found_by_method_graph_and_backbone(
    tmp_path: Path, models: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SHIPPED", tmp_path)
    heads = {name: made("ilse", graph=name) for name in ("cayley", "set")} | {"glot": made("glot")}
    for head in heads.values():
        write_head(head, tmp_path)
    module._shipped.cache_clear()
    try:
        assert shipped_head("ilse", "b" * 64) == shipped_head("ilse", "b" * 64, "cayley") == heads["cayley"].hash
        assert shipped_head("ilse", "b" * 64, "set") == heads["set"].hash
        assert shipped_head("glot", "b" * 64) == heads["glot"].hash
        assert (
            shipped_head("ilse", "b" * 64, "fc")
            is shipped_head("glot", "a" * 64)
            is shipped_head("mlp", "b" * 64)
            is None
        )
        assert find_head(heads["glot"].hash, models).hash == heads["glot"].hash
    finally:
        module._shipped.cache_clear()


def test_every_shipped_head_is_whole_and_the_only_one_of_its_kind(models: ModelStore) -> None:
    kinds = set()
    for name, _ in module._FILES.all(module._SHIPPED):
        head = find_head(name, models)
        load_module(head)
        kind = (head.config.method, head.backbone_weights, head.config.parameters.get("graph"))
        assert kind not in kinds, f"two shipped heads of {kind}"
        kinds.add(kind)
        assert all(data["licence"] and data["sha256"] for data in head.training["data"])
