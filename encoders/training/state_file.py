"""Two files of one cache: arrays one after the other, and a record for each. It knows no text and no model.

``states.bin`` is only added to. A text's part of it holds a float32 scale for each vector, then the vectors as float16,
divided by their scales. ``records.bin`` has a record of 48 bytes for each part, written after the part is on the disk;
a record's own check sum tells a torn one. So whatever a killed process leaves behind, the records up to the first bad
one speak of whole parts, and what comes after is cut off before something is added.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from pathlib import Path

import numpy as np

from ... import SlotragError

RECORD = np.dtype(
    [
        ("key", "V16"),
        ("offset", "<u8"),
        ("vectors", "<u4"),
        ("width", "<u4"),
        ("groups", "<u4"),
        ("part_sum", "<u4"),
        ("unused", "<u4"),
        ("record_sum", "<u4"),
    ]
)
"""Key of the text; where its part begins; its vectors, their length, and how many groups (layers) they are in; CRC-32
of the part, and of the record up to there."""

_TAIL = 64 << 20
_STATES, _RECORDS = "states.bin", "records.bin"


class CacheUnusable(SlotragError):
    """The cache's folder cannot be read or written."""


def packed(vectors: np.ndarray) -> bytes:
    """A part: float32, shape (vectors, width), as scales and float16; half a unit in 2048 of the largest is lost."""
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    scales = np.where(largest > 0, largest, 1.0).astype("<f4")
    return scales.tobytes() + (vectors / scales[:, None]).astype("<f2").tobytes()


def part_bytes(vectors: int, width: int) -> int:
    """Length of a part."""
    return vectors * (4 + 2 * width)


class StateFile:
    """Parts by their number, on the disk.

    Parameters
    ----------
    folder : Path
        Made where it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self._states, self._records = folder / _STATES, folder / _RECORDS
        self.records = np.empty(0, dtype=RECORD)
        self._map: np.ndarray | None = None
        self._end = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unusable(folder, error) from error
        self.refresh()

    @property
    def bytes(self) -> int:
        """What both files take on the disk, as far as they are whole."""
        return self._end + self.records.nbytes

    def refresh(self) -> int:
        """Take in what another process added; the number of parts that were known before."""
        before = len(self.records)
        try:
            found = _whole(self._records, self._states, before, self._end)
        except OSError as error:
            raise unusable(self._states.parent, error) from error
        if len(found):
            self.records = np.concatenate([self.records, found])
            self._end = _end(found[-1])
        return before

    def cut(self) -> None:
        """Take away what a killed process left torn; no other process may be writing."""
        try:
            for path, size in ((self._records, self.records.nbytes), (self._states, self._end)):
                path.touch()
                if path.stat().st_size > size:
                    os.truncate(path, size)
        except OSError as error:
            raise unusable(self._states.parent, error) from error

    def add(self, parts: list[tuple[bytes, int, int, bytes]]) -> None:
        """Put parts at the end: on the disk when this returns.

        Parameters
        ----------
        parts : list of (key, groups, width, packed part)
            Keys of 16 bytes.
        """
        records = np.zeros(len(parts), dtype=RECORD)
        offset = self._end
        for record, (key, groups, width, content) in zip(records, parts, strict=True):
            record["key"], record["offset"], record["width"], record["groups"] = key, offset, width, groups
            record["vectors"] = len(content) // part_bytes(1, width)
            record["part_sum"] = zlib.crc32(content)
            record["record_sum"] = _record_sum(record)
            offset += len(content)
        try:
            _append(self._states, self._end, b"".join(content for *_, content in parts))
            _append(self._records, self.records.nbytes, records.tobytes())
        except OSError as error:
            with contextlib.suppress(CacheUnusable):
                self.cut()
            raise unusable(self._states.parent, error) from error
        self.records = np.concatenate([self.records, records])
        self._end = offset

    def read(self, number: int, out: np.ndarray) -> None:
        """Write a part's vectors into `out`, float32 of shape (groups, vectors of each, width)."""
        record = self.records[number]
        offset, vectors, width = int(record["offset"]), int(record["vectors"]), int(record["width"])
        content = self._mapped()[offset : offset + part_bytes(vectors, width)]
        scales = content[: 4 * vectors].view("<f4")
        halves = content[4 * vectors :].view("<f2").reshape(out.shape)
        np.multiply(halves, scales.reshape(*out.shape[:2], 1), out=out)

    def _mapped(self) -> np.ndarray:
        if self._map is None or len(self._map) < self._end:
            # As a plain array: each slice of a memmap costs more than what is done with it.
            self._map = np.asarray(np.memmap(self._states, dtype=np.uint8, mode="r", shape=(self._end,)))
        return self._map


def unusable(folder: Path, error: OSError) -> CacheUnusable:
    """What a failed call of the system means to the user."""
    return CacheUnusable(
        f"The cache of states in {folder} cannot be used ({error.strerror}); make room there or give another folder."
    )


def _append(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _whole(records_path: Path, states_path: Path, known: int, end: int) -> np.ndarray:
    """The records after the first `known`, up to the first that is torn or speaks of what is not there."""
    if not records_path.exists() or not states_path.exists():
        return np.empty(0, dtype=RECORD)
    content = records_path.read_bytes()[known * RECORD.itemsize :]
    records = np.frombuffer(content[: len(content) // RECORD.itemsize * RECORD.itemsize], dtype=RECORD)
    size = states_path.stat().st_size
    ends = records["offset"] + records["vectors"].astype(np.uint64) * (4 + 2 * records["width"].astype(np.uint64))
    begins = np.concatenate([np.array([end], dtype=np.uint64), ends])[: len(records)]
    bad = np.flatnonzero((records["offset"] != begins) | (ends > size))
    records = records[: bad[0] if len(bad) else None]
    with states_path.open("rb") as states:
        # What was added long before was on the disk before the next was begun.
        for number in np.flatnonzero(ends[: len(records)] + _TAIL > size).tolist():
            record = records[number]
            states.seek(int(record["offset"]))
            part = states.read(_end(record) - int(record["offset"]))
            if record["record_sum"] != _record_sum(record) or record["part_sum"] != zlib.crc32(part):
                return records[:number].copy()
    return records.copy()


def _end(record: np.void) -> int:
    return int(record["offset"]) + part_bytes(int(record["vectors"]), int(record["width"]))


def _record_sum(record: np.void) -> int:
    return zlib.crc32(record.tobytes()[:-4])
