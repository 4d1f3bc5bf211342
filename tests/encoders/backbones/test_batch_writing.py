"""Rows behind a shared prefix: the same tokens alone, in batches, in any order and with look-up; greedy as generate."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from slotrag.encoders.backbones.batch_writing import BatchWriter, Row, gumbel_noise, looked_up
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.backbones.generation import Completion
from slotrag.encoders.backbones.prefill import Prompt, PromptReader, SharedPrefix

KINDS = ["llama", "qwen2", "gpt2", "opt"]
PREFIX = [7, 8, 9, 30, 31, 32, 33, 8, 9, 40]
ROWS = [
    Row([11, 12, 13], b"a" * 32, 20, [30, 31, 32, 33]),
    Row(list(range(50, 80)), b"b" * 32, 9, list(range(50, 80))),
    Row([5], b"c" * 32, 20),
    Row([11, 12, 13], b"d" * 32, 20),
    Row([60, 61, 62, 60, 61], b"e" * 32, 14, [60, 61, 62, 60, 61]),
]


@pytest.fixture(scope="module")
def module(tiny_model):
    made = {}

    def load(kind):
        if kind not in made:
            made[kind] = FrozenLM.load(tiny_model(kind), causal=True).module()
        return made[kind]

    return load


def written(module, rows, size=None, **options):
    writer = BatchWriter(module, **{"stop_ids": [1], "temperature": 1.0, **options})
    prefix = SharedPrefix(module, PREFIX, chunk=4)
    size = size or len(rows)
    found = [writer.write(prefix, rows[at : at + size]) for at in range(0, len(rows), size)]
    return [completion for batch in found for completion in batch], writer


def test_noise_is_what_it_was():
    """The values are kept with the variants: they must not change between versions of numpy."""
    noise = gumbel_noise(b"k" * 32, 3, 5)
    assert noise.tolist() == pytest.approx([0.09769, 0.60123, 1.27895, 0.57, -0.95431], abs=1e-4)
    assert gumbel_noise(b"k" * 32, 3, 9)[:5].tolist() == noise.tolist()
    assert (gumbel_noise(b"k" * 32, 4, 5) != noise).all()
    assert (gumbel_noise(b"l" * 32, 3, 5) != noise).all()
    many = gumbel_noise(b"k" * 32, 0, 1_000_000)
    assert np.isfinite(many).all()
    assert (many.mean(), many.var()) == pytest.approx((np.euler_gamma, np.pi**2 / 6), abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_equals_transformers(module, kind):
    found, _ = written(module(kind), ROWS, temperature=0)
    for row, completion in zip(ROWS, found, strict=True):
        ids = [*PREFIX, *row.ids]
        theirs = module(kind).generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False,
            max_new_tokens=row.limit, eos_token_id=1, pad_token_id=1,
        )[0, len(ids) :].tolist()  # fmt: skip
        if completion.stop_reason != "loop":
            assert completion.ids + [1] * (completion.stop_reason == "eos") == theirs
        assert theirs[: len(completion.ids)] == completion.ids


@pytest.mark.parametrize("options", [{"lookup": 4}, {"top_p": 0.8}])
@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_order_and_lookup_change_nothing(module, kind, options):
    wanted, _ = written(module(kind), ROWS, 1, **{**options, "lookup": 0})
    assert len({tuple(completion.ids) for completion in wanted}) == len(ROWS), "the keys make no difference"
    assert written(module(kind), ROWS, 2, **options)[0] == wanted
    assert written(module(kind), ROWS[::-1], **options)[0][::-1] == wanted


def test_sampling_follows_the_models_distribution(module):
    rows = [Row([11, 12], number.to_bytes(32, "little"), 1) for number in range(1500)]
    found, _ = written(module("llama"), rows, 500, stop_ids=[], temperature=0.4)
    counts = np.bincount([completion.ids[0] for completion in found], minlength=500)
    with torch.no_grad():
        logits = module("llama")(torch.tensor([[*PREFIX, 11, 12]])).logits[0, -1]
    expected = torch.softmax(logits / 0.4, dim=-1).numpy()
    likely = expected > 0.01
    deviation = np.sqrt(1500 * expected * (1 - expected))
    assert likely.sum() >= 5
    assert (np.abs(counts - 1500 * expected)[likely] < 4.5 * deviation[likely]).all()


def test_top_p_takes_the_likeliest_only(module):
    with torch.no_grad():
        logits = module("llama")(torch.tensor([[*PREFIX, 11, 12]])).logits[0, -1]
    ordered, order = torch.softmax(logits, dim=-1).sort(descending=True)
    allowed = set(order[: int((ordered.cumsum(0) < 0.5).sum()) + 1].tolist())
    rows = [Row([11, 12], number.to_bytes(32, "little"), 1) for number in range(200)]
    found, _ = written(module("llama"), rows, stop_ids=[], top_p=0.5)
    assert {completion.ids[0] for completion in found} <= allowed


def test_near_ties_are_decided_by_a_pass_of_their_own(module, monkeypatch):
    from slotrag.encoders.backbones import batch_writing

    wanted, writer = written(module("llama"), ROWS)
    monkeypatch.setattr(batch_writing, "_MARGIN", 1e9)
    found, alone = written(module("llama"), ROWS)
    assert found == wanted
    assert alone.decided_alone > 20 > writer.decided_alone


def test_lookup_saves_passes_where_a_row_repeats_its_source(module):
    """A row that goes on as its source does is written in fewer passes, to the same tokens."""
    plain, slow = written(module("llama"), ROWS[:1], temperature=0)
    tokens = plain[0].ids
    row = Row(ROWS[0].ids, ROWS[0].key, ROWS[0].limit, tokens)
    again, fast = written(module("llama"), [row], temperature=0, lookup=5)
    assert again[0].ids == tokens
    assert fast.accepted > 0
    assert fast.steps < slow.steps


@pytest.mark.parametrize(
    ("written", "source", "most", "found"),
    [
        ([1, 2], [1, 2, 3, 4], 5, [3, 4]),
        ([1, 2], [1, 2, 3, 4], 1, [3]),
        ([2], [1, 2, 3], 5, []),
        ([1, 2], [1, 2], 5, []),
    ],
)
def test_looked_up(written, source, most, found):
    assert looked_up(written, source, most) == found


def test_ends(module):
    wanted, _ = written(module("llama"), ROWS[:1], stop_ids=[], temperature=1.0)
    ids = wanted[0].ids
    assert wanted[0].stop_reason == "length"
    stopped, _ = written(module("llama"), ROWS[:1], stop_ids=[ids[5]])
    assert stopped[0] == Completion(ids[: ids.index(ids[5])], "eos")
    closed, _ = written(module("llama"), ROWS[:1], stop_ids=[], closing_ids=[ids[5]])
    assert closed[0] == Completion(ids[: ids.index(ids[5]) + 1], "eos")
    two = replace(ROWS[0], lines=2)
    closed, _ = written(module("llama"), [two], stop_ids=[], closing_ids=[ids[2], ids[5]])
    second = [place for place, token in enumerate(ids) if token in (ids[2], ids[5])][1]
    assert closed[0] == Completion(ids[: second + 1], "eos")


def test_cancelling(module):
    calls = []

    def check():
        calls.append(1)
        if len(calls) > 4:
            raise KeyboardInterrupt

    writer = BatchWriter(module("llama"), stop_ids=[])
    with pytest.raises(KeyboardInterrupt):
        writer.write(SharedPrefix(module("llama"), PREFIX), ROWS, check)
    assert writer.steps <= 4


@pytest.mark.parametrize("kind", KINDS)
def test_prefix_is_as_if_it_were_part_of_every_prompt(module, kind):
    prefix = SharedPrefix(module(kind), PREFIX, chunk=3)
    prompts = [Prompt([list(row.ids)]) for row in ROWS]
    for _ in range(2):  # a batch must not change the prefix
        reader = PromptReader(module(kind), prompts, prefix=prefix)
        logits = reader.read(7, lambda: False)
        further = reader.follow(torch.tensor([[20, 21]] * len(ROWS)))
        for place, row in enumerate(ROWS):
            with torch.no_grad():
                whole = module(kind)(torch.tensor([[*PREFIX, *row.ids, 20, 21]])).logits[0]
            assert torch.allclose(logits[place], whole[-3], atol=1e-4)
            assert torch.allclose(further[place], whole[-2:], atol=1e-4)


def test_taken_back_tokens_are_forgotten(module):
    reader = PromptReader(
        module("llama"), [Prompt([list(row.ids)]) for row in ROWS[:3]], prefix=SharedPrefix(module("llama"), PREFIX)
    )
    reader.read(64, lambda: False)
    reader.follow(torch.tensor([[20, 21, 22]] * 3))
    reader.take_back(3, torch.tensor([1, 2, 0]))
    assert reader.mask.shape[1] == len(PREFIX) + 30 + 2
    reader.keep([2, 0, 1])
    logits = reader.follow(torch.tensor([[25]] * 3))[:, 0]
    for place, (row, kept) in enumerate([(ROWS[2], []), (ROWS[0], [20]), (ROWS[1], [20, 21])]):
        with torch.no_grad():
            whole = module("llama")(torch.tensor([[*PREFIX, *row.ids, *kept, 25]])).logits[0, -1]
        assert torch.allclose(logits[place], whole, atol=1e-4)
