"""What reproductions, answers and losses are worth."""

from __future__ import annotations

import math

import pytest
from slotrag.rag.icae.training.measures import (
    answer_f1,
    bleu,
    exact_match,
    exact_prefix,
    recovery,
    token_kinds,
)

GUIDE = "It is a guide to action which ensures that the military always obeys the commands of the party"
REFERENCES = [
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
]


def test_bleu_of_the_example_of_its_paper() -> None:
    # 17/18, 10/17, 7/16 and 4/15 of the 1- to 4-grams are matched, and no brevity is punished.
    wanted = math.exp((math.log(17 / 18) + math.log(10 / 17) + math.log(7 / 16) + math.log(4 / 15)) / 4)
    assert (
        bleu([[one.split() for one in REFERENCES]], [GUIDE.split()])
        == pytest.approx(wanted)
        == pytest.approx(0.5045666840058485)
    )


def test_bleu_punishes_brevity_and_counts_over_the_corpus() -> None:
    whole = list(range(20))
    assert bleu([[whole]], [whole[:10]]) == pytest.approx(math.exp(1 - 2))
    assert bleu([[whole], [whole]], [whole, whole[:10]]) == pytest.approx(math.exp(1 - 40 / 30))
    assert bleu([[whole]], [[]]) == 0 == bleu([[whole]], [whole[:3]])


def test_bleu_clips_what_is_repeated() -> None:
    line = "the cat is on the mat and it sat there"
    assert bleu([[line.split()]], [["the"] * 10]) == 0


def test_exact_prefix() -> None:
    assert exact_prefix([1, 2, 3, 4], [1, 2, 3, 4, 5]) == 1
    assert exact_prefix([1, 2, 3, 4], [2, 2, 3, 4]) == 0
    assert exact_prefix([1, 2, 3, 4], []) == 0


def test_recovery() -> None:
    assert recovery(none=4, slots=1, text=0) == 0.75
    assert recovery(none=4, slots=5, text=0) == -0.25
    assert recovery(none=3, slots=2, text=3) is None


def test_answers_are_compared_as_squad_does() -> None:
    assert exact_match("The Alps.", ["Pyrenees", "alps"])
    assert answer_f1("the painter Otto Weil", ["Otto Weil"]) == pytest.approx(0.8)
    assert answer_f1("nothing of it", ["Otto Weil"]) == 0 == answer_f1("x", [])


def test_kinds_of_tokens_follow_words_not_pieces() -> None:
    pieces = ["In", " 1", ",", "0", "24", " BC", " ", "Mar", "a", " left", ".", " Then", " Otto", "’s", " x", "-", "2"]
    assert token_kinds(pieces) == [
        "other", "number", "number", "number", "number", "name", "other", "name", "name", "other", "other", "other",
        "name", "name", "number", "number", "number",
    ]  # fmt: skip
    assert token_kinds([]) == []
