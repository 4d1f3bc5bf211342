"""The context line of a passage: the document's title and the headings above, for the encoder alone.

It comes from the content, never from the path, so that a renamed file keeps its vectors. It is not shown and not cited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .documents import Document, title_from
from .splitting import Piece

CONTEXT_TOKENS = 40
"""Most tokens of a context line."""

TITLE_WORDS = 15
"""A first line with more words, or one that ends like a sentence, is no title."""

_BETWEEN = " > "
_ENDS_OF_SENTENCES = (".", "!", "?", ":", ";", ",", "…", "。", "！", "？")

TokenOffsets = Callable[[str], list[tuple[int, int]]]


def context_lines(
    document: Document, pieces: Sequence[Piece], token_offsets: TokenOffsets, limit: int, max_tokens: int
) -> list[str]:
    """The context line of each of `pieces`, so that with it none exceeds the encoder's `max_tokens`.

    Parameters
    ----------
    limit : int
        Most tokens of a piece.
    """
    counted: dict[str, list[tuple[int, int]]] = {}

    def remembered(text: str) -> list[tuple[int, int]]:
        """Passages of one section share their line."""
        if text not in counted:
            counted[text] = token_offsets(text)
        return counted[text]

    # One token for the line end between the two.
    spare = max_tokens - limit - 1
    lines = []
    for piece in pieces:
        room = spare if spare >= CONTEXT_TOKENS else max_tokens - len(token_offsets(piece.text)) - 1
        lines.append(context_line(document, piece.heading, piece.text, remembered, room))
    return lines


def context_line(document: Document, heading: str, text: str, token_offsets: TokenOffsets, room: int) -> str:
    """The context line of a passage, empty where nothing is to be said or there is no room.

    Parameters
    ----------
    heading : str
        Path of the headings above the passage, ``A > B``.
    text : str
        The passage. A heading that it begins with is not said again.
    room : int
        Most tokens, besides `CONTEXT_TOKENS`.

    Examples
    --------
    >>> words = lambda text: [(0, 1)] * len(text.split())
    >>> manual = Document("Boiler manual", "", "text/plain")
    >>> context_line(manual, "Boiler manual > Care > Filter", "Clean it twice a year.", words, 100)
    'Boiler manual > Care > Filter'
    >>> context_line(manual, "Boiler manual > Care > Filter", "Clean it twice a year.", words, 3)
    'Filter'
    >>> context_line(manual, "Boiler manual", "# Boiler manual\\nKeep it dry.", words, 100)
    ''
    """
    parts = _parts(document, heading, text)
    room = min(room, CONTEXT_TOKENS)
    while parts and len(token_offsets(_BETWEEN.join(parts))) > room:
        # The title and the nearest heading say most.
        del parts[1 if len(parts) > 2 else 0]
    return _BETWEEN.join(parts)


def _parts(document: Document, heading: str, text: str) -> list[str]:
    headings = [part for part in heading.split(_BETWEEN) if part]
    title = document.title if is_title(document) else ""
    parts = [title] if title and title not in headings else []
    said = {title_from(line) for line in text.split("\n", 4)[:4]}
    return [part for part in dict.fromkeys((*parts, *headings)) if part not in said]


def is_title(document: Document) -> bool:
    """Whether the document's title was meant as one, rather than being the first words of running text.

    Examples
    --------
    >>> is_title(Document("Minutes of May", "Minutes of May\\n\\nAll came.", "text/plain"))
    True
    >>> is_title(Document("All came.", "All came.", "text/plain"))
    False
    """
    title = document.title
    return bool(title) and len(title.split()) <= TITLE_WORDS and not title.endswith(_ENDS_OF_SENTENCES)
