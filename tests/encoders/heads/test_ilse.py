"""ILSE against the authors' package, for all graphs, graph layers and sizes that both have."""

from __future__ import annotations

import warnings

import pytest
import torch
from slotrag.encoders.heads.configuration import head_config
from slotrag.encoders.heads.graphs import layer_graph
from slotrag.encoders.heads.heads import build_head

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import ilge
from torch_geometric.nn import GCNConv, GINConv
from torch_geometric.utils import dense_to_sparse

WIDTH, HIDDEN, BATCH = 20, 12, 5


def theirs(graph: str, states: int, *, gnn: str, depth: int, mlp_layers: int, pooling: str) -> torch.nn.Module:
    shared = {"hidden_dim": HIDDEN, "pooling": pooling}
    if graph == "set":
        config = ilge.DeepSetConfig(pre_pooling_layers=depth, post_pooling_layers=mlp_layers, **shared)
    else:
        kind = ilge.CayleyConfig if graph == "cayley" else ilge.FCConfig
        config = kind(conv_type=gnn, gnn_layers=depth, gin_mlp_layers=mlp_layers, **shared)
    return ilge.build_aggregator(config, num_layers=states, hidden_in=WIDTH)


def renamed(name: str) -> str:
    for own, other in (
        ("projection.", "proj_in."),
        ("convolutions.", "convs."),
        ("before.", "phi."),
        ("after.", "rho."),
    ):
        name = name.replace(own, other)
    return "_encoder." + name


def assert_equal_to_ilge(graph: str, states: int, *, double_edges: bool = True, **sizes) -> None:
    torch.manual_seed(states)
    other = theirs(graph, states, **sizes).eval()
    for parameter in other.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    head = build_head(
        head_config(
            "ilse",
            width=WIDTH,
            layers=states - 1,
            graph=graph,
            gnn=sizes["gnn"],
            hidden=HIDDEN,
            depth=sizes["depth"],
            mlp_layers=sizes["mlp_layers"],
            aggregation=sizes["pooling"],
            double_edges=double_edges,
            start="authors",
        )
    ).eval()
    given = other.state_dict()
    assert {renamed(name) for name in head.state_dict()} == set(given)
    head.load_state_dict({name: given[renamed(name)] for name in head.state_dict()})
    means = torch.randn(BATCH, states, WIDTH)
    with torch.no_grad():
        wanted = other(means)
        assert wanted.abs().max() > 1e-2
        torch.testing.assert_close(head(means, None), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "sum"])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("gnn", ["gin", "gcn"])
@pytest.mark.parametrize(("graph", "states"), [("cayley", 4), ("cayley", 7), ("cayley", 31), ("fc", 7)])
def test_graphs_equal_ilge(graph: str, states: int, gnn: str, depth: int, pooling: str) -> None:
    mlp_layers = depth if gnn == "gin" else 0
    assert_equal_to_ilge(graph, states, gnn=gnn, depth=depth, mlp_layers=mlp_layers, pooling=pooling)


@pytest.mark.parametrize("pooling", ["mean", "sum"])
@pytest.mark.parametrize(("depth", "mlp_layers"), [(1, 1), (2, 2), (0, 1), (1, 0), (0, 0)])
def test_sets_equal_ilge(depth: int, mlp_layers: int, pooling: str) -> None:
    assert_equal_to_ilge("set", 7, gnn="gin", depth=depth, mlp_layers=mlp_layers, pooling=pooling)


def test_a_clean_cayley_graph_is_another_encoder() -> None:
    with pytest.raises(AssertionError, match="not close"):
        assert_equal_to_ilge("cayley", 7, double_edges=False, gnn="gin", depth=1, mlp_layers=1, pooling="mean")


@pytest.mark.parametrize("gnn", ["gin", "gcn"])
def test_clean_cayley_graph_equals_the_sparse_layers(gnn: str) -> None:
    head = build_head(
        head_config("ilse", width=WIDTH, layers=6, gnn=gnn, hidden=HIDDEN, dropout=0.0, start="authors"), seed=3
    ).eval()
    edges, _ = dense_to_sparse(torch.from_numpy(layer_graph("cayley", 7)))
    convolution = head.convolutions[0]
    sparse = GINConv(convolution.nn) if gnn == "gin" else GCNConv(HIDDEN, HIDDEN)
    if gnn == "gcn":
        sparse.load_state_dict(convolution.state_dict())
    means = torch.randn(7, WIDTH)
    nodes = head.projection(torch.cat([means, torch.zeros(17, WIDTH)])).relu()
    nodes = head.activation(head.norms[0](sparse(nodes, edges)))
    torch.testing.assert_close(head(means[None], None)[0], nodes[:7].mean(dim=0), atol=1e-5, rtol=0)


def test_dropout_is_for_training_only() -> None:
    head = build_head(head_config("ilse", width=WIDTH, layers=6, start="authors"))
    means = torch.randn(2, 7, WIDTH)
    assert not torch.equal(head(means, None), head(means, None))
    head.eval()
    assert torch.equal(head(means, None), head(means, None))


@pytest.mark.parametrize("graph", ["cayley", "fc", "set"])
def test_over_glot_pools_each_layer_by_the_same_glot(graph: str) -> None:
    config = head_config("ilse", width=WIDTH, layers=3, graph=graph, over="glot", start="authors", gat_hidden=8)
    head = build_head(config).eval()
    states = torch.randn(2, 4, 6, WIDTH)
    mask = torch.tensor([[True] * 6, [True] * 2 + [False] * 4])
    nodes = torch.stack([head.glot(states[:, layer], mask) for layer in range(4)], dim=1)
    assert nodes.shape[-1] == config.node_width
    torch.testing.assert_close(head(states, mask), head.body(nodes), atol=1e-5, rtol=0)
