"""Global options may stand anywhere, and nothing else is touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag import UsageError
from slotrag.tui.global_options import take

WORDS = st.lists(st.text(min_size=1).filter(lambda word: not word.startswith("--")), max_size=6)


@given(WORDS, st.integers(0, 6), st.sampled_from([["--library", "x"], ["--library=x"]]))
def test_an_option_means_the_same_at_every_place(words: list[str], place: int, option: list[str]) -> None:
    options, rest = take([*words[:place], *option, *words[place:]])
    assert (options.library, rest) == ("x", words)


@given(WORDS)
def test_what_follows_two_dashes_stays(words: list[str]) -> None:
    arguments = ["search", "--", "--debug", "--library", *words]
    options, rest = take(arguments)
    assert rest == arguments
    assert (options.debug, options.library) == (False, None)


@pytest.mark.parametrize("arguments", [["--library"], ["status", "--library", "--"], ["--library="]])
def test_a_library_without_a_folder_is_refused(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="--library"):
        take(arguments)


def test_flags() -> None:
    options, rest = take(["--quiet", "ask", "why?", "--offline", "-k", "3", "--debug"])
    assert (options.quiet, options.offline, options.debug, options.version) == (True, True, True, False)
    assert rest == ["ask", "why?", "-k", "3"]
