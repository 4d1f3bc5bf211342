"""The document value: normal text, titles, lines and pages."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.rag.documents import TITLE_LENGTH, Document, LineIndex, first_line, normalise, title_from


@given(st.text(st.characters(), max_size=60))
def test_normal_text_is_normal_and_can_be_encoded(text: str) -> None:
    normal = normalise(text + "\ud800")
    assert "\r" not in normal and "\0" not in normal
    normal.encode("utf-8")
    assert unicodedata.is_normalized("NFC", normal)
    assert normalise(normal) == normal


@pytest.mark.parametrize(
    ("source", "lines"), [("a\nb", 2), ("a\r\nb", 2), ("a\rb", 2), ("a\r\n\r\nb", 3), ("a\x0bb", 1)]
)
def test_every_kind_of_line_end_counts_once(source: str, lines: int) -> None:
    assert normalise(source).count("\n") + 1 == lines


@given(st.text("ab\n", min_size=1, max_size=40), st.data())
def test_line_numbers_equal_counted_line_ends(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    first, last = LineIndex(text).lines(start, end)
    assert first == text.count("\n", 0, start) + 1
    assert last == text.count("\n", 0, end - 1) + 1


def test_page_of_an_offset() -> None:
    document = Document("", "abcdef", "", page_starts=[0, 2, 2, 4])
    assert [document.page_at(offset) for offset in range(6)] == [1, 1, 3, 3, 4, 4]
    assert Document("", "abc", "").page_at(1) is None


def test_titles_are_one_short_line_without_markup() -> None:
    assert title_from("# **A\n b** #") == "A b"
    assert len(title_from("word " * 100)) <= TITLE_LENGTH + 1
    assert title_from('# Backup server "walnut"') == 'Backup server "walnut"'
    assert title_from('"Walnut", the server') == '"Walnut", the server'
    assert title_from('"One" and "two"') == '"One" and "two"'
    assert title_from('title: "Walnut"'.removeprefix("title: ")) == "Walnut"
    assert title_from("The farmers'") == "The farmers'"
    assert title_from("# __A `b`__") == "A `b`"
    assert title_from('"""The boiler."""') == "The boiler."
    for line in ('"""The boiler.', "* The boiler.", "/** The boiler. */"):
        assert title_from(line) == "The boiler."
    assert title_from("* The *old* boiler **") == "The *old* boiler **"
    assert title_from("`config` and `*.md`") == "`config` and `*.md`"
    assert title_from('3"') == '3"' and title_from("*" * 500 + "a") == "a" and title_from("***") == ""
    assert first_line("#!/bin/sh\n\n----\n# What it does\n") == "What it does"
    assert first_line("\n \n***\n") == ""
