"""Writes compound files (OLE), the container of old Office files and of hwp: sectors of 512 bytes, streams by path.

It knows no document. Streams below 4,096 bytes lie in the mini stream, as the format demands.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

SECTOR, MINI_SECTOR, CUTOFF = 512, 64, 4096
FREE, END, FAT_SECTOR, NONE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFF
STORAGE, STREAM, ROOT = 1, 2, 5


@dataclass
class Node:
    """A storage (with children) or a stream (with data), and where it ended up."""

    name: str
    kind: int
    data: bytes = b""
    children: dict[str, Node] = field(default_factory=dict)
    start: int = END
    number: int = 0
    right: int = NONE


def write_compound(path: Path, streams: Mapping[str, bytes]) -> Path:
    """Write `streams`, by paths such as ``BodyText/Section0``."""
    root = Node("Root Entry", ROOT)
    for name, data in streams.items():
        *folders, last = name.split("/")
        parent = root
        for folder in folders:
            parent = parent.children.setdefault(folder, Node(folder, STORAGE))
        parent.children[last] = Node(last, STREAM, data)
    nodes = _numbered(root)
    sectors: list[bytes] = []
    chains: list[int] = []  # the allocation table: the sector after each
    mini, mini_chains = b"", []
    for node in nodes:
        if node.kind == STREAM and 0 < len(node.data) < CUTOFF:
            node.start = len(mini_chains)
            mini += _padded(node.data, MINI_SECTOR)
            _chain(mini_chains, -(-len(node.data) // MINI_SECTOR))
        elif node.kind == STREAM and node.data:
            node.start = _put(sectors, chains, node.data)
    root.data = mini
    root.start = _put(sectors, chains, mini) if mini else END
    mini_table = b"".join(struct.pack("<I", number) for number in mini_chains)
    mini_start = _put(sectors, chains, mini_table, fill=b"\xff") if mini_table else END
    entries = b"".join(map(_entry, nodes)) + _empty_entry() * (-len(nodes) % 4)
    directory = _put(sectors, chains, entries)
    count = 1
    while count * (SECTOR // 4) < len(chains) + count:
        count += 1
    first = len(chains)
    chains += [FAT_SECTOR] * count
    table = b"".join(struct.pack("<I", number) for number in chains).ljust(count * SECTOR, b"\xff")
    header = struct.pack(
        "<8s16sHHHHH6xIIIIIIIII", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", bytes(16), 0x3E, 3, 0xFFFE, 9, 6,
        0, count, directory, 0, CUTOFF, mini_start, -(-len(mini_table) // SECTOR), END, 0,
    )  # fmt: skip
    places = [*range(first, first + count)] + [FREE] * (109 - count)
    path.write_bytes(header + struct.pack("<109I", *places) + b"".join(sectors) + table)
    return path


def _numbered(root: Node) -> list[Node]:
    """All nodes in the order of their numbers; the children of one hang in a row, as the format orders them."""
    nodes = [root]
    for node in nodes:
        children = sorted(node.children.values(), key=lambda child: (len(child.name), child.name.upper()))
        for child in children:
            child.number = len(nodes)
            nodes.append(child)
        for child, following in pairwise(children):
            child.right = following.number
        node.children = {child.name: child for child in children}
    return nodes


def _padded(data: bytes, size: int, fill: bytes = b"\0") -> bytes:
    return data + fill * (-len(data) % size)


def _chain(chains: list[int], count: int) -> None:
    first = len(chains)
    chains += [*range(first + 1, first + count), END]


def _put(sectors: list[bytes], chains: list[int], data: bytes, fill: bytes = b"\0") -> int:
    start = len(chains)
    sectors.append(_padded(data, SECTOR, fill))
    _chain(chains, -(-len(data) // SECTOR))
    return start


def _entry(node: Node) -> bytes:
    name = node.name.encode("utf-16-le") + b"\0\0"
    child = min((child.number for child in node.children.values()), default=NONE)
    size = 0 if node.kind == STORAGE else len(node.data)
    start = 0 if node.kind == STORAGE else node.start
    head = struct.pack("<64sHBBIII", name, len(name), node.kind, 1, NONE, node.right, child)
    return head + bytes(36) + struct.pack("<IQ", start, size)


def _empty_entry() -> bytes:
    return bytes(68) + struct.pack("<III", NONE, NONE, NONE) + bytes(48)
