"""Losses of rows: what is scored, what gets a gradient, and that a batch is no more than its rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from slotrag.rag.icae.configuration import CompressorConfig
from slotrag.rag.icae.training.curriculum import lengths, rates
from slotrag.rag.icae.training.drawing import Drawer, Plan, Row

torch = pytest.importorskip("torch")


@pytest.fixture
def reader(language_model):
    return make_reader(language_model)


def make_reader(language_model, **options):
    from slotrag.rag.icae.training.objectives import make_reader

    config = CompressorConfig.for_model(language_model, **{"read_out": 2, "rank": 4, "segment_tokens": 64, **options})
    return make_reader(language_model, config)[0]


@pytest.fixture
def rows(store) -> dict[str, list[Row]]:
    mix = {"autoencode": 1, "continue": 1, "instruct": 1}
    drawer = Drawer(store, Plan(mix, rates("2+4"), lengths("16-40"), passages=3))
    return {name: drawer.held_out(name, 3.0, 24, 4) for name in mix}


@pytest.mark.parametrize("objective", ["autoencode", "continue", "instruct"])
@pytest.mark.parametrize("form", ["slots", "text", "none"])
def test_a_batch_scores_as_its_rows_alone(reader, rows, objective: str, form: str) -> None:
    own = rows[objective]
    with torch.no_grad():
        together = reader.scores(own, reader.contexts(own, form))
        alone = [reader.scores([row], reader.contexts([row], form)) for row in own]
    assert torch.equal(together.targets, torch.cat([one.targets for one in alone]))
    assert torch.allclose(together.logits, torch.cat([one.logits for one in alone]), atol=1e-4)
    assert together.rows.tolist() == sorted(together.rows.tolist())


def test_scores_are_those_of_a_plain_pass(reader, rows) -> None:
    row = rows["autoencode"][0]
    ids, _ = reader.wording.target(row)
    prompt = [token for part in reader.wording.prompt(row, [row.contexts[0]]) for token in part]
    with torch.no_grad():
        out = reader.decoder(input_ids=torch.tensor([[*prompt, *ids]])).logits[0]
        scores = reader.scores([row], reader.contexts([row], "text"))
    assert torch.allclose(scores.logits, out[len(prompt) - 1 : -1], atol=1e-4)
    assert scores.targets.tolist() == ids
    assert torch.allclose(
        scores.losses(),
        -torch.log_softmax(out, -1)[torch.arange(len(prompt) - 1, len(prompt) + len(ids) - 1), ids],
        atol=1e-4,
    )


def test_rows_of_different_forms_are_scored_in_their_order(reader, rows) -> None:
    own = [row for place in range(4) for row in (rows["instruct"][place], rows["continue"][place])]
    own = [replace(own[0], kind="reply"), *own[1:]]
    with torch.no_grad():
        together = reader.scores(own, reader.contexts(own))
        alone = [reader.scores([row], reader.contexts([row])) for row in own]
    assert torch.equal(together.targets, torch.cat([one.targets for one in alone]))
    assert torch.allclose(together.logits, torch.cat([one.logits for one in alone]), atol=1e-4)
    counts = [len(one.targets) for one in alone]
    assert together.rows.tolist() == [row for row, count in enumerate(counts) for _ in range(count)]


@pytest.mark.parametrize("form", ["slots", "text"])
def test_a_beginning_that_is_read_once_changes_nothing(reader, rows, form: str, monkeypatch) -> None:
    own = rows["instruct"][:2]
    with torch.no_grad():
        contexts = reader.contexts(own, form)
        kept = reader.scores(own, contexts)
        prompt = reader.wording.prompt
        # A first part without tokens leaves nothing to be read once.
        monkeypatch.setattr(reader.wording, "prompt", lambda row, context: [[], *prompt(row, context)])
        whole = reader.scores(own, contexts)
    assert reader._prefixes and torch.allclose(kept.logits, whole.logits, atol=1e-4)


def test_what_is_scored(reader, rows, language_model) -> None:
    tokenizer = language_model.tokenizer
    ids, skipped = reader.wording.target(rows["autoencode"][0])
    assert ids == [*rows["autoencode"][0].contexts[0], tokenizer.eos_token_id] and skipped == 0
    row = rows["continue"][0]
    ids, skipped = reader.wording.target(row)
    assert ids == row.target and skipped == min(8, len(ids) - 1)
    with torch.no_grad():
        assert len(reader.scores([row], reader.contexts([row])).targets) == len(ids) - skipped
    row = rows["instruct"][0]
    ids, _ = reader.wording.target(row)
    assert tokenizer.decode(ids, skip_special_tokens=True).strip() == row.answers[0]


def test_gradients_reach_what_is_trained_and_nothing_else(reader, rows) -> None:
    from slotrag.rag.icae.training.objectives import group_loss

    for objective, own in rows.items():
        done = group_loss(reader, own, distil=0.5, top=8)
        done.loss.backward()
        assert (done.divergence > 0) == (objective != "autoencode")
        assert done.tokens > 0 and 0 <= done.right <= 1
    trained = reader.module.trainable()
    assert float(trained["projection"].grad.abs().sum()) > 0
    assert all(parameter.grad is None for parameter in reader.decoder.parameters())
    known = {id(parameter) for parameter in trained.values()}
    assert all(parameter.grad is None for parameter in reader.module.parameters() if id(parameter) not in known)


def test_long_contexts_are_compressed_in_segments(reader, rows) -> None:
    ids = (rows["autoencode"][0].contexts[0] * 10)[:150]
    whole, short = reader.compressed([(ids, 4.0), (ids[:10], 4.0)])
    assert len(whole) == 3 * 13 and whole.tokens == whole.span == 150 and len(short) == 3
    assert whole.positions.tolist() == sorted(whole.positions.tolist())


def test_divergence_of_all_tokens_is_that_of_the_definition() -> None:
    from slotrag.rag.icae.training.objectives import top_divergence

    generator = torch.Generator().manual_seed(0)
    taught, learning = torch.randn(2, 5, 30, generator=generator)
    wanted = torch.nn.functional.kl_div(
        torch.log_softmax(learning, -1), torch.log_softmax(taught, -1), log_target=True, reduction="none"
    ).sum(-1)
    assert torch.allclose(top_divergence(taught, learning, 29), wanted, atol=1e-4)
    some = top_divergence(taught, learning, 5)
    assert bool((some <= wanted + 1e-5).all()) and bool((some > 0).all())
    assert torch.allclose(top_divergence(taught, taught, 5), torch.zeros(5), atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"compressor": "memory-tokens"},
        {"compressor": "memory-tokens", "bidirectional": True},
        {"compressor": "memory-tokens", "layout": "appended", "start": "authors", "prompt": "authors",
         "slots_per_segment": 16},
        {"positions": "sequential"},
    ],
    ids=["memory", "bidirectional", "authors", "sequential"],
)  # fmt: skip
def test_every_form_of_compressor_can_be_trained(language_model, rows, options) -> None:
    from slotrag.rag.icae.training.objectives import group_loss

    reader = make_reader(language_model, rate=2.0, **options)
    for own in rows.values():
        group_loss(reader, own, distil=0.5, top=8).loss.backward()
    gradients = {name: parameter.grad for name, parameter in reader.module.trainable().items()}
    assert any(
        "lora_B" in name and gradient is not None and gradient.abs().sum() > 0 for name, gradient in gradients.items()
    ) or (options.get("start", "residual") == "residual")
