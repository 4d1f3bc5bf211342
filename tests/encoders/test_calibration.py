"""Calibration files: content-addressed, found in their order, and refused where they are not what they say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from slotrag import SlotragError, UsageError
from slotrag.encoders import calibration as module
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.calibration import (
    Calibration,
    CalibrationDamaged,
    CalibrationMismatch,
    CalibrationMissing,
    find_calibration,
    save_calibration,
    shipped_for,
)
from slotrag.encoders.postprocessing_fit import fit

ONE = Calibration(
    encoder="tp",
    backbone_weights="ab" * 32,
    parameters={"prompt": "eol", "layer": "-2"},
    measured={"spearman": 0.71, "halves": [230, 230]},
    data={"name": "pairs", "sha256": "cd" * 32, "licence": "CC-BY-SA-4.0"},
)


@pytest.fixture
def store(tmp_path):
    return ModelStore(tmp_path / "models", offline=True)


def test_round_trip_is_exact_and_named_by_its_content(store):
    path = save_calibration(ONE, store)
    assert path == store.folder / "calibrations" / f"{ONE.hash}.json"
    found = find_calibration(ONE.hash, store)
    assert found == ONE
    assert found.to_bytes() == ONE.to_bytes() == path.read_bytes()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_bytes_do_not_depend_on_the_order_of_keys():
    turned = replace(ONE, parameters=dict(reversed(ONE.parameters.items())), data=dict(reversed(ONE.data.items())))
    assert turned.to_bytes() == ONE.to_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"encoder": "prompteol"},
        {"backbone_weights": "ac" * 32},
        {"parameters": {"prompt": "cot"}},
        {"measured": {}},
        {"data": {}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_part_counts(change):
    assert replace(ONE, **change).hash != ONE.hash


def test_statistics_are_inside(store):
    rows = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    fitted = fit("mean+top=1", [rows])
    calibrated = replace(ONE, postprocessing=fitted)
    save_calibration(calibrated, store)
    found = find_calibration(calibrated.hash, store)
    assert found.postprocessing is not None
    assert found.postprocessing.to_bytes() == fitted.to_bytes()
    np.testing.assert_array_equal(found.postprocessing.apply(rows), fitted.apply(rows))
    assert find_calibration(calibrated.hash, store).hash == calibrated.hash != ONE.hash


@pytest.mark.parametrize("wrong", ["", "none", "abc", "../../../etc/passwd", "A" * 16, "0" * 64])
def test_what_is_no_hash_is_said(wrong, store):
    with pytest.raises(CalibrationMissing, match="16 hex digits") as caught:
        find_calibration(wrong, store)
    assert isinstance(caught.value, UsageError)


def test_a_missing_one_says_where_it_would_lie(store):
    with pytest.raises(CalibrationMissing, match=r"0123456789abcdef\.json into .*calibrations.*calibration=none"):
        find_calibration("0123456789abcdef", store)


def test_a_changed_file_is_refused(store):
    path = save_calibration(ONE, store)
    path.write_bytes(path.read_bytes().replace(b'"-2"', b'"-3"'))
    with pytest.raises(CalibrationDamaged, match="was changed"):
        find_calibration(ONE.hash, store)


def test_the_model_cache_comes_before_the_package(store, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SHIPPED", tmp_path / "package" / "calibrations")
    shipped = ModelStore(tmp_path / "package", offline=True)
    save_calibration(ONE, shipped)
    assert find_calibration(ONE.hash, store) == ONE
    damaged = save_calibration(ONE, store)
    damaged.write_bytes(b"{}")
    with pytest.raises(CalibrationDamaged):  # and not the sound one behind it, in silence
        find_calibration(ONE.hash, store)


def test_the_shipped_one_is_found_by_encoder_and_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SHIPPED", tmp_path / "calibrations")
    module._shipped.cache_clear()
    by_retrieval = replace(ONE, measured={"measure": "ndcg@10", "held_out": 0.5})
    for one in (by_retrieval, replace(ONE, measured={"measure": "spearman", "held_out": 0.7})):
        save_calibration(one, ModelStore(tmp_path, offline=True))
    try:
        assert shipped_for("tp", ONE.backbone_weights) == by_retrieval.hash
        assert shipped_for("prompteol", ONE.backbone_weights) is None
        assert shipped_for("tp", "0" * 64) is None
    finally:
        module._shipped.cache_clear()


def test_what_ships_is_sound_and_there_once(store):
    values = list(module._FILES.all(module._SHIPPED))
    for name, _ in values:
        assert find_calibration(name, store).hash == name
    served = [(value["encoder"], value["backbone_weights"], value["measured"]["measure"]) for _, value in values]
    assert len(served) == len(set(served))


@pytest.mark.parametrize(
    "content",
    [b"", b"no json", b"[]", b"{}", b'{"schema":2}', b'{"schema":1}', b'{"schema":1,"encoder":1}'],
)
def test_other_content_is_refused(content):
    with pytest.raises(CalibrationDamaged):
        Calibration.from_bytes(content)


@pytest.mark.parametrize(
    ("key", "value"), [("parameters", {"layer": -2}), ("postprocessing", {"statistics": "?"}), ("postprocessing", 3)]
)
def test_parts_of_a_wrong_kind_are_refused(key, value):
    content = {**json.loads(ONE.to_bytes()), key: value}
    with pytest.raises(CalibrationDamaged):
        Calibration.from_bytes(json.dumps(content).encode())


@pytest.mark.parametrize("measured", [{1: "a"}, {"a": float("nan")}, {"a": {2: 1}}, {"a": object()}])
def test_what_json_cannot_hold_is_refused(measured):
    with pytest.raises((TypeError, ValueError)):
        replace(ONE, measured=measured).to_bytes()


def test_it_serves_only_what_it_was_made_for():
    ONE.require_for("tp", "ab" * 32)
    with pytest.raises(CalibrationMismatch, match="'tp', not for 'prompteol'"):
        ONE.require_for("prompteol", "ab" * 32)
    with pytest.raises(CalibrationMismatch, match="another model"):
        ONE.require_for("tp", "00" * 32)


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "models").write_text("a file stands there")
    with pytest.raises(SlotragError, match="SLOTRAG_MODELS"):
        save_calibration(ONE, ModelStore(tmp_path / "models", offline=True))
