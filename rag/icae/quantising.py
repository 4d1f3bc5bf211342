"""Memory slots as bytes and back: float16, or whole numbers of 8 or 4 bits with one scale a row.

The bytes describe themselves, and bytes that were changed are refused. It knows no compressor and no store.

All numbers are little-endian: a header (magic, version, form, rows, width, tokens, span, CRC-32 of all the rest),
positions as uint32, for int8 and int4 a float32 scale a row, then the rows. A row of int4 takes two numbers a byte, the
lower four bits first; one of odd width ends with four unused bits.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from ... import SlotragError, UsageError
from .slots import Slots

FORMS = ("float16", "int8", "int4")

_MAGIC, _VERSION = b"SLOT", 1
_HEADER = struct.Struct("<4sBBHIIIII")
_PLACE, _HALF, _SCALE = np.dtype("<u4"), np.dtype("<f2"), np.dtype("<f4")
_LARGEST = {"int8": 127, "int4": 7}
"""Of a row's whole numbers; the one further below zero is not used, so that a row and its negative lose the same."""


class SlotsDamaged(SlotragError):
    """Bytes are no slots of this version, or were changed since they were written."""


def require_form(form: str) -> None:
    """Refuse what is none of `FORMS`. Raises `slotrag.UsageError`."""
    if form not in FORMS:
        raise UsageError(f"Slots are kept as {', '.join(FORMS)}, not {form!r}.")


def to_bytes(slots: Slots, form: str) -> bytes:
    """Slots as bytes.

    Parameters
    ----------
    slots : Slots
        With arrays of finite numbers.
    form : str
        Of `FORMS`. An element is off by at most 2^-11 of itself (or 2^-25) in ``float16``, by half its row's scale
        otherwise; a scale is the row's largest magnitude over 127 in ``int8`` and over 7 in ``int4``.

    Raises
    ------
    ValueError
        A number is not finite in this form, or a position, a length or a span is beyond 32 bits.
    slotrag.UsageError
        There is no such form.
    """
    require_form(form)
    rows = np.asarray(slots.rows, dtype=np.float32)
    if rows.ndim != 2:
        raise ValueError(f"slots have rows of a width, not the shape {rows.shape}")
    positions = np.asarray(slots.positions, dtype=np.int64)
    _require_32_bits([slots.tokens, slots.span, *positions.tolist()])
    body = positions.astype(_PLACE).tobytes() + _packed(rows, form)
    header = (_MAGIC, _VERSION, FORMS.index(form), 0, *rows.shape, slots.tokens, slots.span)
    return _HEADER.pack(*header, _checksum(header, body)) + body


def from_bytes(data: bytes) -> Slots:
    """The slots in what `to_bytes` wrote, with float32 rows.

    Raises
    ------
    SlotsDamaged
    """
    form, rows, width, tokens, span = _header(data)
    body = memoryview(data)[_HEADER.size :]
    placed = rows * _PLACE.itemsize
    positions = np.frombuffer(body[:placed], dtype=_PLACE).astype(np.int64)
    return Slots(_unpacked(body[placed:], form, rows, width), positions, tokens, span)


def form_of(data: bytes) -> str:
    """The form of what `to_bytes` wrote. Raises `SlotsDamaged`."""
    return _header(data)[0]


def byte_count(rows: int, width: int, form: str) -> int:
    """Bytes of `rows` slots in a form, header included."""
    require_form(form)
    scale = 0 if form == "float16" else _SCALE.itemsize
    return _HEADER.size + rows * (_PLACE.itemsize + scale + _row_bytes(width, form))


def _header(data: bytes) -> tuple[str, int, int, int, int]:
    """Form, rows, width, tokens and span, after checking every byte."""
    if len(data) < _HEADER.size:
        raise SlotsDamaged("stored slots are damaged: they are cut off; they are made again when they are needed")
    *header, checksum = _HEADER.unpack_from(data)
    magic, version, number, _, rows, width, tokens, span = header
    if magic != _MAGIC or version != _VERSION or number >= len(FORMS):
        raise SlotsDamaged("stored slots are of another version of slotrag; they are made again when they are needed")
    form = FORMS[number]
    if len(data) != byte_count(rows, width, form) or checksum != _checksum(header, data[_HEADER.size :]):
        raise SlotsDamaged("stored slots are damaged: they were changed; they are made again when they are needed")
    return form, rows, width, tokens, span


def _checksum(header: Any, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(_HEADER.pack(*header, 0)))


def _row_bytes(width: int, form: str) -> int:
    return {"float16": width * _HALF.itemsize, "int8": width, "int4": (width + 1) // 2}[form]


def _require_32_bits(values: list[int]) -> None:
    if not all(0 <= value < 2**32 for value in values):
        raise ValueError("a position, a length or a span of slots is below zero or beyond 32 bits")


def _packed(rows: np.ndarray, form: str) -> bytes:
    if form == "float16":
        with np.errstate(over="ignore"):
            halves = rows.astype(_HALF)
        if not np.isfinite(halves).all():
            raise ValueError("a slot holds a number that is not finite in float16")
        return halves.tobytes()
    largest = _LARGEST[form]
    scales = (np.abs(rows).max(axis=1, initial=0) / np.float32(largest)).astype(_SCALE)
    with np.errstate(over="ignore"):
        if not np.isfinite(scales * np.float32(largest)).all():
            raise ValueError("a slot holds a number that is not finite")
    # A row of zeros, or one too small for a scale, becomes zeros whatever it is divided by.
    steps = rows / np.where(scales > 0, scales, np.float32(np.inf))[:, None]
    numbers = np.clip(np.rint(steps), -largest, largest).astype(np.int8)
    return scales.tobytes() + (numbers.tobytes() if form == "int8" else _nibbles(numbers).tobytes())


def _unpacked(body: memoryview, form: str, rows: int, width: int) -> np.ndarray:
    """float32, shape (rows, width)."""
    if form == "float16":
        return np.frombuffer(body, dtype=_HALF).reshape(rows, width).astype(np.float32)
    scaled = rows * _SCALE.itemsize
    scales = np.frombuffer(body[:scaled], dtype=_SCALE)
    numbers = np.frombuffer(body[scaled:], dtype=np.uint8).reshape(rows, _row_bytes(width, form))
    whole = numbers.view(np.int8) if form == "int8" else _from_nibbles(numbers, width)
    return whole.astype(np.float32) * scales[:, None].astype(np.float32)


def _nibbles(numbers: np.ndarray) -> np.ndarray:
    """Numbers from -7 to 7, two a byte: uint8, shape (rows, half the width rounded up)."""
    raised = (numbers + 8).astype(np.uint8)
    even = np.pad(raised, ((0, 0), (0, raised.shape[1] % 2)))
    return even[:, 0::2] | (even[:, 1::2] << 4)


def _from_nibbles(packed: np.ndarray, width: int) -> np.ndarray:
    """What `_nibbles` packed: int8, shape (rows, width)."""
    both = np.stack([packed & 15, packed >> 4], axis=2).reshape(len(packed), packed.shape[1] * 2)
    return both[:, :width].astype(np.int8) - np.int8(8)
