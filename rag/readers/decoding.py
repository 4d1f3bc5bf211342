"""Bytes of a text file to characters: finds the encoding, drops no byte in silence. It knows no document format."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from ..documents import NoText, ReadError, normalise

MAXIMUM_BYTES = 100_000_000
"""Largest text file that is read. A document is one string in memory with its passages beside it (about twenty times
the file's size at the peak), so a larger file is refused with a reason in place of filling the memory."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ODD_CONTROLS = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_HANGUL_PAIR = re.compile(rb"[\xb0-\xc8][\xa1-\xfe]")
_HIGH_PAIR = re.compile(rb"[\x80-\xff]{2}")


def looks_like_text(head: bytes) -> bool:
    """Whether the first bytes of a file may be text in an encoding that `decode` knows."""
    if any(head.startswith(bom) for bom, _ in _BOMS):
        return True
    if b"\0" in head:
        return _utf16_without_bom(head) is not None
    return len(_ODD_CONTROLS.findall(head)) * 50 <= len(head)


def read_text(path: Path) -> str:
    """The normalised text of a file.

    Raises
    ------
    ReadError
        Larger than `MAXIMUM_BYTES`, unreadable, or in no encoding that can be told with confidence.
    NoText
        Empty or only white space.
    """
    text = normalise(decode(read_bytes(path)))
    if not text.strip():
        raise NoText("only white space")
    return text


def read_bytes(path: Path, maximum: int = MAXIMUM_BYTES) -> bytes:
    """The bytes of a file of at most `maximum` bytes. Raises as `read_text`."""
    try:
        with path.open("rb") as stream:
            data = stream.read(maximum + 1)
    except OSError as error:
        raise ReadError(f"cannot be opened: {error.strerror or error}") from error
    if len(data) > maximum:
        raise ReadError(f"larger than {maximum // 1_000_000} MB: split it into smaller files")
    if not data:
        raise NoText("empty file")
    return data


def decode(data: bytes) -> str:
    """Decode `data`: byte order mark, UTF-8, UTF-16 without mark, Korean (cp949), then what its statistics say.

    Raises
    ------
    ReadError
        No encoding fits with confidence.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _strict(data, encoding)
    utf16 = _utf16_without_bom(data[:8192]) if b"\0" in data[:8192] else None
    if utf16:
        return _strict(data, utf16)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_legacy(data)


def _strict(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ReadError(f"damaged text: marked as {encoding}, but byte {error.start} is not valid in it") from error


def _decode_legacy(data: bytes) -> str:
    sample = data[:200_000]
    if _mostly_korean(sample):
        try:
            return data.decode("cp949")
        except UnicodeDecodeError:
            pass
    from charset_normalizer import from_bytes

    best = from_bytes(sample, threshold=0.2).best()
    if best is not None and best.encoding not in ("utf_8", "ascii"):
        encoding = "cp1252" if best.encoding in _LATIN and _is_cp1252(data) else best.encoding
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            pass
    if _is_cp1252(data) and _western(sample):
        return data.decode("cp1252")
    raise ReadError("its text encoding cannot be told with confidence: save it as UTF-8")


_LATIN = ("latin_1", "iso8859_15", "cp1252", "cp1250", "iso8859_9", "cp1254", "iso8859_3", "cp1257", "iso8859_14")


def _mostly_korean(sample: bytes) -> bool:
    """Whether the bytes above 127 come in pairs that are mostly common Hangul syllables of EUC-KR."""
    pairs = len(_HIGH_PAIR.findall(sample))
    high = sum(len(run) for run in re.findall(rb"[\x80-\xff]+", sample))
    return pairs > 0 and len(_HANGUL_PAIR.findall(sample)) >= 0.6 * pairs and pairs * 2 >= 0.8 * high


def _is_cp1252(data: bytes) -> bool:
    return not re.search(rb"[\x81\x8d\x8f\x90\x9d]", data)


def _western(sample: bytes) -> bool:
    """Mostly ASCII letters with single letters above 127 in between, as Western European text has."""
    high = re.findall(rb"[\x80-\xff]+", sample)
    return sum(len(run) for run in high) * 5 <= len(sample) and sum(len(run) > 2 for run in high) * 10 <= len(high)


def _utf16_without_bom(head: bytes) -> str | None:
    """UTF-16 of mostly ASCII: every other byte is NUL."""
    even, odd = head[0::2], head[1::2]
    if len(odd) < 2:
        return None
    if odd.count(0) * 2 > len(odd) and even.count(0) * 20 < len(even):
        return "utf-16-le"
    if even.count(0) * 2 > len(even) and odd.count(0) * 20 < len(odd):
        return "utf-16-be"
    return None
