"""Questions made of a text itself."""

from __future__ import annotations

from slotrag.rag.icae.training.made_questions import made_questions

TEXT = (
    "The bridge over the River Aar was opened in 1844 after three years of patient work by Otto Weil. "
    "In winter the small ferry to the island does not run on Sundays because of ice. "
    "Mara Lind painted the bridge in 1851, and her picture hangs in the museum of Graz today."
)


def test_answers_stand_in_the_text_and_are_not_shown() -> None:
    kinds = set()
    for seed in range(40):
        for asked in made_questions(TEXT, 3, seed):
            (answer,) = asked.answers
            assert answer in TEXT
            if "____" in asked.question:
                kinds.add("gap")
                shown = asked.question.split('"')[1]
                before, _, after = shown.partition(" ____")
                assert f"{before} {answer}" in TEXT and after.strip() in TEXT
            elif "after" in asked.question or "Continue" in asked.question:
                kinds.add("following")
                assert f"{asked.question.split(chr(34))[1]} {answer}" in TEXT
            else:
                kinds.add("about")
                assert asked.question.split('"')[1] in answer
    assert kinds == {"gap", "following", "about"}


def test_the_same_for_the_same_seed_and_no_more_than_asked() -> None:
    assert made_questions(TEXT, 2, 5) == made_questions(TEXT, 2, 5)
    assert len({tuple(made_questions(TEXT, 2, seed)) for seed in range(10)}) > 1
    assert all(len(made_questions(TEXT, count, 1)) <= count for count in range(5))


def test_nothing_to_ask() -> None:
    assert made_questions("", 3, 0) == [] == made_questions("x = {1: 2, 3: 4}; y = [5, 6, 7, 8, 9, 10]", 3, 0)
    # What stands twice has no one answer.
    twice = "the old bridge was opened by Otto in 1844 after long work. " * 2
    assert all("say" in asked.question or "names" in asked.question for asked in made_questions(twice, 9, 1)) or (
        made_questions(twice, 9, 1) == []
    )
