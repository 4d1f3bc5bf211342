"""What steps draw: windows of whole sentences, questions about passages, the same for the same step."""

from __future__ import annotations

from collections import Counter

import pytest
from slotrag import UsageError
from slotrag.rag.icae.training.curriculum import lengths, rates
from slotrag.rag.icae.training.drawing import Drawer, Plan, context_tokens

ALL = {"autoencode": 0.5, "continue": 0.2, "instruct": 0.3}


def plan(**options) -> Plan:
    values = {"mix": ALL, "rates": rates("1:10,2+4:*"), "lengths": lengths("16-24:10,32-48:*"), "batch_tokens": 160}
    return Plan(**{**values, **options})


def test_a_step_draws_the_same_whatever_was_drawn_before(store) -> None:
    one, other = Drawer(store, plan()), Drawer(store, plan())
    drawn = [one.step(number) for number in range(20)]
    assert [other.step(number) for number in reversed(range(20))] == drawn[::-1]
    assert drawn != [Drawer(store, plan(seed=1)).step(number) for number in range(20)]


def test_rates_lengths_and_sizes_follow_the_curricula(store) -> None:
    drawer = Drawer(store, plan(mix={"autoencode": 1}))
    for number in range(40):
        rows = drawer.step(number)
        assert {row.rate for row in rows} <= ({1.0} if number < 10 else {2.0, 4.0})
        longest = 24 if number < 10 else 48
        assert all(8 <= len(row.contexts[0]) <= longest for row in rows)
        assert 50 < context_tokens(rows) <= 160
        if number >= 10:
            assert len({row.rate for row in rows}) == 2


def test_objectives_come_in_their_shares_and_groups(store) -> None:
    drawer = Drawer(store, plan())
    rows = [row for number in range(200) for row in drawer.step(number)]
    counts = Counter(row.objective for row in rows)
    assert all(abs(counts[name] / len(rows) - share) < 0.07 for name, share in ALL.items())
    for number in range(20):
        order = [row.objective for row in drawer.step(number)]
        assert order == sorted(order, key=list(ALL).index)


def test_windows_are_text_and_held_out_texts_are_never_trained_on(store, language_model) -> None:
    held = [store.tokens(text) for text in range(len(store)) if store.held_out[text]]
    trained = [store.tokens(text) for text in range(len(store)) if not store.held_out[text]]

    def inside(ids: list[int], texts: list[list[int]]) -> bool:
        return any(ids == text[at : at + len(ids)] for text in texts for at in range(len(text) - len(ids) + 1))

    drawer = Drawer(store, plan())
    for number in range(12):
        for row in drawer.step(number):
            whole = [*row.contexts[0], *row.target] if row.objective == "continue" else row.contexts[0]
            assert inside(whole, trained) and not inside(whole, held)
            assert row.objective == "instruct" or row.target
    for objective in ALL:
        for row in drawer.held_out(objective, 4.0, 32, 6):
            assert inside(row.contexts[0], held)


def test_windows_begin_with_sentences_and_mostly_end_with_them(store, language_model) -> None:
    drawer = Drawer(store, plan(mix={"autoencode": 1}, lengths=lengths("48")))
    contexts = [row.contexts[0] for number in range(30) for row in drawer.step(number)]
    shown = [language_model.tokenizer.decode(ids).strip() for ids in contexts]
    assert all(text.startswith("The ") for text in shown)
    assert sum(text.endswith(".") for text in shown) > 0.3 * len(shown)


def test_held_out_rows_are_the_same_for_every_rate(store) -> None:
    drawer = Drawer(store, plan())
    two, four = (drawer.held_out("autoencode", rate, 32, 5) for rate in (2.0, 4.0))
    assert [row.contexts for row in two] == [row.contexts for row in four]
    assert [row.rate for row in four] == [4.0] * 5


def test_questions_may_come_with_other_passages(store) -> None:
    drawer = Drawer(store, plan(mix={"instruct": 1}, passages=4, batch_tokens=999, lengths=lengths("256")))
    rows = [row for number in range(20) for row in drawer.step(number)]
    sizes = Counter(len(row.contexts) for row in rows)
    assert set(sizes) == {1, 2, 3, 4}
    assert all(row.question and row.answers for row in rows)
    assert all(len({tuple(context) for context in row.contexts}) > 1 for row in rows if len(row.contexts) > 2)


def test_questions_of_people_do_not_drown_in_made_ones(store) -> None:
    asked = Counter(question.kind for question in store.questions())
    assert asked["made"] > 2 * asked["given"] > 0
    drawer = Drawer(store, plan(mix={"instruct": 1}, batch_tokens=999, lengths=lengths("256")))
    drawn = Counter(row.kind for number in range(60) for row in drawer.step(number))
    assert 0.35 < drawn["given"] / sum(drawn.values()) < 0.65


def test_impossible_mixes_are_refused(store) -> None:
    for mix in ({}, {"autoencode": 0}, {"autoencode": -1, "continue": 2}, {"copy": 1}, {"autoencode": float("nan")}):
        with pytest.raises(UsageError, match="mix"):
            Drawer(store, plan(mix=mix))
