"""A training learns, keeps its best weights, and goes on from anywhere to the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from slotrag.rag.icae.configuration import CompressorConfig
from slotrag.rag.icae.training import curriculum
from slotrag.rag.icae.training.drawing import Drawer, Plan
from slotrag.rag.icae.training.settings import CompressorTraining

pytest.importorskip("torch")

SETTINGS = CompressorTraining(
    steps=12, mix={"autoencode": 0.6, "continue": 0.2, "instruct": 0.2}, rates="1:4,2+4:*", lengths="12-16:6,16-24:*",
    batch_tokens=64, warm_up=2, check_every=4, check_rows=2, write_every=2, write_rows=1, learning_rate=3e-3, top=8,
)  # fmt: skip


def make_loop(language_model, store, settings: CompressorTraining = SETTINGS):
    from slotrag.rag.decoder import Decoder
    from slotrag.rag.icae.model import CompressorModule
    from slotrag.rag.icae.training.checking import Checker
    from slotrag.rag.icae.training.loop import Loop
    from slotrag.rag.icae.training.objectives import Reader
    from slotrag.rag.icae.training.wording import Wording

    config = CompressorConfig.for_model(language_model, read_out=1, rank=4)
    module = CompressorModule(language_model, config)
    decoder = Decoder(language_model, "tiny")
    wording = Wording(config.prompt, decoder.template, language_model.tokenizer.eos_token_id, module.special_row)
    reader = Reader(module, decoder.module, wording)
    rates, lengths = curriculum.rates(settings.rates), curriculum.lengths(settings.lengths)
    drawer = Drawer(store, Plan(settings.mix, rates, lengths, settings.batch_tokens, settings.passages, settings.seed))
    checker = Checker(
        reader, drawer, rates=rates.last, lengths=[24], rows=settings.check_rows, written_rows=settings.write_rows,
        stop_ids=decoder.stop_ids, tokenizer=language_model.tokenizer,
    )  # fmt: skip
    return Loop(reader, drawer, checker, settings)


class Stopped(Exception):
    pass


def test_stopped_anywhere_it_ends_in_the_same_bytes(language_model, store) -> None:
    whole = make_loop(language_model, store)
    whole.run(check=lambda: None)
    wanted, numbers = whole.state()
    assert numbers["stopped"] == "steps" and numbers["step"] == 12
    for pieces in (1, 7):
        left: list[int] = [pieces]

        def check(left: list[int] = left, pieces: int = pieces) -> None:
            left[0] -= 1
            if left[0] < 0:
                left[0] = pieces
                raise Stopped

        state = None
        for _ in range(200):
            part = make_loop(language_model, store)
            if state is not None:
                part.restore(*state)
            try:
                part.run(check=check)
            except Stopped:
                assert part.whole
                state = part.state()
                continue
            break
        tensors, found = part.state()
        assert found == numbers
        assert tensors.keys() == wanted.keys()
        assert all(np.array_equal(tensors[name], wanted[name]) for name in wanted)


def test_time_that_is_over_changes_nothing_of_what_comes_later(language_model, store) -> None:
    whole = make_loop(language_model, store)
    whole.run(check=lambda: None)
    loop = make_loop(language_model, store)
    for limit in (2, 5, 9, 99):
        loop.run(check=lambda: None, out_of_time=lambda limit=limit: loop.position.step >= limit)
        line, weights = loop.outcome(lambda: None)
        assert line["loss"] <= loop.position.best_loss and set(weights) == set(loop.weights)
    assert loop.state()[1] == whole.state()[1]


def test_the_curve_has_every_objective_and_check(language_model, store) -> None:
    told: list[dict] = []
    loop = make_loop(language_model, store)
    checked: list[int] = []
    loop.run(
        check=lambda: None, stepped=told.append, checked=lambda: checked.append(loop.position.step),
    )  # fmt: skip
    assert checked == [0, 4, 8, 12] and len(told) == 12
    checks = loop.position.checks
    names = set(checks[0]["measures"])
    assert {f"loss {name} 24 slots {rate}x" for name in SETTINGS.mix for rate in (2, 4)} == names
    assert "written autoencode 24 slots 4x" in checks[-1]["measures"]
    answers = checks[-1]["measures"]["written instruct 24 slots 2x"]
    assert {"f1", "exact", "text f1", "none f1"} <= set(answers)
    own = checks[-1]["measures"]["loss autoencode 24 slots 2x"]
    assert {"loss", "accuracy", "text loss", "none loss", "number accuracy"} <= set(own)
    (line,) = [line for line in loop.position.curve if line["kind"] == "train"]
    assert {"autoencode loss", "continue loss", "instruct loss", "gradient", "instruct divergence"} <= set(line)
    best = min(checks, key=lambda check: check["loss"])
    assert loop.position.best == best


def test_it_learns_to_reproduce(language_model, store) -> None:
    settings = CompressorTraining(
        steps=60, mix={"autoencode": 1.0}, rates="2", lengths="12-16", batch_tokens=128, warm_up=5, check_every=60,
        check_rows=8, write_every=0, learning_rate=1e-2,
    )  # fmt: skip
    loop = make_loop(language_model, store, settings)
    loop.run(check=lambda: None)
    first, last = loop.position.checks
    assert last["loss"] < first["loss"] - 0.3


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
