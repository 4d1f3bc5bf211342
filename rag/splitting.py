"""Cuts a document into passages that fit an encoder. It knows the encoder only by its token offsets, and no storage.

A passage holds whole sentences (or whole lines of code and tables) of one section, as many as fit; neighbouring small
blocks under one heading share a passage, a heading goes with what follows it, nothing overlaps and nothing but white
space is left out. A sentence longer than the limit is cut at a clause, else a word, else a token.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .documents import Block, Document, LineIndex
from .packing import Unit, pack
from .units import covering_blocks, cut_span, section_units, sections

TokenOffsets = Callable[[str], list[tuple[int, int]]]

WINDOW = 50_000
"""Characters that are tokenised at once: memory stays small for a long document, calls stay few."""

CHARACTERS_PER_TOKEN = 40
"""A passage has at most this many characters for each token of the limit, whatever the tokenizer says: some take a
megabyte without a space for one unknown word."""

CHECKED_SHARE = 0.75
"""Passages fuller than this are tokenised once more on their own. Cut out of its surroundings a text has other tokens
at its two ends only, which a fourth of the limit (and at least `CHECKED_SLACK` tokens) covers."""

CHECKED_SLACK = 8


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage of a document.

    Attributes
    ----------
    text : str
        Those characters of the document's text, without white space around it (code keeps its first indentation).
    heading : str
        Path of the headings above it, ``A > B``.
    page : int or None
        The page on which it starts.
    lines, chars : (int, int)
        First and last line (from 1); characters ``[start, end)`` of the file's whole text.
    """

    text: str
    heading: str
    page: int | None
    lines: tuple[int, int]
    chars: tuple[int, int]


def split(document: Document, token_offsets: TokenOffsets, limit: int) -> list[Piece]:
    """Cut `document` into passages of at most `limit` tokens, each counted alone.

    Parameters
    ----------
    token_offsets : callable
        The encoder's `token_offsets`. Called once for `WINDOW` characters, and once more for each passage that comes
        near the limit (cut out of its surroundings a text can have more tokens).
    limit : int
        Most tokens of a passage, at least 1. Only a single character that alone has more tokens exceeds it.

    Returns
    -------
    list of Piece, in the order of the text.

    Raises
    ------
    ValueError
        `limit` is below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1 token, not {limit}")
    return list(_Splitter(document, token_offsets, limit).pieces())


class _Splitter:
    """One call of `split`: the document's blocks and where its tokens end."""

    def __init__(self, document: Document, token_offsets: TokenOffsets, limit: int) -> None:
        self._document = document
        self._text = document.text
        self._token_offsets = token_offsets
        self._limit = limit
        self._characters = limit * CHARACTERS_PER_TOKEN

    def pieces(self) -> Iterator[Piece]:
        blocks = covering_blocks(self._document)
        ends = self._token_ends()
        lines = LineIndex(self._text)
        for section in sections(blocks):
            units = section_units(self._text, section, ends, self._limit, self._characters)
            for group in pack(units, self._limit, self._characters):
                for start, end in self._fitted(group):
                    yield self._piece(section, group, start, end, lines)

    def _token_ends(self) -> array[int]:
        """Place of the last character of every token of the document, ascending.

        The last and not the first: a token that takes in the space before its word would else be counted with the
        sentence before.
        """
        ends = array("q")
        for start, stop in windows(self._text):
            ends.extend(start + end - 1 for first, end in self._token_offsets(self._text[start:stop]) if end > first)
        return ends

    def _fitted(self, units: Sequence[Unit]) -> Iterator[tuple[int, int]]:
        """The span of `units`, in more than one part where, tokenised alone, it exceeds the limit."""
        start, end = units[0].start, units[-1].end
        count = units[-1].last_token - units[0].first_token
        if max(count + CHECKED_SLACK, count / CHECKED_SHARE) <= self._limit:
            yield start, end
        elif len(units) == 1:
            yield from self._fitted_span(start, end)
        elif self._count(start, end) <= self._limit:
            yield start, end
        else:
            middle = self._middle(units)
            yield from self._fitted(units[:middle])
            yield from self._fitted(units[middle:])

    def _fitted_span(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The same for one sentence: it is cut by its own tokens until every part fits."""
        offsets = [last - 1 for first, last in self._token_offsets(self._text[start:end]) if last > first]
        if len(offsets) <= self._limit or end - start == 1:
            yield start, end
            return
        ends = array("q", (start + offset for offset in offsets))
        parts = list(cut_span(self._text, start, end, ends, self._limit, self._characters))
        if len(parts) == 1:  # many tokens for few characters: halve it
            middle = start + (end - start) // 2
            parts = [(start, middle), (middle, end)]
        for part in parts:
            yield from self._fitted_span(*part)

    def _count(self, start: int, end: int) -> int:
        return sum(last > first for first, last in self._token_offsets(self._text[start:end]))

    @staticmethod
    def _middle(units: Sequence[Unit]) -> int:
        """Where to halve `units` by tokens; not between a heading and what follows it, if there is another place."""
        half = (units[0].first_token + units[-1].last_token) / 2
        places = range(1, len(units))
        return min(places, key=lambda place: (units[place].glued, abs(units[place].first_token - half)))

    def _piece(self, section: Sequence[Block], group: Sequence[Unit], start: int, end: int, lines: LineIndex) -> Piece:
        unit = next((unit for unit in group if unit.end > start and unit.start < end), group[0])
        block = section[unit.block]
        inside = [section[unit.block] for unit in group if unit.start < end and unit.end > start]
        named = next((block for block in inside if block.kind != "heading"), inside[-1] if inside else block)
        page = self._document.page_at(start)
        above, before = self._document.first_line - 1, self._document.first_character
        first, last = lines.lines(start, end)
        return Piece(
            self._text[start:end],
            named.heading_path,
            block.page if page is None else page,
            (above + first, above + last),
            (before + start, before + end),
        )


def windows(text: str) -> Iterator[tuple[int, int]]:
    """Spans of at most `WINDOW` characters that end at a paragraph, a line or a word, so that no token is cut."""
    start = 0
    while start < len(text):
        stop = min(start + WINDOW, len(text))
        if stop < len(text):
            for mark in ("\n\n", "\n", " "):
                found = text.rfind(mark, start + WINDOW // 2, stop)
                if found > 0:
                    stop = found
                    break
        yield start, stop
        start = stop
