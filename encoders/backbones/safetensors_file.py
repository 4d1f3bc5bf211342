"""Writes a safetensors file tensor by tensor, its bytes depending on names and values alone.

The file is laid out here rather than by a library, so that a converted model has one sha256 whichever versions of
torch, transformers and safetensors are installed, and a model larger than memory can be written. It knows no model.

Layout (https://github.com/huggingface/safetensors#format): the header's length as little-endian u64, the header as
JSON, the tensors one after the other. Names are sorted; the header is padded with spaces to a multiple of 8.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class TensorSource:
    """A tensor to be written as float32.

    Attributes
    ----------
    shape : tuple of int
    pieces : callable
        Gives float32 arrays that, flattened and joined, are the tensor's values in row-major order.
    """

    shape: tuple[int, ...]
    pieces: Callable[[], Iterable[np.ndarray]]

    @property
    def bytes(self) -> int:
        """Size in the file."""
        return 4 * math.prod(self.shape)


def write_float32(
    path: Path, tensors: Mapping[str, TensorSource], progress: Callable[[int, int], None] | None = None
) -> str:
    """Write `tensors` to `path`, flushed to the disk.

    Parameters
    ----------
    path : Path
        Overwritten; the caller puts the finished file in its place.
    tensors : mapping of name to TensorSource
    progress : callable, optional
        Called with (bytes written, bytes in all) after each piece.

    Returns
    -------
    str
        The file's sha256, 64 hex digits.

    Raises
    ------
    ValueError
        A source's pieces do not add up to its shape.
    """
    digest = hashlib.sha256()
    total = sum(source.bytes for source in tensors.values())
    done = 0
    with path.open("wb") as file:
        header = _header(tensors)
        file.write(header)
        digest.update(header)
        for name in sorted(tensors):
            written = 0
            for piece in tensors[name].pieces():
                data = piece.astype("<f4", copy=False).tobytes()
                file.write(data)
                digest.update(data)
                written += len(data)
                if progress is not None:
                    progress(done + written, total)
            if written != tensors[name].bytes:
                raise ValueError(f"tensor {name}: {written} bytes where its shape asks for {tensors[name].bytes}")
            done += written
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def float32_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The content of a file of `arrays`, for tensors that fit into memory; what `write_float32` would write."""
    sources = {name: TensorSource(array.shape, lambda array=array: [array]) for name, array in arrays.items()}
    values = [arrays[name].astype("<f4", copy=False).tobytes() for name in sorted(arrays)]
    return b"".join([_header(sources), *values])


def _header(tensors: Mapping[str, TensorSource]) -> bytes:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name in sorted(tensors):
        source = tensors[name]
        end = offset + source.bytes
        header[name] = {"dtype": "F32", "shape": list(source.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text
