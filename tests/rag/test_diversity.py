import random
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag import UsageError
from slotrag.rag.diversity import Bag, Folding, fold, spread

TEXT = (
    "The committee decided that every member pays the yearly fee of 100 won before the end of May, and that whoever is "
    "late by more than a month loses the vote."
)


def unit(rows):
    rows = np.asarray(rows, dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@given(st.integers(1, 12), st.integers(1, 15), st.integers(0, 2**16))
def test_zero_is_the_plain_order(count, k, seed):
    vectors = unit(np.random.default_rng(seed).normal(size=(count, 4)))
    assert spread(np.arange(count, 0, -1), vectors, k, 0.0) == list(range(min(k, count)))


@given(st.integers(1, 12), st.integers(1, 15), st.floats(0, 1), st.integers(0, 2**16))
def test_each_place_once_and_the_best_first_unless_only_unlikeness_counts(count, k, diversity, seed):
    vectors = unit(np.random.default_rng(seed).normal(size=(count, 4)))
    order = spread(np.arange(count, 0, -1), vectors, k, diversity)
    assert len(order) == min(k, count) == len(set(order))
    assert order[0] == 0


def test_a_like_passage_gives_way():
    vectors = unit([[1, 0], [1, 0.01], [0, 1]])
    assert spread(np.array([1.0, 0.99, 0.5]), vectors, 2, 0.0) == [0, 1]
    assert spread(np.array([1.0, 0.99, 0.5]), vectors, 2, 0.7) == [0, 2]


@pytest.mark.parametrize("diversity", [-0.1, 1.1, float("nan")])
def test_out_of_range(diversity):
    with pytest.raises(UsageError):
        spread(np.array([1.0]), unit([[1, 0]]), 1, diversity)


def test_nothing_to_spread():
    assert spread(np.empty(0), np.empty((0, 3), np.float32), 5, 0.5) == []


@pytest.mark.parametrize(
    "other",
    [TEXT.upper(), TEXT.replace(" ", "\n"), TEXT.replace(",", ""), TEXT.replace("yearly", "annual")],
)
def test_near_identical_texts_fold(other):
    assert fold([TEXT, "Something else.", other]) == [0, 1, 0]


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("100", "200"),
        TEXT + " The board may waive it once for a member who asks in writing.",
        TEXT.replace("May", "June").replace("month", "year").replace("vote", "seat"),
        "",
    ],
)
def test_different_texts_stay(other):
    assert fold([TEXT, other]) == [0, 1]


def test_short_texts_differ_by_a_word():
    assert fold(["The red door", "The blue door", "?", "!"]) == [0, 1, 2, 3]


LEASE = (
    "The tenant may keep a dog or a cat in the flat as long as the neighbours agree to it in writing and the animal is "
    "kept clean at all hours."
)
KOREAN = (
    " ".join(f"낱말{'가나다라마바사아자차카타파하'[n % 14]}{'고노도로모'[n % 5]}" for n in range(30))
    + " 회원은 책을 빌릴 수 "
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LEASE, LEASE.replace("may keep", "cannot keep")),
        (LEASE, LEASE.replace("may keep", "may not keep")),
        (LEASE, LEASE.replace("may keep", "mayn't keep")),
        (LEASE, LEASE.replace("may keep", "mayn’t keep")),
        (LEASE, LEASE.replace("may keep", "may never keep")),
        (LEASE, LEASE.replace("a cat", "no cat")),
        (LEASE.replace("a dog or", "a dog but not"), LEASE.replace("a dog or a cat", "a cat but not a dog")),
        (
            LEASE.replace("neighbours agree", "Kim family agrees"),
            LEASE.replace("neighbours agree", "Lee family agrees"),
        ),
        (LEASE, LEASE.replace("a cat", "2 cats")),
        (KOREAN + "있다.", KOREAN + "없다."),
        (KOREAN + "있다.", KOREAN + "있지 않다."),
        (KOREAN + "있다.", KOREAN + "못 있다."),
        (KOREAN + "된다.", KOREAN + "안 된다."),
    ],
)
def test_texts_that_say_the_opposite_stay(one, other):
    assert fold([one, other]) == [0, 1]
    assert fold([other, one]) == [0, 1]


def folded_pairwise(texts):
    """Every text compared with every one kept."""
    bags, kept, into = [Bag(text) for text in texts], [], []
    for position, bag in enumerate(bags):
        target = next((one for one in kept if bags[one].near(bag)), position)
        if target == position:
            kept.append(position)
        into.append(target)
    return into


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(2, 60), st.integers(1, 4))
def test_no_pair_is_missed(seed, longest, vocabulary, portions):
    """Chains of edited texts over few words, with telling ones among them, in one portion or several."""
    rng = random.Random(seed)
    words = [f"{'' if n % 7 else 'N'}w{'xyz'[n % 3] * n}" for n in range(vocabulary)] + ["not", "7", "?"]
    texts = [""]
    for _ in range(40):
        made = rng.choices(words, k=rng.randint(0, longest)) if rng.random() < 0.4 else rng.choice(texts).split()
        for _ in range(rng.randint(0, 2)):
            made.insert(rng.randint(0, len(made)), rng.choice(words))
            if rng.random() < 0.7:
                made.pop(rng.randrange(len(made)))
        text = " ".join(made)
        texts.append(text.upper() if rng.random() < 0.1 else text)
    folding, into = Folding(), []
    for at in range(portions):
        into += folding.add(texts[len(texts) * at // portions : len(texts) * (at + 1) // portions])
    assert into == folded_pairwise(texts)


def test_time_grows_with_the_texts_not_with_their_pairs():
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=6)) for _ in range(800)]
    texts = [" ".join(rng.choices(words, k=190)) for _ in range(2500)]
    started = time.process_time()
    assert fold(texts) == list(range(2500))
    assert time.process_time() - started < 15
