"""A document as read: its text, and where its headings, paragraphs, tables, lists and code lie in it.

It knows no file format, no splitting and no storage. Offsets count characters of `Document.text`, which is decoded,
has ``\\n`` for every line end, is in Unicode normal form C and holds no unpaired surrogate. Lines are counted on that
text; for text files (text, Markdown, reStructuredText, source code) they are the file's own lines.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Literal

from .. import SlotragError

BlockKind = Literal["heading", "paragraph", "table", "code", "list"]

TITLE_LENGTH = 200
"""Most characters of a title; a longer first line is cut at a word."""

_ONE_SIDED = "#=/;%- \t"
_PAIRED = "*_\"'`~"
_LONE_BEFORE = re.compile(r"""([*_`~]|["']{3})\1*(?=\s|(?!.*\1))""")
_LONE_AFTER = re.compile(r"""(?:\*+|_+|`+|~+|"{3}|'{3})$""")

_LINE_ENDS = re.compile(r"\r\n?")
_SURROGATES = re.compile("[\ud800-\udfff]")


class ReadError(SlotragError):
    """A file that cannot be read: broken, protected by a password, undecodable, too large."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NoText(SlotragError):
    """A file that is whole but holds no text: empty, white space only, a scan."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnsupportedFile(SlotragError):
    """A file of a kind that no reader reads, such as an image or a program."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Block:
    """A part of a document's text.

    Attributes
    ----------
    kind : str
        ``heading``, ``paragraph``, ``table``, ``code`` or ``list``.
    start, end : int
        Characters ``[start, end)`` of the document's text.
    level : int
        Of a heading, from 1; 0 for everything else.
    heading_path : str
        The headings above the block, ``A > B``; a heading's own path ends with itself.
    page : int or None
        Page, slide or None where the format has none; a block that runs over a page end has its first page.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    heading_path: str = ""
    page: int | None = None


@dataclass(slots=True)
class Document:
    """What a reader makes of a file.

    Attributes
    ----------
    title : str
        From the content (a heading, the file's own metadata, its first line), never from the path; may be empty.
    blocks : list of Block
        In order and without overlap. Text outside every block counts as paragraphs.
    notes : list of str
        What the user should know, such as the pages without text.
    partial : bool
        Some of the file's content could not be read; `notes` says which.
    page_starts : list of int
        Offset at which page 1, 2, ... starts, ascending; empty where the format has no pages.
    reader : str
        Name and version of the reader, ``pdf/1``; set by `slotrag.rag.readers.read_parts`.
    first_line, first_character : int
        Where `text` begins in the file's whole text, for a part of one that is too large to hold (1 and 0 otherwise).
    """

    title: str
    text: str
    media_type: str
    blocks: list[Block] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    partial: bool = False
    page_starts: list[int] = field(default_factory=list)
    reader: str = ""
    first_line: int = 1
    first_character: int = 0

    def page_at(self, offset: int) -> int | None:
        """The page on which the character at `offset` stands, or None."""
        if not self.page_starts:
            return None
        return max(1, bisect_right(self.page_starts, offset))


class LineIndex:
    """Line numbers of character offsets of one text.

    Examples
    --------
    >>> LineIndex("one\\ntwo\\nthree").lines(4, 8)
    (2, 2)
    """

    def __init__(self, text: str) -> None:
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def lines(self, start: int, end: int) -> tuple[int, int]:
        """First and last line (from 1) of the characters ``[start, end)``."""
        first = bisect_left(self._ends, start) + 1
        return first, max(first, bisect_left(self._ends, end - 1) + 1)


def normalise(text: str) -> str:
    """`text` as a document holds it: line ends ``\\n``, normal form C, NUL and unpaired surrogates as U+FFFD.

    Examples
    --------
    >>> normalise("a\\r\\nb\\rc")
    'a\\nb\\nc'
    """
    if "\r" in text:
        text = _LINE_ENDS.sub("\n", text)
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if not text.isascii():
        text = _SURROGATES.sub("\ufffd", text)
        text = unicodedata.normalize("NFC", text)
    return text


def title_from(text: str) -> str:
    """A title out of a heading or a line of text: one line, no markup at its ends, at most `TITLE_LENGTH` characters.

    Examples
    --------
    Marks that stand at both ends, as quotation marks and those of emphasis do, go together or not at all.

    >>> title_from("##  The  title ##"), title_from("**'The title'**"), title_from('# Server "walnut"')
    ('The title', 'The title', 'Server "walnut"')
    """
    words = text[: TITLE_LENGTH * 8].split()
    title = _without_pairs(" ".join(words).strip(_ONE_SIDED))
    if len(title) > TITLE_LENGTH:
        title = title[:TITLE_LENGTH].rsplit(" ", 1)[0] + "…"
    return title


def _without_pairs(title: str) -> str:
    """`title` without what encloses the whole of it, and without marks at an end that have no partner."""
    before = ""
    while title != before:
        before, title = title, title.strip(_ONE_SIDED)
        if len(title) > 1 and title[0] == title[-1] and title[0] in _PAIRED and not _closes_early(title):
            title = title[1:-1]
        elif lone := _LONE_BEFORE.match(title):
            title = title[lone.end() :]
        elif (lone := _LONE_AFTER.search(title)) and lone.group()[0] not in title[: lone.start()]:
            title = title[: lone.start()]
    return title


def _closes_early(title: str) -> bool:
    """Whether the mark at its beginning belongs to a word alone, as in ``"One" and "two"``."""
    mark, inner = title[0], title[1:-1].strip(title[0])
    return f"{mark} " in inner or f" {mark}" in inner


def first_line(text: str) -> str:
    """The first line of `text` that holds a letter or a digit, as a title; empty where there is none."""
    for match in re.finditer(r"[^\n]+", text):
        if match.group().startswith("#!"):
            continue
        title = title_from(match.group()[: TITLE_LENGTH * 8])
        if any(character.isalnum() for character in title):
            return title
    return ""
