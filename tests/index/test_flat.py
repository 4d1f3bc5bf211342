"""The FAISS index: exact results, filters, ties, and files that are whole or refused."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import faiss
import numpy as np
import pytest
from slotrag import SlotragError
from slotrag.index import IndexFileError, IndexState, files, new_index, open_index

STATE = IndexState(3, "f" * 64, 1)


def unit_vectors(count: int, dimension: int = 8, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def filled(count: int = 100, dimension: int = 8):
    index = new_index(dimension, STATE)
    index.add(np.arange(1, count + 1) * 7, unit_vectors(count, dimension))
    return index


def test_nearest_first_with_their_cosines() -> None:
    index, vectors = filled(), unit_vectors(100)
    queries = unit_vectors(30, seed=1)
    for query, (ids, scores) in zip(queries, index.search(queries, 10), strict=True):
        expected = vectors @ query
        order = np.argsort(-expected)[:10]
        assert ids.tolist() == ((order + 1) * 7).tolist()
        np.testing.assert_allclose(scores, expected[order], atol=1e-6)
        assert (ids.dtype, scores.dtype) == (np.int64, np.float32)


def test_no_more_than_there_is() -> None:
    index = filled(3)
    ((ids, scores),) = index.search(unit_vectors(1, seed=1), 1000)
    assert sorted(ids.tolist()) == [7, 14, 21]
    assert np.isfinite(scores).all()
    ((ids, scores),) = new_index(8, STATE).search(unit_vectors(1), 5)
    assert (len(ids), len(scores)) == (0, 0)
    assert index.search(np.empty((0, 8), np.float32), 5) == []


@pytest.mark.parametrize("id_", [5, 2**40])
def test_one_allowed_among_ten_thousand_is_found(id_: int) -> None:
    index = filled(10_000)
    index.add(np.array([id_]), -unit_vectors(1))
    ((ids, scores),) = index.search(unit_vectors(1), 5, allowed=np.array([id_, id_ + 1]))
    assert ids.tolist() == [id_]
    assert scores[0] == pytest.approx(-1, abs=1e-6)
    ((ids, _),) = index.search(unit_vectors(1), 5, allowed=np.array([], dtype=np.int64))
    assert len(ids) == 0


@pytest.mark.parametrize("allowed", [None, np.arange(0, 2000, 2)])
def test_equal_scores_come_in_order_of_id(allowed: np.ndarray | None) -> None:
    index = new_index(8, STATE)
    ids = np.random.default_rng(2).permutation(1000)
    index.add(ids, np.repeat(unit_vectors(1), 1000, axis=0))
    index.add(np.array([5000]), -unit_vectors(1))
    for k in (1, 7, 400):
        ((found, _),) = index.search(unit_vectors(1), k, allowed=allowed)
        assert found.tolist() == (list(range(k)) if allowed is None else list(range(0, 2 * k, 2)))


def test_an_id_present_is_replaced() -> None:
    index = filled(10)
    index.add(np.array([7]), -unit_vectors(1))
    assert len(index) == 10
    ((ids, scores),) = index.search(-unit_vectors(1), 1)
    assert (ids.tolist(), scores[0]) == ([7], pytest.approx(1, abs=1e-6))


def test_removing_ignores_the_unknown() -> None:
    index = filled(10)
    assert index.remove([7, 8, 14, 7]) == 2
    assert index.ids().tolist() == [number * 7 for number in range(3, 11)]
    assert index.remove([]) == 0


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused(number: float) -> None:
    index = filled(3)
    bad = np.full((1, 8), number, dtype=np.float32)
    with pytest.raises(ValueError, match="finite"):
        index.search(bad, 1)
    with pytest.raises(ValueError, match="finite"):
        index.add(np.array([1]), bad)
    assert len(index) == 3


def test_wrong_shapes_are_refused() -> None:
    index = filled(3)
    with pytest.raises(ValueError, match="dimension 8"):
        index.search(np.zeros((1, 9), np.float32), 1)
    with pytest.raises(ValueError, match="dimension 8"):
        index.search(np.zeros(8, np.float32), 1)
    with pytest.raises(ValueError, match="k = 0"):
        index.search(unit_vectors(1), 0)
    with pytest.raises(ValueError, match="ids"):
        index.add(np.array([1, 2]), unit_vectors(1))
    with pytest.raises(ValueError, match="twice"):
        index.add(np.array([1, 1]), unit_vectors(2))
    with pytest.raises(ValueError, match="negative"):
        index.add(np.array([-1]), unit_vectors(1))
    with pytest.raises(ValueError, match="dimension 0"):
        new_index(0, STATE)


class TestFiles:
    def test_saved_and_opened(self, tmp_path: Path) -> None:
        path = tmp_path / "색인.index"
        index = filled()
        index.save(path)
        opened = open_index(path)
        assert (opened.state, opened.dimension, len(opened)) == (STATE, 8, 100)
        assert opened.ids().tolist() == index.ids().tolist()
        query = unit_vectors(1, seed=4)
        for left, right in zip(opened.search(query, 9)[0], index.search(query, 9)[0], strict=True):
            assert left.tolist() == right.tolist()
        opened.remove([7])
        opened.add(np.array([8]), unit_vectors(1))
        assert len(opened) == 100
        assert [file.name for file in tmp_path.iterdir()] == [path.name]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_an_empty_index(self, tmp_path: Path) -> None:
        new_index(8, STATE).save(tmp_path / "x")
        assert len(open_index(tmp_path / "x")) == 0

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(IndexFileError, match="cannot be read"):
            open_index(tmp_path / "x")
        with pytest.raises(IndexFileError, match="cannot be read"):
            open_index(tmp_path)

    def test_cut_anywhere(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        filled(20).save(path)
        whole = path.read_bytes()
        for length in [*range(0, 400, 7), len(whole) // 2, len(whole) - 1]:
            path.write_bytes(whole[:length])
            with pytest.raises(IndexFileError):
                open_index(path)
        path.write_bytes(whole + b"\0")
        with pytest.raises(IndexFileError, match="damaged"):
            open_index(path)

    def test_a_flipped_bit_anywhere(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        filled(5).save(path)
        whole = path.read_bytes()
        for at in range(len(whole)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
            with pytest.raises(IndexFileError):
                open_index(path)

    def test_garbage_and_other_formats(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        for content in (b"", b"garbage" * 100, b"\x80\x04\x95pickle", bytes(4096)):
            path.write_bytes(content)
            with pytest.raises(IndexFileError):
                open_index(path)
        faiss.write_index(faiss.IndexFlatIP(8), str(path))
        with pytest.raises(IndexFileError):
            open_index(path)

    def test_another_version(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "x"
        with monkeypatch.context() as later:
            later.setattr(files, "VERSION", files.VERSION + 1)
            filled(3).save(path)
        with pytest.raises(IndexFileError, match="format version"):
            open_index(path)

    @pytest.mark.parametrize("change", [{"count": 4}, {"dimension": 9}, {"dimension": "8"}, {"state": None}])
    def test_a_header_that_does_not_fit(self, tmp_path: Path, change: dict[str, object]) -> None:
        path = tmp_path / "x"
        filled(3).save(path)
        with files.opened(path) as (header, file):
            payload = file.read()
        header = {key: value for key, value in (header | change).items() if value is not None}
        files.write(path, header, lambda take: take(payload))
        with pytest.raises(IndexFileError):
            open_index(path)

    def test_another_kind_of_index(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        filled(3).save(path)
        with files.opened(path) as (header, _):
            pass
        for other in (faiss.IndexFlatIP(8), faiss.IndexIDMap2(faiss.IndexFlatL2(8))):
            files.write(path, header, lambda take, other=other: take(faiss.serialize_index(other).tobytes()))
            with pytest.raises(IndexFileError, match="another kind"):
                open_index(path)

    def test_a_failed_save_keeps_the_old_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "x"
        filled(3).save(path)

        def fail(_: int) -> None:
            raise OSError("no space left")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="no space"):
            filled(50).save(path)
        assert len(open_index(path)) == 3
        assert [file.name for file in tmp_path.iterdir()] == ["x"]

    def test_the_header_is_plain_json(self, tmp_path: Path) -> None:
        filled(3).save(tmp_path / "x")
        with files.opened(tmp_path / "x") as (header, _):
            pass
        assert json.loads(json.dumps(header))["fingerprint"] == "f" * 64


def test_missing_faiss_names_what_to_install() -> None:
    code = """
