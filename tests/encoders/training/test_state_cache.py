"""The cache of states: what comes back, what it survives, and how much memory it takes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from head_training import FACTS, FreshStates, configured, open_cache
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.training import state_cache, state_file
from slotrag.encoders.training.state_cache import CacheFull, StateCache
from slotrag.encoders.training.state_file import CacheUnusable, StateFile, packed

TEXTS = ["the boundary layer", "wind", "", "a plate " * 60, "heat and wind", "a \ud800 surrogate"]
METHODS = [("glot", {}), ("glot", {"layer": 1}), ("ilse", {}), ("ilse", {"over": "glot", "gat_hidden": 8})]


@pytest.fixture(scope="module")
def bert(tiny_model):
    return FrozenLM.load(tiny_model("bert"), device="cpu")


@pytest.mark.parametrize(("method", "parameters"), METHODS)
@pytest.mark.parametrize("prefix", ["", "ask "])
@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_states_come_back_as_they_were_within_float16(tiny_model, tmp_path, kind, method, parameters, prefix):
    """Those of a causal model without its first token."""
    bert = FrozenLM.load(tiny_model(kind), device="cpu")
    config = configured(bert, method, **parameters)
    assert config.sink == (kind == "bert")
    cache = open_cache(tmp_path, bert, config)
    cache.ensure(TEXTS, prefix=prefix)
    order = [4, 0, 3, 3, 2, 5]
    texts = [TEXTS[place] for place in order]
    states, mask = cache.batch(texts, prefix=prefix)
    fresh, fresh_mask = FreshStates(bert, config).batch(texts, prefix=prefix)
    assert states.dtype == torch.float32 and states.shape == fresh.shape
    largest = fresh.abs().amax(dim=-1, keepdim=True)
    assert ((states - fresh).abs() <= largest * 2**-11 + 1e-5).all()
    assert (mask is None) == (fresh_mask is None)
    if mask is not None and fresh_mask is not None:
        assert torch.equal(mask, fresh_mask)
    assert cache.lengths(texts, prefix=prefix) == FreshStates(bert, config).lengths(texts, prefix=prefix)


def test_each_text_is_computed_once_and_across_openings(bert, tmp_path):
    config = configured(bert, "glot")
    told: list[tuple[int, int]] = []
    cache = open_cache(tmp_path, bert, config)
    cache.ensure(["wind", "heat", "wind"], report=lambda *done: told.append(done))
    assert told == [(0, 2), (2, 2)] and cache.seconds > 0 and len(cache) == 2
    spent = bert.forward_seconds
    # Another tau takes the same states, another prefix or layer does not.
    again = open_cache(tmp_path, bert, configured(bert, "glot", tau=0.1))
    again.ensure(["heat", "wind"])
    assert bert.forward_seconds == spent and again.bytes == cache.bytes
    assert torch.equal(again.batch(["heat"])[0], cache.batch(["heat"])[0])
    again.ensure(["heat"], prefix="ask ")
    assert bert.forward_seconds > spent
    assert len(open_cache(tmp_path, bert, configured(bert, "glot", layer=1))) == 0
    assert open_cache(tmp_path, bert, configured(bert, "ilse")).key != cache.key
    assert open_cache(tmp_path, bert, configured(bert, "glot", sink=False)).key != cache.key


def test_a_text_that_was_not_made_is_asked_for_in_vain(bert, tmp_path):
    cache = open_cache(tmp_path, bert, configured(bert, "glot"))
    cache.ensure(["wind"])
    with pytest.raises(LookupError):
        cache.batch(["wind", "heat"])
    with pytest.raises(ValueError, match="neither the prefix"):
        cache.ensure(["wind"], prefix="other ")
    with pytest.raises(ValueError, match="lack max_length"):
        facts = {name: value for name, value in FACTS.items() if name != "max_length"}
        StateCache.open(tmp_path, bert, configured(bert, "glot"), facts=facts)


def written(folder: Path, bert: FrozenLM, texts: list[str]) -> Path:
    """A cache's folder whose texts were written one after the other."""
    cache = open_cache(folder, bert, configured(bert, "glot"))
    for text in texts:
        cache.ensure([text])
    return cache.folder


