"""The graphs of the heads, against independent counts and searches."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from slotrag.encoders.heads.graphs import cayley_edges, cayley_order, layer_graph, smallest_cayley, token_graph

ORDERS = {2: 6, 3: 24, 4: 48, 5: 120, 6: 144, 7: 336, 8: 384, 9: 648, 10: 720}


def matrices_of(n: int) -> list[tuple[int, int, int, int]]:
    """All of SL(2, Z_n), by trying every matrix."""
    every = range(n)
    return [(a, b, c, d) for a in every for b in every for c in every for d in every if (a * d - b * c) % n == 1]


def independent_graph(n: int) -> nx.Graph:
    """The Cayley graph built from the list of all matrices, the products written out."""
    graph = nx.Graph()
    for a, b, c, d in matrices_of(n):
        reached = [(a, a + b, c, c + d), (a, b - a, c, d - c), (a + b, b, c + d, d), (a - b, b, c - d, d)]
        graph.add_edges_from(((a, b, c, d), tuple(value % n for value in other)) for other in reached)
    return graph


@pytest.mark.parametrize(("n", "order"), ORDERS.items())
def test_cayley_graph(n: int, order: int) -> None:
    edges = cayley_edges(n)
    assert len(edges) == order == cayley_order(n)
    neighbours = [set(row) for row in edges]
    assert all(node not in row for node, row in enumerate(neighbours))
    assert all(len(row) == (2 if n == 2 else 4) for row in neighbours)
    assert all(node in neighbours[other] for node, row in enumerate(neighbours) for other in row)
    graph = nx.Graph([(node, other) for node, row in enumerate(neighbours) for other in row])
    # Nodes of a Cayley graph are alike, so that the distances from one of them are those from any.
    assert nx.is_connected(graph)
    distances = nx.single_source_shortest_path_length(graph, 0)
    independent = nx.single_source_shortest_path_length(independent_graph(n), (1, 0, 0, 1))
    assert sorted(distances.values()) == sorted(independent.values())
    assert [distances[node] for node in range(order)] == sorted(distances.values()), "not numbered breadth-first"


@pytest.mark.parametrize("n", [2, 3, 4])
def test_diameter_over_all_pairs(n: int) -> None:
    graph = nx.Graph([(node, other) for node, row in enumerate(cayley_edges(n)) for other in row])
    assert nx.diameter(graph) == nx.diameter(independent_graph(n))
    assert nx.is_isomorphic(graph, independent_graph(n))


@pytest.mark.parametrize(
    ("states", "nodes"), [(1, 6), (6, 6), (7, 24), (13, 24), (24, 24), (25, 48), (37, 48), (49, 120)]
)
def test_smallest_graph_with_enough_nodes(states: int, nodes: int) -> None:
    assert cayley_order(smallest_cayley(states)) == nodes == len(layer_graph("cayley", states))


@pytest.mark.parametrize(("states", "multiplicity"), [(4, 4), (7, 2), (31, 2)])
def test_authors_count_each_edge_more_than_once(states: int, multiplicity: int) -> None:
    clean, double = (layer_graph("cayley", states, double_edges=flag) for flag in (False, True))
    assert set(np.unique(clean)) == {0, 1}
    np.testing.assert_array_equal(double, multiplicity * clean)


def test_complete_graph() -> None:
    np.testing.assert_array_equal(layer_graph("fc", 4, double_edges=True), 1 - np.eye(4))


def test_tokens_are_joined_by_their_cosine() -> None:
    states = torch.tensor([[[1.0, 0.0], [3.0, 4.0], [0.0, 2.0], [9.0, 9.0]]])
    mask = torch.tensor([[True, True, True, False]])
    expected = [[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]  # cosines .6 and .8; the last is padding
    assert token_graph(states, mask, 0.6001).int().tolist() == [expected]
    assert token_graph(states, mask, 0.5999).int()[0, 0].tolist() == [1, 1, 0, 0]


def test_no_cosine_is_above_a_tau_of_1() -> None:
    states = torch.randn(4, 1, 48, generator=torch.Generator().manual_seed(0)).expand(4, 30, 48)
    graph = token_graph(states, torch.ones(4, 30, dtype=torch.bool), 1.0)
    assert (graph == torch.eye(30, dtype=torch.bool)).all()


def test_graph_carries_no_gradient_and_is_symmetric() -> None:
    states = torch.randn(3, 40, 24, requires_grad=True)
    graph = token_graph(states, torch.ones(3, 40, dtype=torch.bool), 0.1)
    assert not graph.requires_grad
    assert (graph == graph.transpose(1, 2)).all() and graph.diagonal(dim1=1, dim2=2).all()