import sys
sys.modules["faiss"] = None
from slotrag.index import IndexState, new_index
try:
    new_index(8, IndexState(0, ""))
except Exception as error:
    print(type(error).__mro__[1].__name__, error)
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.startswith(SlotragError.__name__)
    assert 'pip install "slotrag[cpu]"' in output


def test_interface_imports_no_faiss() -> None:
    code = "import sys, slotrag.index; sys.exit('faiss' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_room_that_was_reserved_changes_nothing():
    index, other = filled(3), filled(3)
    index.reserve(1000)
    index.reserve(1)
    assert len(index) == 3
    more = np.random.default_rng(1).standard_normal((50, 8), dtype=np.float32)
    for one in (index, other):
        one.add(np.arange(100, 150), more)
    (ids, scores), (wanted, wanted_scores) = index.search(more[:1], 20)[0], other.search(more[:1], 20)[0]
    assert ids.tolist() == wanted.tolist() and scores.tolist() == wanted_scores.tolist()


def test_vectors_are_given_back():
    index = new_index(4, IndexState(1, "f"))
    vectors = np.eye(4, dtype=np.float32)[[2, 0, 3]]
    index.add(np.array([7, 3, 9]), vectors)
    index.remove([3])
    assert np.array_equal(index.vectors(np.array([9, 7])), vectors[[2, 0]])
    assert index.vectors(np.array([], dtype=np.int64)).shape == (0, 4)
    with pytest.raises(KeyError):
        index.vectors(np.array([3]))
