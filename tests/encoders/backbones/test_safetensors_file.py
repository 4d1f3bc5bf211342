"""The safetensors writer against the safetensors library."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load
from slotrag.encoders.backbones.safetensors_file import TensorSource, write_float32


def source(values: np.ndarray, pieces: int = 1) -> TensorSource:
    return TensorSource(values.shape, lambda: iter(np.array_split(values.reshape(-1), pieces)))


@given(st.dictionaries(st.text("ab.c", min_size=1, max_size=6), st.lists(st.integers(1, 4), max_size=3), max_size=4))
def test_reads_back_what_was_written(tmp_path_factory, shapes):
    path = tmp_path_factory.mktemp("w") / "m.safetensors"
    random = np.random.default_rng(1)
    values = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    digest = write_float32(path, {name: source(value) for name, value in values.items()})
    data = path.read_bytes()
    assert digest == hashlib.sha256(data).hexdigest()
    read = load(data)
    assert read.keys() == values.keys()
    for name, value in values.items():
        np.testing.assert_array_equal(read[name], value)


def test_bytes_do_not_depend_on_order_or_pieces(tmp_path):
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones(5, np.float32)
    first = write_float32(tmp_path / "1", {"a": source(a), "b": source(b)})
    second = write_float32(tmp_path / "2", {"b": source(b, 5), "a": source(a, 3)})
    assert first == second


def test_progress_ends_at_the_total(tmp_path):
    seen = []
    write_float32(tmp_path / "m", {"a": source(np.ones(8, np.float32), 4)}, lambda *pair: seen.append(pair))
    assert seen == [(8, 32), (16, 32), (24, 32), (32, 32)]


def test_pieces_that_do_not_fill_the_shape_are_refused(tmp_path):
    short = TensorSource((4,), lambda: [np.ones(3, np.float32)])
    with pytest.raises(ValueError, match="tensor a"):
        write_float32(tmp_path / "m", {"a": short})
