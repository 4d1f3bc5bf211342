"""ILSE (arXiv 2603.22665): a model's layers as the nodes of a small graph, encoded together into one vector.

Dense products with one adjacency matrix for the whole batch, equal to the sparse layers. It knows no model.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .configuration import HeadConfig
from .graphs import layer_graph
from .simple import BesideLastLayer, perceptron


def of(config: HeadConfig) -> nn.Module:
    """The head that a configuration of ``ilse`` describes."""
    get = config.parameters
    body: nn.Module
    if get["graph"] == "set":
        body = LayerSet(
            config.node_width,
            hidden=int(get["hidden"]),
            before=int(get["depth"]),
            after=int(get["mlp_layers"]),
            dropout=float(get["dropout"]),
            aggregation=str(get["aggregation"]),
        )
    else:
        body = LayerGraph(
            config.node_width,
            config.layers + 1,
            graph=str(get["graph"]),
            gnn=str(get["gnn"]),
            hidden=int(get["hidden"]),
            depth=int(get["depth"]),
            mlp_layers=int(get["mlp_layers"]),
            dropout=float(get["dropout"]),
            aggregation=str(get["aggregation"]),
            double_edges=bool(get["double_edges"]),
        )
    if config.inputs == "layer-tokens":
        body = OverGlot(
            body,
            config.width,
            hidden=int(get["gat_hidden"]),
            gat_layers=int(get["gat_layers"]),
            tau=float(get["tau"]),
        )
    return BesideLastLayer(body) if get["start"] == "mean" else body


class LayerGraph(nn.Module):
    """Message passing between layers: projection, `depth` GIN or GCN layers with LayerNorm, mean or sum of the layers.

    Parameters
    ----------
    width, states : int
        Length of a node's input and number of layers, embeddings included. A graph with more nodes has virtual ones:
        zeros before the projection, they take part in the messages and are left out of the aggregation.
    graph : str
        ``cayley`` or ``fc``.
    double_edges : bool
        The authors' multiplicity of a Cayley graph's edges.
    """

    adjacency: Tensor

    def __init__(
        self,
        width: int,
        states: int,
        *,
        graph: str,
        gnn: str,
        hidden: int,
        depth: int,
        mlp_layers: int,
        dropout: float,
        aggregation: str,
        double_edges: bool,
    ) -> None:
        super().__init__()
        self.states = states
        self.aggregation = aggregation
        adjacency = torch.from_numpy(layer_graph(graph, states, double_edges=double_edges))
        # It follows from the configuration, which the checkpoint holds.
        self.register_buffer("adjacency", adjacency, persistent=False)
        self.projection = nn.Linear(width, hidden)
        self.convolutions = nn.ModuleList(_convolution(gnn, hidden, mlp_layers) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(depth))
        # A GIN's own network ends with one.
        self.activation = nn.ReLU() if gnn == "gcn" else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Nodes (batch, states, width) to (batch, hidden)."""
        virtual = len(self.adjacency) - self.states
        nodes = self.dropout(F.relu(self.projection(F.pad(states, (0, 0, 0, virtual)))))
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            nodes = self.dropout(self.activation(norm(convolution(nodes, self.adjacency))))
        return _aggregate(nodes[:, : self.states], self.aggregation)


class LayerSet(nn.Module):
    """DeepSets: a network for each layer, mean or sum of the layers, a network after it."""

    def __init__(self, width: int, *, hidden: int, before: int, after: int, dropout: float, aggregation: str) -> None:
        super().__init__()
        self.aggregation = aggregation
        self.before = perceptron(width, hidden, before, dropout)
        self.after = perceptron(hidden if before else width, hidden, after, dropout)

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Nodes (batch, states, width) to (batch, hidden)."""
        return self.after(_aggregate(self.before(states), self.aggregation))


class OverGlot(nn.Module):
    """A layer encoder whose nodes are each layer's tokens pooled by one GLOT, instead of their mean."""

    def __init__(self, body: nn.Module, width: int, *, hidden: int, gat_layers: int, tau: float) -> None:
        super().__init__()
        from .glot import Glot

        self.glot = Glot(width, hidden=hidden, gat_layers=gat_layers, tau=tau, start="authors")
        self.body = body

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Every layer's token states (batch, states, tokens, width), mask (batch, tokens), to (batch, hidden)."""
        batch, layers = states.shape[:2]
        nodes = self.glot(states.flatten(0, 1), mask.repeat_interleave(layers, dim=0))
        return self.body(nodes.unflatten(0, (batch, layers)))


def _aggregate(nodes: Tensor, aggregation: str) -> Tensor:
    return nodes.mean(dim=1) if aggregation == "mean" else nodes.sum(dim=1)


def _convolution(gnn: str, hidden: int, mlp_layers: int) -> nn.Module:
    from torch_geometric.nn import DenseGCNConv, DenseGINConv

    if gnn == "gcn":
        return DenseGCNConv(hidden, hidden)
    parts: list[nn.Module] = []
    for _ in range(mlp_layers):
        parts += [nn.Linear(hidden, hidden), nn.ReLU()]
    return DenseGINConv(nn.Sequential(*parts))
