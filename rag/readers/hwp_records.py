"""The records that streams of a hwp file (5.x) consist of, and the text of a paragraph's record.

It knows how records nest and what a control character takes up, not what the records mean.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..documents import ReadError

MAXIMUM_STREAM = 200_000_000
"""Most bytes of a stream, unpacked."""

MAXIMUM_RECORDS = 2_000_000
"""Most records of one outermost paragraph, which are in memory at once."""

_LONG = 0xFFF
_SINGLE = {0: "", 10: "\n", 13: "", 24: "-", 30: " ", 31: " "}
_RESERVED = range(25, 30)
_INLINE = {4: "", 5: "", 6: "", 7: "", 8: "", 9: "\t", 19: "", 20: ""}
_CONTROL_BYTES = 16


@dataclass(slots=True)
class Record:
    """A record with the records below it."""

    tag: int
    data: bytes
    children: list[Record] = field(default_factory=list)

    def inner(self, tag: int) -> Iterator[Record]:
        """The children with this tag."""
        return (child for child in self.children if child.tag == tag)


def unpacked(data: bytes) -> tuple[bytes, bool]:
    """A compressed stream (raw deflate), and whether it is whole.

    Raises
    ------
    ReadError
        Not compressed so, or it unpacks to more than `MAXIMUM_STREAM`.
    """
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        found = stream.decompress(data, MAXIMUM_STREAM)
    except zlib.error as error:
        raise ReadError("broken: its text cannot be unpacked") from error
    if stream.unconsumed_tail:
        raise ReadError(f"refused: unpacks to more than {MAXIMUM_STREAM // 1_000_000:,} MB")
    return found, stream.eof


def trees(data: bytes) -> Iterator[Record]:
    """The outermost records of a stream one by one, each with all below it; a last record that is cut off is left out.

    Raises
    ------
    ReadError
        One holds more than `MAXIMUM_RECORDS`.
    """
    path: list[Record] = []
    count = 0
    for level, record in _records(data):
        if level == 0 or not path:
            if path:
                yield path[0]
            path, count = [record], 0
            continue
        count += 1
        if count > MAXIMUM_RECORDS:
            raise ReadError(f"refused: a paragraph of more than {MAXIMUM_RECORDS:,} parts")
        del path[level:]
        path[-1].children.append(record)
        path.append(record)
    if path:
        yield path[0]


def _records(data: bytes) -> Iterator[tuple[int, Record]]:
    """(level, record): a head of 10 bits tag, 10 bits level, 12 bits size; a long record's size follows it."""
    at = 0
    while at + 4 <= len(data):
        head = int.from_bytes(data[at : at + 4], "little")
        at += 4
        size = head >> 20
        if size == _LONG:
            size = int.from_bytes(data[at : at + 4], "little")
            at += 4
        if at + size > len(data):
            return
        yield head >> 10 & 0x3FF, Record(head & 0x3FF, data[at : at + size])
        at += size


def text_pieces(data: bytes) -> Iterator[str | None]:
    """The text of a paragraph; None where a control stands that has a record of its own.

    Text is UTF-16. Characters below 32 are controls: some stand for a sign, the others take up eight characters.
    """
    at = start = 0
    while at + 1 < len(data):
        code = data[at] | data[at + 1] << 8
        if code >= 32:
            at += 2
            continue
        if at > start:
            yield data[start:at].decode("utf-16-le", "surrogatepass")
        if code in _SINGLE or code in _RESERVED:
            yield _SINGLE.get(code, "")
            at += 2
        else:
            yield _INLINE.get(code)
            at += _CONTROL_BYTES
        start = at
    if at > start:
        yield data[start:at].decode("utf-16-le", "surrogatepass")