@pytest.mark.parametrize("name", ["states.bin", "records.bin"])
def test_a_torn_end_is_cut_off_and_written_again(bert, tmp_path, name):
    texts = ["wind", "heat and wind", "a plate on the wing"]
    whole = written(tmp_path / "whole", bert, texts)
    content = (whole / name).read_bytes()
    expected = {file: (whole / file).read_bytes() for file in ("states.bin", "records.bin")}
    sizes = sorted({0, 1, 47, 48, 49, len(content) // 2, len(content) - 49, len(content) - 1})
    for size in sizes:
        torn = tmp_path / f"torn-{size}" / whole.name
        shutil.copytree(whole, torn)
        (torn / name).write_bytes(content[:size])
        cache = open_cache(torn.parent, bert, configured(bert, "glot"))
        assert len(cache) < 3
        cache.ensure(texts[: len(cache)])
        assert len(cache) < 3
        for text in texts:
            cache.ensure([text])
        assert {file: (torn / file).read_bytes() for file in expected} == expected


@pytest.mark.parametrize("place", [-1, -30, -47])
def test_a_record_or_a_part_of_other_bytes_is_torn_too(bert, tmp_path, place):
    texts = ["wind", "heat and wind"]
    for name in ("states.bin", "records.bin"):
        folder = written(tmp_path / name, bert, texts)
        content = bytearray((folder / name).read_bytes())
        content[place] ^= 1
        (folder / name).write_bytes(content)
        cache = open_cache(folder.parent, bert, configured(bert, "glot"))
        assert len(cache) == 1
        cache.ensure(texts)
        fresh, _ = FreshStates(bert, configured(bert, "glot")).batch(texts)
        assert torch.allclose(cache.batch(texts)[0], fresh, atol=float(fresh.abs().max()) * 2**-10)


def test_garbage_after_the_end_is_cut_off(bert, tmp_path):
    folder = written(tmp_path, bert, ["wind"])
    for name in ("states.bin", "records.bin"):
        with (folder / name).open("ab") as file:
            file.write(b"\x01" * 100)
    cache = open_cache(tmp_path, bert, configured(bert, "glot"))
    cache.ensure(["wind", "heat"])
    assert len(open_cache(tmp_path, bert, configured(bert, "glot"))) == 2


def test_another_process_s_texts_are_taken_in(bert, tmp_path):
    one, other = (open_cache(tmp_path, bert, configured(bert, "glot")) for _ in range(2))
    one.ensure(["wind"])
    other.ensure(["heat", "wind"])
    one.ensure(["heat"])
    assert len(one) == len(other) == 2
    assert len(open_cache(tmp_path, bert, configured(bert, "glot"))) == 2


def test_an_interrupt_keeps_what_is_done(bert, tmp_path):
    class Stop(Exception):
        pass

    calls = []

    def stop():
        calls.append(None)
        if len(calls) > 4:
            raise Stop

    texts = [f"wind {'heat ' * (number % 40)}{number}" for number in range(300)]
    cache = open_cache(tmp_path, bert, configured(bert, "glot"))
    with pytest.raises(Stop):
        cache.ensure(texts, check=stop)
    assert 0 < len(cache) < 300
    assert len(open_cache(tmp_path, bert, configured(bert, "glot"))) == len(cache)


def test_the_limit_is_told_before_anything_is_made(bert, tmp_path):
    config = configured(bert, "glot")
    free = open_cache(tmp_path / "free", bert, config)
    free.ensure(TEXTS)
    needed = free.bytes - 48 * len(free)
    spent = bert.forward_seconds
    tight = open_cache(tmp_path / "tight", bert, config, limit_bytes=needed - 1)
    with pytest.raises(CacheFull, match=r"6 texts take .* and the limit is .*fewer texts"):
        tight.ensure(TEXTS)
    assert bert.forward_seconds == spent and len(tight) == 0
    open_cache(tmp_path / "tight", bert, config, limit_bytes=free.bytes).ensure(TEXTS)


def test_too_little_room_on_the_disk_is_told_before_anything_is_made(bert, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(state_cache.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(CacheFull, match="are free in"):
        open_cache(tmp_path, bert, configured(bert, "glot")).ensure(["wind"])


def test_a_disk_that_fills_up_in_between_loses_nothing(tmp_path, monkeypatch):
    file = StateFile(tmp_path)
    file.cut()
    vectors = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    file.add([(b"a" * 16, 1, 4, packed(vectors))])
    monkeypatch.setattr(state_file.os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(CacheUnusable, match="No space"):
        file.add([(b"b" * 16, 1, 4, packed(vectors))])
    monkeypatch.undo()
    file.add([(b"c" * 16, 1, 4, packed(vectors))])
    again = StateFile(tmp_path)
    assert again.records["key"].tobytes() == b"a" * 16 + b"c" * 16
    out = np.empty((1, 3, 4), dtype=np.float32)
    again.read(1, out)
    assert np.abs(out[0] - vectors).max() <= np.abs(vectors).max() * 2**-11


def test_large_and_tiny_states_keep_their_precision():
    for scale in (1e-30, 1e-6, 1.0, 1e30):
        vectors = (np.random.default_rng(1).normal(size=(5, 64)) * scale).astype(np.float32)
        content = packed(vectors)
        scales = np.frombuffer(content[:20], dtype="<f4")
        back = np.frombuffer(content[20:], dtype="<f2").reshape(5, 64).astype(np.float32) * scales[:, None]
        assert np.abs(back - vectors).max() <= np.abs(vectors).max() * 2**-11
    assert np.frombuffer(packed(np.zeros((1, 4), dtype=np.float32))[4:], dtype="<f2").tolist() == [0.0] * 4


KILLED = """
import sys
sys.path.insert(0, sys.argv[1])
from head_training import configured, open_cache
from slotrag.encoders.backbones.frozen import FrozenLM
bert = FrozenLM.load(sys.argv[2], device="cpu")
cache = open_cache(sys.argv[3], bert, configured(bert, "glot"))
for number in range(100000):
    cache.ensure([f"wind {number}", f"heat {number}"])
    print(len(cache), flush=True)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_a_cache_that_goes_on(bert, tiny_model, tmp_path):
    """kill -9 at many moments, the last of which are in the middle of writing."""
    support = Path(__file__).parents[2] / "support"
    command = [sys.executable, "-c", KILLED, str(support), str(tiny_model("bert")), str(tmp_path)]
    promised = 0
    for wait in (0.05, 0.21, 0.33, 0.47):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        assert process.stdout is not None
        said = process.stdout.readline()
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        lines = [said, *process.communicate()[0].splitlines()]
        promised = max(promised, *(int(line) for line in lines if line.strip().isdigit()))
        cache = open_cache(tmp_path, bert, configured(bert, "glot"))
        assert len(cache) >= promised
    texts = [f"{word} {number}" for number in range(promised // 2) for word in ("wind", "heat")]
    fresh, mask = FreshStates(bert, configured(bert, "glot")).batch(texts)
    assert mask is not None
    states, _ = open_cache(tmp_path, bert, configured(bert, "glot")).batch(texts)
    assert torch.allclose(states, fresh, atol=float(fresh.abs().max()) * 2**-10)


MEASURED = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from head_training import configured, open_cache
from slotrag.encoders.backbones.frozen import FrozenLM
def private():
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) << 10
bert = FrozenLM.load(sys.argv[2], device="cpu")
cache = open_cache(sys.argv[3], bert, configured(bert, "ilse", over="glot"))
text = lambda number: f"{number} " + "wind heat plate " * 13
cache.ensure([text(number) for number in range(40)])
before = most = private()
texts = [text(number) for number in range(40, 3600)]
def check():
    global most
    most = max(most, private())
cache.ensure(texts, check=check)
for start in range(0, len(texts), 16):
    cache.batch(texts[start:start + 16])
    check()
print(most - before, cache.bytes)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process's memory")
def test_memory_does_not_grow_with_the_cache(tiny_model, tmp_path):
    support = Path(__file__).parents[2] / "support"
    command = [sys.executable, "-c", MEASURED, str(support), str(tiny_model("bert")), str(tmp_path)]
    grown, size = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert size > 40e6
    # What waits to be written (8 MiB, and the joined copy of it) and a few batches.
    assert grown < 28e6, f"{grown} bytes for a cache of {size}"
