"""The noise level: what unrelated questions reach, and that related ones are above it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.rag.library import Library
from slotrag.rag.noise import noise_level, questions

CHEMISTRY = (
    "Copper sulphate dissolves in water and gives a blue solution.",
    "Nitric acid attacks copper and gives off brown fumes of nitrogen dioxide.",
    "Sodium chloride crystallises in cubes when the brine evaporates.",
    "Iron rusts in moist air, since oxygen and water form hydrated oxides.",
    "Ammonia is made from nitrogen and hydrogen over an iron catalyst.",
    "Chlorine bleaches dyes by oxidising them.",
)


def test_one_odd_question_does_not_lift_the_level():
    assert noise_level([0.1, 0.12, 0.14, 0.16, 0.95]) == pytest.approx(noise_level([0.1, 0.12, 0.14, 0.16, 0.18]))


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=60), st.floats(-0.5, 0.5))
def test_the_level_is_not_below_the_median_and_moves_with_the_cosines(best, shift):
    level = noise_level(best)
    assert level >= np.median(best) - 1e-9
    assert noise_level([value + shift for value in best]) == pytest.approx(level + shift, abs=1e-9)


def test_without_passages_there_is_no_level():
    assert noise_level([]) is None


def test_each_question_is_asked_once():
    for language in ("en", "ko"):
        assert len(set(questions(language))) == len(questions(language)) >= 40


def test_questions_about_the_documents_are_above_the_level_and_others_below(tmp_path, models):
    docs = tmp_path / "docs"
    docs.mkdir()
    for number, text in enumerate(CHEMISTRY):
        (docs / f"{number}.txt").write_text(text)
    with Library.open(tmp_path / "library", models=models) as library:
        library.index([docs])
        for question in (
            "What gas comes from copper in nitric acid?",
            "Why does iron rust?",
            "how is ammonia produced",
        ):
            assert library.search(question).hits[0].relevant, question
        for question in ("Who won the tennis final?", "Which bus goes to the airport?", "What is a mortgage?"):
            assert not any(hit.relevant for hit in library.search(question).hits), question
