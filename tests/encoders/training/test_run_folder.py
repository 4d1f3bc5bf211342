"""The folder of a run: what it holds, what it refuses, what it survives."""

from __future__ import annotations

import json

import numpy as np
import pytest
from slotrag.encoders.training.run_folder import RunBusy, RunDamaged, RunFolder, RunMismatch

TENSORS = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.array(3.0, dtype=np.float32)}


def test_a_state_comes_back_as_it_was_given(tmp_path):
    run = RunFolder(tmp_path)
    assert run.state() is None
    run.save_state(TENSORS, {"step": 3, "sum": 0.1 + 0.2}, {"seconds": 1.5})
    state = run.state()
    assert state is not None
    tensors, numbers, clock = state
    assert numbers == {"step": 3, "sum": 0.1 + 0.2} and clock == {"seconds": 1.5}
    assert {name: value.tolist() for name, value in tensors.items()} == {"a": 3.0, "b": [[0, 1, 2], [3, 4, 5]]}
    assert tensors["a"].shape == () and tensors["b"].dtype == np.float32


def test_equal_states_are_equal_bytes_whatever_the_clock_says(tmp_path):
    for name, seconds in (("one", 1.0), ("other", 2.0)):
        (tmp_path / name).mkdir()
        RunFolder(tmp_path / name).save_state(TENSORS, {"step": 3, "best": 1}, {"seconds": seconds})
    one, other = (tmp_path / name / "state.safetensors" for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_a_run_of_another_kind_is_refused_with_the_difference(tmp_path):
    run = RunFolder(tmp_path)
    run.begin({"settings": {"epochs": 3}, "data": [{"name": "a"}]})
    run.begin({"data": [{"name": "a"}], "settings": {"epochs": 3}})
    with pytest.raises(RunMismatch, match=r"settings\.epochs is 3 there and 4 now"):
        run.begin({"settings": {"epochs": 4}, "data": [{"name": "a"}]})
    with pytest.raises(RunMismatch, match=r'data 1\.name is "a" there and "b" now'):
        run.begin({"settings": {"epochs": 3}, "data": [{"name": "b"}]})


def test_metrics_are_added_to_and_corrected(tmp_path):
    run = RunFolder(tmp_path)
    run.save_metrics([{"step": 0}])
    run.save_metrics([{"step": 0}, {"step": 5}])
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 5]
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9}\n{"st')
    run.save_metrics([{"step": 0}, {"step": 5}, {"step": 7}])
    assert [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").open()] == [0, 5, 7]


def test_a_damaged_state_is_named_and_not_taken_for_none(tmp_path):
    run = RunFolder(tmp_path)
    run.save_state(TENSORS, {"step": 3}, {})
    path = tmp_path / "state.safetensors"
    whole = path.read_bytes()
    for content in (b"", whole[:4], whole[:40], whole[:-1], b"\xff" * len(whole)):
        path.write_bytes(content)
        with pytest.raises(RunDamaged, match="delete"):
            run.state()
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RunDamaged, match=r"config\.json"):
        run.begin({})


def test_two_processes_do_not_train_in_one_folder(tmp_path):
    with RunFolder(tmp_path / "run").held(), pytest.raises(RunBusy), RunFolder(tmp_path / "run").held():
        pass
    with RunFolder(tmp_path / "run").held():
        pass


def test_who_holds_a_folder_may_take_it_again(tmp_path):
    run = RunFolder(tmp_path / "run")
    with run.held():
        with run.held():
            pass
        with pytest.raises(RunBusy), RunFolder(tmp_path / "run").held():
            pass
    with RunFolder(tmp_path / "run").held():
        pass


def test_a_cleared_folder_holds_nothing_and_is_still_held(tmp_path):
    run = RunFolder(tmp_path / "run")
    with run.held():
        run.finish({"measure": 0.5})
        (tmp_path / "run" / "states" / "key").mkdir(parents=True)
        (tmp_path / "run" / "states" / "key" / "states.bin").write_bytes(b"states")
        run.clear()
        assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
        with pytest.raises(RunBusy), RunFolder(tmp_path / "run").held():
            pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDamaged, match="cannot be written"), RunFolder(tmp_path / "file" / "run").held():
        pass


def test_the_result_is_there_once_the_run_is_at_its_end(tmp_path):
    run = RunFolder(tmp_path)
    assert run.result is None
    run.finish({"measure": 0.5})
    assert run.result == {"measure": 0.5}
    assert not [path.name for path in tmp_path.iterdir() if path.name.endswith(".partial")]
