"""GLOT (arXiv 2603.03389): graph attention over a text's tokens, then pooling by learned weights.

A text's tokens are nodes, joined where the cosine of their states is above tau. Dense masked layers, which are equal
to the sparse ones and several times as fast on texts. It knows no model.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import DenseGATConv

from .configuration import HeadConfig
from .graphs import token_graph
from .simple import Gate, token_scorer, weights_over_tokens

_LEAST_SCORER_WIDTH = 128


class TokenAttention(DenseGATConv):
    """A single-head graph attention layer that may add one learned scalar to every edge's logit.

    The scalar is what constant edge attributes of one dimension come to in `torch_geometric.nn.GATConv`; the dense
    layer itself knows no edge attributes.
    """

    def __init__(self, in_channels: int, out_channels: int, *, edge_scalar: bool = False) -> None:
        super().__init__(in_channels, out_channels, heads=1)
        self.edge_scalar = nn.Parameter(torch.zeros(())) if edge_scalar else None

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor | None = None, add_loop: bool = False) -> Tensor:
        """One layer.

        Parameters
        ----------
        x : float32, shape (batch, tokens, in_channels)
        adj : bool, shape (batch, tokens, tokens)
            Its diagonal is true.
        mask, add_loop
            Of the base class; not used: masked tokens have no neighbour but themselves.

        Returns
        -------
        float32, shape (batch, tokens, out_channels)
        """
        x = self.lin(x)
        source, target = x @ self.att_src.flatten(), x @ self.att_dst.flatten()
        logits = source[:, None, :] + target[:, :, None]
        if self.edge_scalar is not None:
            logits = logits + self.edge_scalar
        logits = F.leaky_relu(logits, self.negative_slope).masked_fill(~adj, float("-inf"))
        return logits.softmax(dim=-1) @ x + self.bias


class Glot(nn.Module):
    """Token states to one vector a text.

    The weights come from raw states and all layers' outputs together (jumping knowledge by concatenation).

    Parameters
    ----------
    width : int
        Of the states.
    hidden, gat_layers : int
        Width and number of the graph attention layers; without any it is attention pooling.
    tau : float
        Of the graph.
    start : str
        ``authors``: [x; h_1; ..; h_K] pooled. ``mean``: [x; g * (h_1; ..; h_K)] pooled, with equal weights and a
        small g at first, so that every cosine begins as that of mean pooling.
    edge_scalar : bool
        The layers have the authors' edge scalar.
    """

    def __init__(
        self, width: int, *, hidden: int, gat_layers: int, tau: float, start: str = "mean", edge_scalar: bool = False
    ) -> None:
        super().__init__()
        self.tau = tau
        self.width = width
        widths = [width] + [hidden] * gat_layers
        self.layers = nn.ModuleList(
            TokenAttention(one, other, edge_scalar=edge_scalar) for one, other in pairwise(widths)
        )
        whole = width + gat_layers * hidden
        self.scorer = token_scorer(whole, max(_LEAST_SCORER_WIDTH, whole // 2), start)
        self.gate = Gate() if start == "mean" and gat_layers else None

    @classmethod
    def of(cls, config: HeadConfig) -> Glot:
        """The head that a configuration of ``glot`` describes."""
        get = config.parameters
        return cls(
            config.width,
            hidden=int(get["hidden"]),
            gat_layers=int(get["gat_layers"]),
            tau=float(get["tau"]),
            start=str(get["start"]),
            edge_scalar=bool(get["edge_scalar"]),
        )

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """States (batch, tokens, width) and mask (batch, tokens) to (batch, width + gat_layers * hidden)."""
        states = states.masked_fill(~mask[:, :, None], 0.0)
        outputs = [states]
        if len(self.layers):
            graph = token_graph(states, mask, self.tau)
            for layer in self.layers:
                outputs.append(F.relu(layer(outputs[-1], graph)))
        every = torch.cat(outputs, dim=-1)
        weights = weights_over_tokens(self.scorer(every)[..., 0], mask)
        pooled = (weights[:, None, :] @ every)[:, 0]
        if self.gate is None:
            return pooled
        return torch.cat([pooled[:, : self.width], self.gate(pooled[:, self.width :])], dim=-1)
