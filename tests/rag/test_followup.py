"""Follow-up questions: what points back gets what it refers to, complete questions stay as they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.rag.context import Turn
from slotrag.rag.followup import standalone

MUSEUM = [Turn("What are the opening hours of the city museum in summer?", "It opens from nine to six.")]
TOWER = [Turn("Who designed the Eiffel Tower?", "It was designed by Stephen Sauvestre. [1]")]
KOREAN = [Turn("시립 박물관의 여름 운영 시간은 언제인가요?", "아홉 시부터 여섯 시까지입니다.")]


@pytest.mark.parametrize(
    ("question", "history", "carried"),
    [
        ("and in winter?", MUSEUM, ["opening", "hours", "museum"]),
        ("And on Sundays?", MUSEUM, ["opening", "hours", "museum"]),
        ("What about the library?", MUSEUM, ["opening", "hours"]),
        ("How much does it cost?", MUSEUM, ["museum"]),
        ("why?", MUSEUM, ["museum"]),
        ("in winter?", MUSEUM, ["museum"]),
        ("When was it built?", TOWER, ["Eiffel", "Tower"]),
        ("When was he born?", TOWER, ["Stephen Sauvestre"]),
        ("겨울에는요?", KOREAN, ["박물관의", "운영"]),
        ("그럼 겨울에는?", KOREAN, ["박물관의", "운영"]),
        ("그것은 얼마인가요?", KOREAN, ["박물관의"]),
    ],
)
def test_what_points_back_gets_its_reference(question, history, carried):
    query = standalone(question, history)
    assert query.endswith(question)
    for word in carried:
        assert word in query


@pytest.mark.parametrize(
    "question",
    [
        "Who wrote the report on wind tunnels?",
        "What is FAISS?",
        "How long does it take to index a thousand files?",
        "Is it possible to search without a network?",
        "When did Tesla say he had invented the motor?",
        "What does this manual say about backups?",
        "Where is the town hall?",
        "Which of these models is the smallest?",
        "backup schedule for the server",
        "Name the author of the treaty.",
        "서울 도서관의 휴관일은 언제입니까?",
        "백업은 어떻게 하나요?",
    ],
)
def test_complete_questions_are_left_alone(question):
    assert standalone(question, MUSEUM) == question


def test_topic_is_carried_over_several_turns():
    turns = [*MUSEUM, Turn("And in winter?", "From ten to four."), Turn("And on Sundays?", "Closed.")]
    query = standalone("How much does it cost?", turns)
    assert "museum" in query


def test_a_new_topic_replaces_the_old_one():
    turns = [*MUSEUM, Turn("Who founded the public library?", "Anna Kern did.")]
    query = standalone("When was it opened?", turns)
    assert "library" in query
    assert "museum" not in query


def test_no_history_changes_nothing():
    assert standalone("and in winter?", []) == "and in winter?"


@given(st.text(max_size=80), st.lists(st.tuples(st.text(max_size=60), st.text(max_size=60)), max_size=4))
def test_any_text_is_kept_and_the_query_stays_short(question, turns):
    query = standalone(question, [Turn(*turn) for turn in turns])
    assert query.endswith(question)
    assert len(query) <= len(question) + 12 * 200
