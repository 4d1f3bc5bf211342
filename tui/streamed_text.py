"""Text that comes in pieces on a terminal and may be replaced as a whole. It knows no answer."""

from __future__ import annotations

import shutil
import sys

from .output import clean, say


class StreamedText:
    """Writes pieces as they come; takes back what stands there when other text takes its place.

    What has scrolled out of the window cannot be taken back: then the new text follows below a rule.
    """

    def __init__(self) -> None:
        self._shown = ""

    @property
    def begun(self) -> bool:
        """Whether anything stands there."""
        return bool(self._shown)

    def write(self, piece: str) -> None:
        """Show the next piece."""
        piece = clean(piece)
        if not self._shown:
            piece = piece.lstrip()
        self._shown += piece
        sys.stdout.write(piece)
        sys.stdout.flush()

    def replace(self, text: str) -> None:
        """Show `text` in place of everything so far."""
        text = clean(text).strip()
        if text == self._shown.strip():
            return
        if self._shown:
            size = shutil.get_terminal_size((80, 24))
            height = rows(self._shown, size.columns)
            up = f"\x1b[{height - 1}A" if height > 1 else ""
            sys.stdout.write("\n---\n" if height > size.lines else f"\r{up}\x1b[J")
        self._shown = text
        sys.stdout.write(text)
        sys.stdout.flush()

    def finish(self, text: str) -> None:
        """End with `text`, whatever was streamed."""
        self.replace(text)
        if not self._shown.endswith("\n"):
            say()


def rows(text: str, width: int) -> int:
    """Rows of a terminal of `width` columns that `text` takes, starting at its left edge.

    Examples
    --------
    >>> rows("abcd", 4), rows("abcde", 4), rows("a\\nb", 4), rows("한국어", 4)
    (1, 2, 2, 2)
    """
    from rich.cells import get_character_cell_size

    count, column = 1, 0
    for character in text:
        if character == "\n":
            count, column = count + 1, 0
            continue
        wide = 8 - column % 8 if character == "\t" else get_character_cell_size(character)
        if character == "\t":
            column = min(column + wide, width - 1)
        elif column + wide > width:
            count, column = count + 1, wide
        else:
            column += wide
    return count
