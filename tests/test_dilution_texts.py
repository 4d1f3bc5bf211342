"""The texts of the signal-dilution test: the label can be told from the adjective beside the target alone."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

# After the folder of helpers, some of which have the names of benchmarks.
sys.path.append(str(Path(__file__).parent / "benchmarks"))

from dilution_texts import ADJECTIVES, DECOYS, DISTRACTORS, TARGETS, diluted_texts

LEVELS = [0.2, 0.5, 0.8, 0.9]


def pairs_of(text: str) -> list[tuple[str, str]]:
    """Adjective and noun of each pair of a text, in its order."""
    words = text.split()
    return [(word, words[place + 1]) for place, word in enumerate(words) if word in ADJECTIVES]


def test_the_words_are_of_one_kind_each() -> None:
    kinds = [set(ADJECTIVES), set(TARGETS), set(DECOYS), set(DISTRACTORS)]
    assert sum(map(len, kinds)) == len(set().union(*kinds))


def test_the_seed_decides() -> None:
    assert diluted_texts(20, 0.5, 1) == diluted_texts(20, 0.5, 1)
    assert not set(diluted_texts(20, 0.5, 1).texts) & set(diluted_texts(20, 0.5, 2).texts)


@pytest.mark.parametrize("level", LEVELS)
def test_twins_differ_in_label_and_binding_alone(level: float) -> None:
    made = diluted_texts(100, level, 7)
    for one, other in zip(range(0, 200, 2), range(1, 200, 2), strict=True):
        first, second = made.texts[one].split(), made.texts[other].split()
        assert {made.labels[one], made.labels[other]} == set(ADJECTIVES)
        assert Counter(first) == Counter(second)
        assert len(made.texts[one]) == len(made.texts[other])
        assert sum(a != b for a, b in zip(first, second, strict=True)) == 2


@pytest.mark.parametrize("level", LEVELS)
def test_the_label_is_the_adjective_before_the_target(level: float) -> None:
    made = diluted_texts(100, level, 7)
    for text, label in zip(made.texts, made.labels, strict=True):
        pairs = pairs_of(text)
        assert [adjective for adjective, noun in pairs if noun in TARGETS] == [label]
        assert {adjective for adjective, _ in pairs} == set(ADJECTIVES)
        assert all(noun in TARGETS or noun in DECOYS for _, noun in pairs)


@pytest.mark.parametrize("level", LEVELS)
def test_the_share_of_distractors(level: float) -> None:
    made = diluted_texts(300, level, 7)
    words = [text.split() for text in made.texts]
    assert sum(word in DISTRACTORS for some in words for word in some) / sum(map(len, words)) == pytest.approx(
        level, abs=0.02
    )


def test_the_target_stands_anywhere_among_the_pairs() -> None:
    first = [pairs_of(text)[0][1] in TARGETS for text in diluted_texts(500, 0.5, 7).texts]
    # Of two, three or four pairs: 13 in 36.
    assert sum(first) / len(first) == pytest.approx(13 / 36, abs=0.06)


@pytest.mark.parametrize("kind", ["length", "words"])
@pytest.mark.parametrize("level", [20, 90])
def test_length_and_words_give_nothing_away(kind: str, level: int) -> None:
    pytest.importorskip("sklearn")
    from head_dilution import baseline, made

    assert baseline(kind, made(200, level, 0))["measure"] == 0.5
