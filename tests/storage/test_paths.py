"""Globs over paths."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.storage import paths


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*", "a/b.txt", True),
        ("a/*", "a/b/c.txt", True),  # a/b is a folder that fits, and stands for what is in it
        ("a/*.txt", "a/b/c.txt", False),
        ("a/**/c.txt", "a/c.txt", True),
        ("a/**/c.txt", "a/x/y/c.txt", True),
        ("a**", "a/x/y/c.txt", True),
        ("?.txt", "a/b.txt", True),
        ("?.txt", "bc.txt", False),
        ("[ab].txt", "a.txt", True),
        ("[!ab].txt", "a.txt", False),
        ("[!ab].txt", "c.txt", True),
        ("a[/]b", "a/b", False),
        ("[z", "[z", True),
        ("[^a]", "^", True),
        ("a.b", "axb", False),
        ("A.txt", "a.txt", False),
        ("sub", "sub/deep/x", True),
        ("sub", "subx/deep", False),
        ("", "anything/at/all", True),
        ("new\nline*", "new\nline.txt", True),
    ],
)
def test_globs(pattern: str, path: str, fits: bool) -> None:
    assert bool(paths.glob_pattern(pattern).fullmatch(path)) is fits


@given(st.text())
def test_any_text_is_a_glob(text: str) -> None:
    paths.glob_pattern(text).fullmatch("a/b.txt")


@given(st.binary(min_size=1).filter(lambda name: b"\0" not in name))
def test_bytes_survive_and_the_display_is_text(name: bytes) -> None:
    path = os.fsdecode(name)
    assert paths.to_bytes(path) == name
    assert paths.from_bytes(name) == path
    paths.display(path).encode()
