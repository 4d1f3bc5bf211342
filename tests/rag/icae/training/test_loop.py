"""A training learns, keeps its best weights, and goes on from anywhere to the same bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from slotrag.rag.icae.configuration import CompressorConfig
from slotrag.rag.icae.training import curriculum
from slotrag.rag.icae.training.drawing import Drawer, Plan
from slotrag.rag.icae.training.settings import CompressorTraining

pytest.importorskip("torch")

MIX = {"autoencode": 0.6, "continue": 0.4}
SETTINGS = CompressorTraining(
    steps=4, mix=MIX, rates="1:2,2+4:*", lengths="12-16:2,16-20:*", batch_tokens=40, warm_up=2, check_every=2,
    check_rows=1, write_every=0, learning_rate=3e-3, top=8,
)  # fmt: skip


def make_loop(language_model, store, settings: CompressorTraining = SETTINGS):
    from slotrag.rag.icae.training.checking import Checker
    from slotrag.rag.icae.training.loop import Loop
    from slotrag.rag.icae.training.objectives import make_reader

    reader, decoder = make_reader(language_model, CompressorConfig.for_model(language_model, read_out=1, rank=4))
    rates, lengths = curriculum.rates(settings.rates), curriculum.lengths(settings.lengths)
    drawer = Drawer(store, Plan(settings.mix, rates, lengths, settings.batch_tokens, settings.passages, settings.seed))
    checker = Checker(
        reader, drawer, rates=rates.last, lengths=[24], rows=settings.check_rows, written_rows=settings.write_rows,
        stop_ids=decoder.stop_ids, tokenizer=language_model.tokenizer,
    )  # fmt: skip
    return Loop(reader, drawer, checker, settings)


class Stopped(Exception):
    pass


@pytest.fixture(scope="module")
def whole(language_model, store):
    """A training that was never stopped."""
    loop = make_loop(language_model, store)
    loop.run(check=lambda: None)
    return loop


@pytest.mark.parametrize("every", [2, 5])
def test_stopped_anywhere_it_ends_in_the_same_bytes(language_model, store, whole, every: int) -> None:
    left = [every]

    def check() -> None:
        left[0] -= 1
        if left[0] < 0:
            left[0] = every
            raise Stopped

    state, stops = None, 0
    while True:
        part = make_loop(language_model, store)
        if state is not None:
            part.restore(*state)
        try:
            part.run(check=check)
            break
        except Stopped:
            assert part.whole
            state, stops = part.state(), stops + 1
    assert stops > 1
    tensors, numbers = part.state()
    wanted, wanted_numbers = whole.state()
    assert numbers == wanted_numbers and numbers["stopped"] == "steps" and numbers["step"] == 4
    assert tensors.keys() == wanted.keys()
    assert all(np.array_equal(tensors[name], wanted[name]) for name in wanted)


def test_time_that_is_over_changes_nothing_of_what_comes_later(language_model, store, whole) -> None:
    loop = make_loop(language_model, store)
    for limit in (1, 3, 99):
        loop.run(check=lambda: None, out_of_time=lambda limit=limit: loop.position.step >= limit)
        line, weights = loop.outcome(lambda: None)
        assert line["loss"] <= loop.position.best_loss and set(weights) == set(loop.weights)
        assert line["step"] in (loop.position.step, loop.position.best_step)
    assert loop.state()[1] == whole.state()[1]


def test_the_curve_has_every_objective_and_check(language_model, store) -> None:
    settings = replace(
        SETTINGS, mix={**MIX, "instruct": 0.5}, steps=1, rates="4", check_every=1, write_every=1, write_rows=1,
        batch_tokens=64,
    )  # fmt: skip
    told: list[dict[str, float]] = []
    checked: list[int] = []
    loop = make_loop(language_model, store, settings)
    loop.run(check=lambda: None, stepped=told.append, checked=lambda: checked.append(loop.position.step))
    assert checked == [0, 1] and len(told) == 1
    checks = loop.position.checks
    assert {f"loss {name} 24 slots 4x" for name in settings.mix} == set(checks[0]["measures"])
    assert "written autoencode 24 slots 4x" in checks[-1]["measures"]
    answers = checks[-1]["measures"]["written instruct 24 slots 4x"]
    assert {"f1", "exact", "text f1", "none f1"} <= set(answers)
    own = checks[-1]["measures"]["loss autoencode 24 slots 4x"]
    assert {"loss", "accuracy", "text loss", "none loss"} <= set(own)
    (line,) = [line for line in loop.position.curve if line["kind"] == "train"]
    seen = {name for losses in told for name in losses}
    assert {f"{name} loss" for name in seen} < set(line) and "gradient" in line
    assert loop.position.best == min(checks, key=lambda check: check["loss"])


def test_it_learns_to_reproduce(language_model, store) -> None:
    settings = CompressorTraining(
        steps=20, mix={"autoencode": 1.0}, rates="2", lengths="12", batch_tokens=72, warm_up=2, check_every=20,
        check_rows=6, write_every=0, learning_rate=2e-2,
    )  # fmt: skip
    loop = make_loop(language_model, store, settings)
    loop.run(check=lambda: None)
    first, last = loop.position.checks
    assert last["loss"] < first["loss"] - 0.2


def test_a_loss_that_is_no_number_ends_it(language_model, store) -> None:
    import torch
    from slotrag.rag.icae.training.loop import Diverged

    loop = make_loop(language_model, store)
    loop.run(check=lambda: None, out_of_time=lambda: loop.position.step >= 2)
    with torch.no_grad():
        next(iter(loop._trained.values())).fill_(float("nan"))
    with pytest.raises(Diverged, match="learning rate"):
        loop.run(check=lambda: None)
    assert not loop.whole
