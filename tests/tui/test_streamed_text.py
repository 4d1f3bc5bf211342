"""A replaced text leaves nothing of the old one on the screen, whatever its width."""

from __future__ import annotations

import io
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import get_character_cell_size
from slotrag.tui.streamed_text import StreamedText, rows

WIDTH, HEIGHT = 12, 8
TEXT = st.text(alphabet="ab 한글\n", max_size=60)


class Screen(io.StringIO):
    """As much of a terminal as streaming uses: wrapping, wide characters, going up, erasing below."""

    def __init__(self, width: int = WIDTH, height: int = HEIGHT) -> None:
        super().__init__()
        self.width, self.height = width, height
        self.lines: list[list[str]] = [[]]
        self.row = self.top = 0
        self.full = False  # the cursor stands on the last column after a character was written there

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for part in re.findall(r"\x1b\[\d*[AJ]|.", text, re.DOTALL):
            self._obey(part)
        return len(text)

    def _obey(self, part: str) -> None:
        if part == "\x1b[J":
            self.lines = [*self.lines[: self.row], []]
        elif part.endswith("A") and part.startswith("\x1b"):
            self.row = max(self.row - int(part[2:-1] or 1), self.top)
        elif part == "\r":
            self.column = 0
        elif part == "\n":
            self._next_row()
        else:
            line = self.lines[self.row]
            if sum(map(get_character_cell_size, line)) + get_character_cell_size(part) > self.width:
                self._next_row()
            self.lines[self.row].append(part)

    def _next_row(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])
        self.top = max(self.top, self.row - self.height + 1)

    def text(self) -> list[str]:
        return ["".join(line).rstrip() for line in self.lines]


def use_screen(patch: pytest.MonkeyPatch, height: int = HEIGHT) -> Screen:
    """Put a screen in place of stdout; not a fixture, as pytest sets stdout anew after those."""
    screen = Screen(height=height)
    patch.setattr(sys, "stdout", screen)
    patch.setenv("COLUMNS", str(WIDTH))
    patch.setenv("LINES", str(height))
    return screen


def shown(text: str) -> list[str]:
    alone = Screen()
    alone.write(text)
    return alone.text()


@given(TEXT)
def test_rows_are_those_of_the_screen(text: str) -> None:
    assert rows(text, WIDTH) == len(shown(text))


@given(st.lists(TEXT, min_size=1, max_size=4), TEXT)
def test_replacing_leaves_only_the_new_text(pieces: list[str], final: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        screen = use_screen(patch, height=1000)
        text = StreamedText()
        for piece in pieces:
            text.write(piece)
        text.replace(final)
    assert screen.text() == shown(final.strip()) or "".join(pieces).strip() == final.strip()


def test_pieces_are_shown_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = use_screen(monkeypatch)
    text = StreamedText()
    for piece in ("\n The ", "hall", " is cold."):
        text.write(piece)
    assert "".join(screen.text()).startswith("The hall is")
    text.finish("The hall is cold.")
    assert screen.text() == [*shown("The hall is cold."), ""]


def test_text_that_has_scrolled_away_is_followed_by_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = use_screen(monkeypatch)
    text = StreamedText()
    text.write("x\n" * 20)
    text.replace("new")
    assert screen.text()[-2:] == ["---", "new"]


def test_streamed_escape_sequences_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = use_screen(monkeypatch)
    text = StreamedText()
    text.write("\x1b[2Jred")
    text.finish("\x1b[2Jred")
    assert screen.text() == ["[2Jred", ""]
