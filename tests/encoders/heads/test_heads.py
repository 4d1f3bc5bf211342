"""What all heads share: shapes, where training begins, seeds, masks, and that they can learn."""

from __future__ import annotations

import pytest
import torch
from slotrag.encoders.heads.configuration import METHODS, HeadConfig, head_config
from slotrag.encoders.heads.heads import build_head
from slotrag.encoders.pooling import pool
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

WIDTH, LAYERS, TOKENS = 16, 3, 7
LENGTHS = [7, 1, 4, 2, 6]

CONFIGS = [
    *((method, {}) for method in METHODS),
    ("glot", {"gat_layers": 0}),
    ("glot", {"layer": 1, "edge_scalar": True, "tau": 0.0}),
    ("ilse", {"graph": "fc", "gnn": "gcn"}),
    ("ilse", {"graph": "set"}),
    ("ilse", {"graph": "set", "depth": 0, "mlp_layers": 0}),
    ("ilse", {"over": "glot"}),
    ("ilse", {"over": "glot", "graph": "set"}),
]
STARTING_AT_THE_MEAN = [
    (method, parameters)
    for method, parameters in CONFIGS
    if "start" in METHODS[method] and parameters.get("layer", -1) == -1
]


def ids(value: object) -> str:
    return str(value)


def config_of(method: str, parameters: dict, **more) -> HeadConfig:
    return head_config(method, width=WIDTH, layers=LAYERS, **parameters, **more)


def text_states(seed: int = 0, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Every layer's token states (batch, layers + 1, tokens, width), and the mask."""
    generator = torch.Generator().manual_seed(seed)
    states = scale * (torch.randn(len(LENGTHS), LAYERS + 1, TOKENS, WIDTH, generator=generator) + 0.5)
    mask = torch.arange(TOKENS)[None] < torch.tensor(LENGTHS)[:, None]
    return states.masked_fill(~mask[:, None, :, None], 0.0), mask


def inputs_of(config: HeadConfig, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
    if config.inputs == "tokens":
        assert config.layer is not None
        return states[:, config.layer], mask
    if config.inputs == "layer-tokens":
        return states, mask
    return states.sum(dim=2) / mask.sum(dim=1)[:, None, None], None


@pytest.mark.parametrize(("method", "parameters"), CONFIGS, ids=ids)
def test_shape(method: str, parameters: dict) -> None:
    config = config_of(method, parameters)
    output = build_head(config)(*inputs_of(config, *text_states()))
    assert output.shape == (len(LENGTHS), config.dimension) and output.dtype == torch.float32


@pytest.mark.parametrize(("method", "parameters"), STARTING_AT_THE_MEAN, ids=ids)
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_training_begins_with_the_cosines_of_mean_pooling(method: str, parameters: dict, scale: float) -> None:
    config = config_of(method, parameters)
    states, mask = text_states(scale=scale)
    found = normalize(build_head(config).eval()(*inputs_of(config, states, mask)))
    mean = normalize(pool(states[:, -1], mask))
    torch.testing.assert_close(found @ found.T, mean @ mean.T, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("method", "parameters"), STARTING_AT_THE_MEAN, ids=ids)
def test_a_loss_on_cosines_moves_every_weight_within_three_steps(method: str, parameters: dict) -> None:
    torch.manual_seed(0)
    head = build_head(config_of(method, parameters, **({"dropout": 0.0} if "dropout" in METHODS[method] else {})))
    before = {name: value.detach().clone() for name, value in head.named_parameters()}
    optimiser = torch.optim.Adam(head.parameters(), lr=1e-3)
    config = config_of(method, parameters)
    for step in range(3):
        first, second = (head(*inputs_of(config, *text_states(seed))) for seed in (step, step + 10))
        loss = (cosine_similarity(first, second) - torch.linspace(0, 1, len(LENGTHS))).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    # A softmax does not change with a constant added to all scores.
    still = {name for name, value in head.named_parameters() if torch.equal(value, before[name])}
    assert {name for name in still if not name.endswith("scorer.2.bias")} == set()


@pytest.mark.parametrize(("method", "parameters"), CONFIGS, ids=ids)
def test_same_seed_same_head_and_no_trace_in_the_global_state(method: str, parameters: dict) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, again, other = (build_head(config_of(method, parameters), seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.rand(1) == expected
    assert all(torch.equal(first[name], again[name]) for name in first)
    trainable = config_of(method, parameters).trainable and method != "mix" and bool(list(first))
    if any(name for name in first if "gate" not in name):
        assert trainable == any(not torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("method", ["mean", "max", "first", "last", "layer"])
def test_nothing_to_learn(method: str) -> None:
    config = config_of(method, {})
    assert not config.trainable and not list(build_head(config).parameters())


@pytest.mark.parametrize(("method", "parameters"), CONFIGS, ids=ids)
def test_padding_makes_no_difference_whatever_stands_there(method: str, parameters: dict) -> None:
    config = config_of(method, parameters, **({"start": "authors"} if "start" in METHODS[method] else {}))
    head = build_head(config).eval()
    states, mask = text_states()
    together = head(*inputs_of(config, states, mask))
    for row, length in enumerate(LENGTHS):
        alone = head(*inputs_of(config, states[row : row + 1, :, :length], mask[row : row + 1, :length]))
        torch.testing.assert_close(together[row : row + 1], alone, atol=1e-5, rtol=1e-5)
    if config.inputs == "tokens":
        ill = torch.where(mask[:, None, :, None], states, torch.tensor(float("nan")))
        torch.testing.assert_close(head(*inputs_of(config, ill, mask)), together, atol=1e-6, rtol=1e-6)


def test_scalar_mix_begins_uniform_and_one_layer_is_its_mean() -> None:
    states, mask = text_states()
    means = states.sum(dim=2) / mask.sum(dim=1)[:, None, None]
    torch.testing.assert_close(build_head(config_of("mix", {}))(means, None), means.mean(dim=1))
    torch.testing.assert_close(build_head(config_of("layer", {"layer": -2}))(means, None), means[:, 2])


def test_depth_wise_attention_of_one_favoured_layer() -> None:
    config = config_of("dwatt", {"start": "authors"})
    head = build_head(config).eval()
    means = torch.randn(2, LAYERS + 1, WIDTH)
    with torch.no_grad():
        # The query is positive, so that a key of large values takes all the weight.
        head.keys.weight.fill_(1.0)
        head.positions.fill_(0.0)
        head.positions[1] = 1e3
    value = head.norms[1](head.values[1](means[:, 1]))
    torch.testing.assert_close(head(means, None), means[:, -1] + value)
