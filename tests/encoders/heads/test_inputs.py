"""The states that heads are given, against the backbone's own."""

from __future__ import annotations

import pytest
import torch
from slotrag import UsageError
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.heads.inputs import config_for, head_inputs

TOKENS = [[5, 6, 7, 8], [9], [5, 9]]


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_forms(kind: str, tiny_model) -> None:
    model = FrozenLM.load(tiny_model(kind), device="cpu")
    every, mask = model.all_states(TOKENS)
    states, found = head_inputs(model, TOKENS, config_for(model, "glot", layer=1, sink=True))
    torch.testing.assert_close(states, every[1])
    assert found is not None and torch.equal(found, mask)
    means, none = head_inputs(model, TOKENS, config_for(model, "ilse", sink=True))
    assert none is None and means.shape == (3, model.layers + 1, model.hidden_size)
    torch.testing.assert_close(means[0, 2], every[2, 0].mean(dim=0))
    torch.testing.assert_close(means[2, -1], every[-1, 2, :2].mean(dim=0))
    whole, found = head_inputs(model, TOKENS, config_for(model, "ilse", over="glot", sink=True))
    torch.testing.assert_close(whole, every.transpose(0, 1))
    assert found is not None and torch.equal(found, mask)


def test_first_token_of_a_causal_model_is_left_out_by_default(tiny_model) -> None:
    model = FrozenLM.load(tiny_model("llama"), device="cpu")
    assert config_for(FrozenLM.load(tiny_model("bert"), device="cpu"), "glot").sink
    every, _ = model.all_states(TOKENS)
    states, mask = head_inputs(model, TOKENS, config_for(model, "glot", layer=1))
    assert mask is not None and mask.tolist() == [[True] * 3, [True, False, False], [True, False, False]]
    torch.testing.assert_close(states[0], every[1, 0, 1:])
    torch.testing.assert_close(states[1, 0], every[1, 1, 0])  # a lone token stays
    torch.testing.assert_close(states[2, 0], every[1, 2, 1])
    assert not states[1:, 1:].any()
    means, _ = head_inputs(model, TOKENS, config_for(model, "ilse"))
    torch.testing.assert_close(means[0], every[:, 0, 1:].mean(dim=1))
    torch.testing.assert_close(means[1], every[:, 1, 0])
    whole, mask = head_inputs(model, TOKENS, config_for(model, "ilse", over="glot"))
    torch.testing.assert_close(whole[2, :, 0], every[:, 2, 1])
    alone, mask = head_inputs(model, [[9]], config_for(model, "glot", layer=1))
    assert mask is not None and mask.tolist() == [[True]] and alone.shape == (1, 1, model.hidden_size)


def test_model_whose_last_states_are_of_another_length(tmp_path) -> None:
    import tiny_models

    folder = tiny_models.write("opt", tmp_path / "opt", word_embed_proj_dim=24)
    model = FrozenLM.load(folder, device="cpu")
    assert config_for(model, "glot").width == 24 and config_for(model, "glot", layer=1).width == tiny_models.WIDTH
    with pytest.raises(UsageError, match="two lengths"):
        config_for(model, "ilse")
