"""GLOT's dense layers against the sparse ones of torch-geometric, over random and extreme graphs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slotrag.encoders.heads.configuration import head_config
from slotrag.encoders.heads.glot import Glot
from slotrag.encoders.heads.heads import build_head
from torch import Tensor, nn
from torch_geometric.nn import GATConv
from torch_geometric.utils import dense_to_sparse, scatter, softmax

WIDTH = 24


class SparseGlot(nn.Module):
    """GLOT on torch-geometric's sparse layers, one text at a time: the oracle."""

    def __init__(self, head: Glot, *, edge_scalar: bool) -> None:
        super().__init__()
        self.tau, self.scorer = head.tau, head.scorer
        self.layers = nn.ModuleList()
        for layer in head.layers:
            sparse = GATConv(layer.in_channels, layer.out_channels, edge_dim=1 if edge_scalar else None)
            state = {name: value for name, value in layer.state_dict().items() if name != "edge_scalar"}
            state |= {name: state[name][0] for name in ("att_src", "att_dst")}
            if edge_scalar:
                # Any two vectors whose product is the scalar.
                state["lin_edge.weight"] = torch.randn(layer.out_channels, 1)
                product = (state["lin_edge.weight"][:, 0] ** 2).sum()
                state["att_edge"] = (layer.edge_scalar * state["lin_edge.weight"][:, 0] / product)[None, None]
            sparse.load_state_dict(state)
            self.layers.append(sparse)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        return torch.stack([self._one(row[kept]) for row, kept in zip(states, mask, strict=True)])

    def _one(self, x: Tensor) -> Tensor:
        cosines = torch.nn.functional.cosine_similarity(x[:, None], x[None], dim=-1)
        edges, _ = dense_to_sparse((cosines > self.tau).float())
        outputs = [x]
        for layer in self.layers:
            attributes = torch.ones(edges.shape[1], 1) if layer.edge_dim else None
            outputs.append(layer(outputs[-1], edges, edge_attr=attributes).relu())
        every = torch.cat(outputs, dim=-1)
        text = torch.zeros(len(x), dtype=torch.long)
        weights = softmax(self.scorer(every)[:, 0], text)
        return scatter(weights[:, None] * every, text, dim=0, reduce="sum")[0]


