"""Bytes of a text file to characters: finds the encoding, drops no byte in silence. It knows no document format."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from pathlib import Path

from ..documents import NoText, ReadError, normalise

MAXIMUM_BYTES = 100_000_000
"""Largest text file that is read at once. A document is one string in memory with its passages beside it, so a larger
file is refused with a reason in place of filling the memory; plain text is read in parts."""

PART_CHARACTERS = 2_000_000
"""Characters of a part of a text that is read in parts, at most."""

_SAMPLE_BYTES = 200_000
_BEFORE_BYTES = 1000
_BLOCK_BYTES = 1 << 20

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
            size = os.fstat(stream.fileno()).st_size
            data = stream.read(maximum + 1) if size <= maximum else b""
    except OSError as error:
        raise ReadError(f"cannot be opened: {error.strerror or error}") from error
    if max(size, len(data)) > maximum:
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


def text_parts(path: Path, characters: int = PART_CHARACTERS) -> Iterator[str]:
    """The normalised text of a file of any size in parts of at most `characters`; joined they are the whole text.

    A part ends at a line end, else at a space, where there is one in its second half. Raises as `read_text`.
    """
    try:
        with path.open(encoding=_encoding_of(path), newline="") as stream:
            rest = ""
            while True:
                block = stream.read(characters - len(rest))
                rest += block
                if not block:
                    break
                end = _part_end(rest, characters)
                yield normalise(rest[:end])
                rest = rest[end:]
            if rest:
                yield normalise(rest)
    except OSError as error:
        raise ReadError(f"cannot be opened: {error.strerror or error}") from error


def _part_end(text: str, characters: int) -> int:
    if len(text) < characters:
        return len(text)
    for mark in ("\n", " "):
        found = text.rfind(mark, characters // 2)
        if found > 0:
            return found + 1
    return len(text) - 1 if text.endswith("\r") else len(text)


def _encoding_of(path: Path) -> str:
    """The encoding of a whole file, looked at block by block. Raises `ReadError` as `decode`."""
    with path.open("rb") as stream:
        head = stream.read(_SAMPLE_BYTES)
    marked = next((encoding for bom, encoding in _BOMS if head.startswith(bom)), None)
    marked = marked or (_utf16_without_bom(head[:8192]) if b"\0" in head[:8192] else None)
    if marked:
        wrong = _first_wrong(path, marked)
        if wrong is not None:
            raise _damaged(marked, wrong)
        return marked
    wrong = _first_wrong(path, "utf-8")
    if wrong is None:
        return "utf-8"
    with path.open("rb") as stream:
        stream.seek(max(0, wrong - _BEFORE_BYTES))
        sample = stream.read(_SAMPLE_BYTES)
    for encoding in _legacy_encodings(sample):
        if _first_wrong(path, encoding) is None:
            return encoding
    raise _unknown_encoding()


def _first_wrong(path: Path, encoding: str) -> int | None:
    """About where a file is not valid in `encoding` (to a block), or None."""
    decoder = codecs.getincrementaldecoder(encoding)()
    at = 0
    with path.open("rb") as stream:
        try:
            while block := stream.read(_BLOCK_BYTES):
                decoder.decode(block)
                at += len(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            return at + error.start
    return None


def _damaged(encoding: str, at: int) -> ReadError:
    return ReadError(f"damaged text: marked as {encoding}, but byte {at} is not valid in it")


def _unknown_encoding() -> ReadError:
    return ReadError("its text encoding cannot be told with confidence: save it as UTF-8")


def _strict(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise _damaged(encoding, error.start) from error


def _decode_legacy(data: bytes) -> str:
    """Text in an encoding of before Unicode."""
    for encoding in _legacy_encodings(data[:_SAMPLE_BYTES]):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise _unknown_encoding()


def _legacy_encodings(sample: bytes) -> Iterator[str]:
    """Encodings that `sample` may be in, the likeliest first."""
    for encoding, plausible in (("cp949", _korean), ("cp1252", _western)):
        if plausible(sample):
            yield encoding
    from charset_normalizer import from_bytes

    best = from_bytes(sample, threshold=0.15).best()
    if best is not None and best.encoding not in _UNLIKELY and best.chaos < 0.1:
        yield best.encoding


_UNLIKELY = frozenset(("utf_8", "ascii", "utf_7", "cp037", "cp500", "cp1026", "cp1140", "cp273", "cp424", "cp875"))
_COMMON_SYLLABLES = frozenset("이다는의에을가고하지은를기로사한도서인자시대어해정일리그수나전부스제")
_WESTERN_SIGNS = frozenset("àâäáãåæçéèêëíìîïñóòôöõøœúùûüýÿßÀÂÄÁÅÆÇÉÈÊËÍÎÏÑÓÔÖØŒÚÙÛÜ’‘“”„«»–—…•°§©®™€£·¿¡½¼²³×\xa0š")


def _korean(sample: bytes) -> bool:
    """Whether the bytes above 127 come in pairs that spell Korean: Chinese in GBK lies in the same range."""
    high = b"".join(re.findall(rb"[\x80-\xff]+", sample))
    pairs = len(_HIGH_PAIR.findall(sample))
    hangul = _HANGUL_PAIR.findall(sample)
    if not hangul or len(hangul) < 0.6 * pairs or 2 * pairs < 0.8 * len(high):
        return False
    if len(hangul) < 20:
        return 2 * len(hangul) == len(high)
    common = sum(pair.decode("cp949") in _COMMON_SYLLABLES for pair in hangul)
    return common >= 0.2 * len(hangul)


def _western(sample: bytes) -> bool:
    """Mostly ASCII, and above it almost only the letters and signs that Western European texts use."""
    if re.search(rb"[\x81\x8d\x8f\x90\x9d]", sample):
        return False
    high = re.sub(rb"[\x00-\x7f]+", b"", sample).decode("cp1252")
    return len(high) * 4 <= len(sample) and sum(sign in _WESTERN_SIGNS for sign in high) >= 0.9 * len(high)


def _utf16_without_bom(head: bytes) -> str | None:
    """UTF-16 without its mark: in the right byte order it is printable text of the usual scripts."""
    head = head[: len(head) // 2 * 2]
    order = "le" if head[1::2].count(0) >= head[0::2].count(0) else "be"
    try:
        text = head.decode(f"utf-16-{order}", errors="ignore")
    except UnicodeDecodeError:
        return None
    if len(text) < 2 or "\0" in text:
        return None
    usual = sum(_usual(character) for character in text)
    return f"utf-16-{order}" if usual >= 0.97 * len(text) and len(set(text)) > 1 else None


def _usual(character: str) -> bool:
    code = ord(character)
    return (
        32 <= code < 127
        or code in (9, 10, 13)
        or 0xA0 <= code < 0x250
        or 0x2010 <= code < 0x2030
        or 0x3000 <= code < 0x3100
        or 0x4E00 <= code < 0xA000
        or 0xAC00 <= code < 0xD7A4
        or 0xFF00 <= code < 0xFFF0
    )
