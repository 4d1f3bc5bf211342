"""Stopping at a layer and Token Prepending on a tree, over tiny random models of every family."""

from __future__ import annotations

import threading

import pytest
import tiny_models
import torch
from slotrag import UsageError
from slotrag.encoders.backbones.errors import UnusableModel
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.backbones.layers import decoder_layers, prepend, prepending, run_to_stop, stop_before

CAUSAL = ["llama", "qwen2", "gemma2", "mistral", "gpt2", "opt", "gpt-neox"]
BATCH = [[5, 6, 7], [9], [4, 8, 15, 16, 23, 42, 10, 11], [12, 13]]


@pytest.fixture
def layer_calls(monkeypatch):
    """Counts the calls of the decoder layers of a model from then on, whatever tree they belong to."""

    def count(model: FrozenLM) -> list[int]:
        calls: list[int] = []
        kind = type(decoder_layers(model.module())[0])
        forward = kind.forward

        def counted(self, *args, **options):
            calls.append(1)
            return forward(self, *args, **options)

        monkeypatch.setattr(kind, "forward", counted)
        return calls

    return count


@pytest.mark.parametrize("kind", CAUSAL)
def test_states_at_are_transformers_hidden_states(tiny_model, kind):
    from transformers import AutoModel

    reference = AutoModel.from_pretrained(tiny_model(kind)).eval()
    model = FrozenLM.load(tiny_model(kind))
    with torch.no_grad():
        expected = reference(torch.tensor([BATCH[2]]), output_hidden_states=True).hidden_states
    assert len(expected) == model.layers + 1
    for layer, wanted in enumerate(expected):
        states, mask = model.states_at(BATCH, layer)
        assert states.shape == (4, 8, model.width(layer)) and states.dtype == torch.float32
        assert (states[~mask] == 0).all()
        torch.testing.assert_close(states[2], wanted[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", CAUSAL)
def test_the_layers_above_are_not_run(tiny_model, kind, layer_calls):
    model = FrozenLM.load(tiny_model(kind))
    calls = layer_calls(model)
    for layer in range(model.layers + 1):
        calls.clear()
        model.states_at(BATCH, layer)
        assert len(calls) == layer


def test_states_at_of_a_model_that_is_no_decoder(tiny_model):
    model = FrozenLM.load(tiny_model("bert"))
    every, mask = model.all_states(BATCH)
    for layer in range(model.layers + 1):
        states, found = model.states_at(BATCH, layer)
        assert torch.equal(found, mask)
        torch.testing.assert_close(states, every[layer], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layer", [-1, 4])
def test_a_layer_that_is_not_there_is_refused(tiny_model, layer):
    with pytest.raises(ValueError, match="between 0 and 3"):
        FrozenLM.load(tiny_model("llama")).states_at(BATCH, layer)
    with pytest.raises(ValueError):
        stop_before(FrozenLM.load(tiny_model("llama")).module(), layer)


def test_stopping_leaves_other_trees_alone(tiny_model):
    model = FrozenLM.load(tiny_model("llama"), causal=True)
    tree = model.module()
    ids = torch.tensor([BATCH[2]])
    before = tree.generate(ids, max_new_tokens=5, do_sample=False, pad_token_id=0)
    weights = {name: value.clone() for name, value in tree.state_dict().items()}
    FrozenLM.load(tiny_model("llama")).states_at(BATCH, 1)
    after = tree.generate(ids, max_new_tokens=5, do_sample=False, pad_token_id=0)
    assert torch.equal(before, after)
    assert all(torch.equal(weights[name], value) for name, value in tree.state_dict().items())
    assert len(decoder_layers(model.module())) == model.layers


def test_states_at_from_threads(tiny_model):
    model = FrozenLM.load(tiny_model("llama"))
    expected = {layer: model.states_at(BATCH, layer)[0] for layer in range(4)}
    wrong: list[int] = []

    def work(layer: int) -> None:
        for _ in range(15):
            if not torch.equal(model.states_at(BATCH, layer)[0], expected[layer]):
                wrong.append(layer)

    threads = [threading.Thread(target=work, args=(number % 4,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_layers_that_cannot_be_told_apart_are_one_sentence(tiny_model):
    tree = FrozenLM.load(tiny_model("llama")).module()
    tree.others = torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(3))
    with pytest.raises(UnusableModel, match="llama"):
        decoder_layers(tree)
    del tree.others
    assert len(decoder_layers(tree)) == 3
    tree.layers = torch.nn.ModuleList()
    with pytest.raises(UnusableModel):
        decoder_layers(tree)


@pytest.mark.parametrize("kind", CAUSAL)
def test_prepending_copies_before_the_layers_and_nowhere_else(tiny_model, kind):
    model = FrozenLM.load(tiny_model(kind))
    tree = model.module()
    seen: list[torch.Tensor] = []
    prepend(tree, range(1, 2))
    for layer in decoder_layers(tree):
        layer.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    ids, to, source = torch.tensor([BATCH[2], BATCH[2]]), torch.tensor([2, 1]), torch.tensor([7, 5])
    with torch.no_grad():
        plain = tree(ids).last_hidden_state
        untouched = seen[:]
        seen.clear()
        with prepending(to, source):
            tree(ids)
        copied = seen[:]
        seen.clear()
        again = tree(ids).last_hidden_state
    torch.testing.assert_close(copied[0], untouched[0])
    rows = torch.arange(2)
    torch.testing.assert_close(copied[1][rows, to], untouched[1][rows, source])
    others = torch.ones(2, 8, dtype=torch.bool)
    others[rows, to] = False
    torch.testing.assert_close(copied[1][others], untouched[1][others])
    assert not torch.allclose(copied[2][rows, source], untouched[2][rows, source])
    torch.testing.assert_close(plain, again, atol=0, rtol=0)


def test_a_stopped_tree_needs_its_stop(tiny_model):
    with pytest.raises(RuntimeError, match="no layer to stop at"):
        run_to_stop(FrozenLM.load(tiny_model("llama")).module(), {"input_ids": torch.tensor([[1, 2]])})


@pytest.mark.parametrize("kind", CAUSAL)
def test_the_unembedding_gives_the_logits(tiny_model, kind):
    model = FrozenLM.load(tiny_model(kind), causal=True)
    matrix = model.unembedding()
    assert matrix.shape == (model.config.vocab_size, model.hidden_size) and matrix.dtype.name == "float32"
    states, _ = model.token_states([BATCH[2]])
    logits = (states[0] @ torch.from_numpy(matrix).T).numpy()
    with torch.no_grad():
        found = model.module()(torch.tensor([BATCH[2]])).logits[0]
    cap = getattr(model.config, "final_logit_softcapping", None)
    wanted = torch.from_numpy(logits)
    wanted = torch.tanh(wanted / cap) * cap if cap else wanted
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def test_a_model_without_unembedding_says_so(tiny_model):
    with pytest.raises(UsageError, match="no unembedding matrix"):
        FrozenLM.load(tiny_model("bert")).unembedding()


def test_a_last_layer_of_another_width(tmp_path):
    tiny_models.write("opt", tmp_path, word_embed_proj_dim=16)
    model = FrozenLM.load(tmp_path)
    assert [model.width(layer) for layer in range(4)] == [32, 32, 32, 16]
    assert [model.states_at(BATCH, layer)[0].shape[-1] for layer in range(4)] == [32, 32, 32, 16]