def texts(seed: int, lengths: list[int], *, kin: float = 0.0) -> tuple[Tensor, Tensor]:
    """Random states with padding of any value; `kin` is how much tokens have in common."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(len(lengths), max(lengths), WIDTH, generator=generator)
    states = states + kin * torch.randn(1, 1, WIDTH, generator=generator)
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    return torch.where(mask[:, :, None], states, torch.tensor(float("inf"))), mask


def authors_head(seed: int = 0, **parameters) -> Glot:
    head = build_head(
        head_config("glot", width=WIDTH, layers=3, start="authors", hidden=16, **parameters), seed=seed
    ).eval()
    assert isinstance(head, Glot)
    with torch.no_grad():
        for layer in head.layers:
            layer.bias.normal_()
            if layer.edge_scalar is not None:
                layer.edge_scalar.fill_(-1.7)
    return head


def assert_equal_to_the_oracle(head: Glot, states: Tensor, mask: Tensor, *, edge_scalar: bool) -> None:
    with torch.no_grad():
        found, wanted = head(states, mask), SparseGlot(head, edge_scalar=edge_scalar)(states, mask)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("edge_scalar", [False, True])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tau", [-1.0, 0.0, 0.3, 0.6, 1.0])
def test_equal_to_the_sparse_layers(tau: float, seed: int, edge_scalar: bool) -> None:
    head = authors_head(seed, tau=tau, edge_scalar=edge_scalar, gat_layers=1 + seed)
    states, mask = texts(seed, [17, 1, 5, 30], kin=0.5 * seed)
    assert_equal_to_the_oracle(head, states, mask, edge_scalar=edge_scalar)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=5),
    tau=st.floats(-1, 1, width=32),
    kin=st.floats(0, 4, width=32),
    edge_scalar=st.booleans(),
)
def test_equal_to_the_sparse_layers_over_random_graphs(seed, lengths, tau, kin, edge_scalar) -> None:
    head = authors_head(seed, tau=tau, edge_scalar=edge_scalar)
    states, mask = texts(seed, lengths, kin=kin)
    if near_threshold(states, mask, tau):
        return  # an edge that rounding decides may be there in one and not in the other
    assert_equal_to_the_oracle(head, states, mask, edge_scalar=edge_scalar)


def near_threshold(states: Tensor, mask: Tensor, tau: float) -> bool:
    states = states.masked_fill(~mask[:, :, None], 1.0).double()
    cosines = torch.nn.functional.cosine_similarity(states[:, :, None], states[:, None], dim=-1)
    cosines.diagonal(dim1=1, dim2=2).fill_(2.0)
    return bool(((cosines - tau).abs() < 1e-6).any())


@pytest.mark.parametrize("edge_scalar", [False, True])
def test_graph_without_edges_and_graph_of_all(edge_scalar: bool) -> None:
    states = torch.eye(WIDTH)[None, :9] * torch.arange(1.0, 10.0)[:, None]  # each at a right angle to the others
    mask = torch.ones(1, 9, dtype=torch.bool)
    for tau in (0.0, -0.5):
        head = authors_head(tau=tau, edge_scalar=edge_scalar)
        assert_equal_to_the_oracle(head, states, mask, edge_scalar=edge_scalar)


@pytest.mark.parametrize("edge_scalar", [False, True])
def test_text_of_zeros(edge_scalar: bool) -> None:
    head = authors_head(edge_scalar=edge_scalar)
    states, mask = torch.zeros(1, 4, WIDTH), torch.ones(1, 4, dtype=torch.bool)
    assert_equal_to_the_oracle(head, states, mask, edge_scalar=edge_scalar)


def test_gradients_equal_those_of_the_sparse_layers() -> None:
    head = authors_head(edge_scalar=True, tau=0.2)
    states, mask = texts(5, [12, 3], kin=1.0)
    oracle = SparseGlot(head, edge_scalar=False)
    with torch.no_grad():
        for layer in head.layers:
            layer.edge_scalar.zero_()
    head(states, mask).square().sum().backward()
    own = {name: value.grad.clone() for name, value in head.named_parameters()}
    head.zero_grad()
    oracle(states, mask).square().sum().backward()
    for place, layer in enumerate(oracle.layers):
        for name, value in layer.named_parameters():
            theirs = value.grad.reshape(own[f"layers.{place}.{name}"].shape)
            torch.testing.assert_close(own[f"layers.{place}.{name}"], theirs, atol=2e-4, rtol=1e-4)


def test_the_edge_scalar_matters() -> None:
    head = authors_head(edge_scalar=True, tau=0.0)
    states, mask = texts(1, [12], kin=1.0)
    before = head(states, mask)
    with torch.no_grad():
        head.layers[0].edge_scalar.fill_(3.0)
    assert (head(states, mask) - before).abs().max() > 1e-3


def test_without_layers_it_is_attention_pooling() -> None:
    head = build_head(head_config("glot", width=WIDTH, layers=3, gat_layers=0, start="authors"))
    states, mask = texts(2, [6, 2])
    clean = states.masked_fill(~mask[:, :, None], 0.0)
    weights = head.scorer(clean)[..., 0].masked_fill(~mask, float("-inf")).softmax(dim=-1)
    torch.testing.assert_close(head(states, mask), (weights[..., None] * clean).sum(dim=1))


@pytest.mark.parametrize(("width", "parameters"), [(384, 271_745), (576, 437_825), (768, 640_769)])
def test_number_of_parameters(width: int, parameters: int) -> None:
    head = build_head(head_config("glot", width=width, layers=6, start="authors"))
    assert sum(parameter.numel() for parameter in head.parameters()) == parameters
