"""Rates and lengths by step."""

from __future__ import annotations

import pytest
from slotrag import UsageError
from slotrag.rag.icae.training.curriculum import lengths, rates


def test_each_stage_holds_for_its_steps_and_the_last_one_lasts() -> None:
    found = rates("1:3, 2:2, 3+4.5:*")
    assert [found.values(step) for step in range(7)] == [
        (1.0,), (1.0,), (1.0,), (2.0,), (2.0,), (3.0, 4.5), (3.0, 4.5),
    ]  # fmt: skip
    assert rates("4").values(10**9) == (4.0,) == rates("1:5,4:5").values(10**9)
    assert lengths("16-32:10,64:*").values(0) == ((16, 32),)
    assert lengths("16-32:10,64:*").last == ((64, 64),)


@pytest.mark.parametrize("text", ["", "0.5", "nan", "inf", "2:0", "2:-1", "2:*,4:3", "2,4:3", "two", "2:1.5", "2+"])
def test_other_rates_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--rates"):
        rates(text)


@pytest.mark.parametrize("text", ["0-3", "8-4", "8-", "-8", "a-b"])
def test_other_lengths_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--lengths"):
        lengths(text)
