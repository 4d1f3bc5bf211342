"""Office files and e-books are zip archives: what kind one is, and whether it is safe to unpack. It reads no document.

A member is never unpacked beyond the size that the archive declares for it, so the declared sizes are a bound.
"""

from __future__ import annotations

import zipfile
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ..documents import ReadError

MAXIMUM_UNPACKED = 1_000_000_000
"""Most bytes of all members together."""

MAXIMUM_XML = 200_000_000
"""Most bytes of XML and HTML, which takes several times as much memory once it is parsed."""

MAXIMUM_MEMBERS = 50_000

_TEXT_SUFFIXES = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx", ".hpf")
_TYPE_MEMBER = b"mimetype"

ZIP_MAGIC = b"PK\x03\x04"
OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def office_score(head: bytes, path: Path, member: str, suffixes: tuple[str, ...]) -> float:
    """`Reader.sniff` of a format whose main part is `member`.

    A broken archive, and the envelope of a protected file, count only under the format's own suffix.
    """
    if head.startswith(ZIP_MAGIC):
        names = _names(str(path))
        if names is not None:
            return 1.0 if member in names else 0.0
    elif not head.startswith(OLE_MAGIC):
        return 0.0
    return 0.3 if path.suffix.lower() in suffixes else 0.0


def declared_type(head: bytes) -> str:
    """The media type that an archive names in its first member, as e-books and OpenDocument files do; else empty."""
    if not head.startswith(ZIP_MAGIC) or head[30:38] != _TYPE_MEMBER or head[8:10] != b"\0\0":
        return ""
    start = 38 + int.from_bytes(head[28:30], "little")
    size = int.from_bytes(head[22:26], "little")
    return head[start : start + min(size, 200)].decode("ascii", "replace").strip()


@lru_cache(maxsize=1)
def _cached_names(path: str, size: int, mtime_ns: int) -> frozenset[str] | None:
    try:
        with zipfile.ZipFile(path) as archive:
            return frozenset(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return None


def _names(path: str) -> frozenset[str] | None:
    """Members of an archive; None where it is broken. Several readers ask for the same file in a row."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return _cached_names(path, status.st_size, status.st_mtime_ns)


def check_archive(path: Path, *, entities: bool = False) -> None:
    """Refuse an archive that is broken, protected, or dangerous to unpack.

    Parameters
    ----------
    entities : bool
        Whether XML with a document type is let through, for a reader whose parser expands none (`parse_xml`).

    Raises
    ------
    ReadError
        With the reason.
    """
    with path.open("rb") as stream:
        if stream.read(8) == OLE_MAGIC:
            raise ReadError("protected by a password (or in the old binary Office format): save an open copy")
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(archive, entities)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise ReadError("broken: not a whole zip archive, as such files are") from error


def _check_members(archive: zipfile.ZipFile, entities: bool) -> None:
    members = archive.infolist()
    if len(members) > MAXIMUM_MEMBERS:
        raise ReadError(f"refused: more than {MAXIMUM_MEMBERS:,} parts")
    if sum(member.file_size for member in members) > MAXIMUM_UNPACKED:
        raise ReadError(f"refused: unpacks to more than {MAXIMUM_UNPACKED // 1_000_000:,} MB")
    xml = [member for member in members if member.filename.lower().endswith(_TEXT_SUFFIXES)]
    if sum(member.file_size for member in xml) > MAXIMUM_XML:
        raise ReadError(f"refused: more than {MAXIMUM_XML // 1_000_000:,} MB of text structure")
    for member in xml:
        if member.flag_bits & 1:
            raise ReadError("protected by a password")
        if entities:
            continue
        with archive.open(member) as stream:
            start = stream.read(1024).replace(b"\0", b"")
        if b"<!DOCTYPE" in start or b"<!ENTITY" in start:
            raise ReadError("refused: its XML declares entities")


def parse_xml(data: bytes) -> Any:
    """The root element of an XML text. It expands no entity, reads no other file and uses no network.

    Raises
    ------
    ReadError
        Not well-formed.
    """
    etree: Any = import_module("lxml.etree")
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, remove_comments=True)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise ReadError(f"broken: its XML cannot be read ({error.msg})") from error
