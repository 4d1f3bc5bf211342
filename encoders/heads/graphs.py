"""The graphs that heads pass messages on: tokens joined by their cosine, layers on a Cayley or a complete graph.

It knows no head. Importing it imports no torch.
"""

from __future__ import annotations

import itertools
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch

Matrix = tuple[int, int, int, int]
"""A 2x2 matrix by rows."""


def token_graph(states: torch.Tensor, mask: torch.Tensor, tau: float) -> torch.Tensor:
    """Which tokens of a text are neighbours (GLOT, arXiv 2603.03389, section 3).

    Parameters
    ----------
    states : float32, shape (batch, tokens, width)
        Zero at masked places.
    mask : bool, shape (batch, tokens)
    tau : float
        Two of a text's tokens are joined where their cosine is above it.

    Returns
    -------
    bool, shape (batch, tokens, tokens)
        Symmetric, its diagonal true, padding included, so that every token has a neighbour. It carries no gradient.
    """
    import torch

    with torch.no_grad():
        # The smallest norm is torch's own for cosines: a state of zeros is like none.
        directions = states / states.norm(dim=-1, keepdim=True).clamp_min(1e-8)
        # Rounding may lift the cosine of equal states above 1, and so above a tau of 1.
        cosines = (directions @ directions.transpose(1, 2)).clamp_max(1.0)
        both = mask[:, :, None] & mask[:, None, :]
        # Rounding may also differ between the two orders of a pair; an edge has no direction.
        joined = (torch.minimum(cosines, cosines.transpose(1, 2)) > tau) & both
        return joined | torch.eye(states.shape[1], dtype=torch.bool, device=states.device)


def cayley_order(n: int) -> int:
    """Number of elements of SL(2, Z_n), n at least 2: n^3 times the product of 1 - 1/p^2 over its prime factors p.

    Examples
    --------
    >>> [cayley_order(n) for n in range(2, 11)]
    [6, 24, 48, 120, 144, 336, 384, 648, 720]
    """
    order, rest = n**3, n
    for prime in range(2, n + 1):
        if rest % prime == 0:
            order = order * (prime * prime - 1) // (prime * prime)
            while rest % prime == 0:
                rest //= prime
    return order


def smallest_cayley(nodes: int) -> int:
    """The smallest n whose SL(2, Z_n) has at least `nodes` elements.

    Examples
    --------
    >>> smallest_cayley(7), smallest_cayley(24), smallest_cayley(25)
    (3, 3, 4)
    """
    return next(n for n in itertools.count(2) if cayley_order(n) >= nodes)


@lru_cache(maxsize=8)
def cayley_edges(n: int) -> tuple[tuple[int, ...], ...]:
    """The Cayley graph of SL(2, Z_n) under right multiplication by (1 1; 0 1), (1 0; 1 1) and their inverses.

    Returns
    -------
    tuple of tuples of int
        For each node the four nodes that the generators lead to; for n = 2, where a generator is its own inverse,
        each stands twice. Nodes are numbered as a breadth-first search from the identity meets them, the generators
        in the order T, its inverse, its transpose, the transpose's inverse (ILSE, arXiv 2603.22665, section 3).
    """
    generators: tuple[Matrix, ...] = ((1, 1, 0, 1), (1, n - 1, 0, 1), (1, 0, 1, 1), (1, 0, n - 1, 1))
    identity: Matrix = (1, 0, 0, 1)
    numbers: dict[Matrix, int] = {identity: 0}
    waiting: deque[Matrix] = deque([identity])
    edges: list[tuple[int, ...]] = []
    while waiting:
        matrix = waiting.popleft()
        reached = [_product(matrix, generator, n) for generator in generators]
        for other in reached:
            if other not in numbers:
                numbers[other] = len(numbers)
                waiting.append(other)
        edges.append(tuple(numbers[other] for other in reached))
    return tuple(edges)


def layer_graph(kind: str, states: int, *, double_edges: bool = False) -> np.ndarray:
    """The graph that a model's layers are put on, layer l on node l.

    Parameters
    ----------
    kind : str
        ``cayley`` or ``fc`` (complete, without loops).
    states : int
        Number of layers, embeddings included.
    double_edges : bool
        Count each edge of the Cayley graph as often as the authors' edge list does: once for each generator and
        direction, which is 2, and 4 for n = 2.

    Returns
    -------
    float32, shape (nodes, nodes)
        Symmetric; how often a message goes from one node to another. Nodes from `states` on are virtual.
    """
    import numpy as np

    if kind == "fc":
        return np.ones((states, states), dtype=np.float32) - np.eye(states, dtype=np.float32)
    if kind != "cayley":
        raise ValueError(f"a layer graph is cayley or fc, not {kind!r}")
    edges = cayley_edges(smallest_cayley(states))
    adjacency = np.zeros((len(edges), len(edges)), dtype=np.float32)
    for node, neighbours in enumerate(edges):
        for neighbour in neighbours:
            adjacency[node, neighbour] += 1
    return adjacency + adjacency.T if double_edges else np.minimum(adjacency, 1)


def _product(left: Matrix, right: Matrix, n: int) -> Matrix:
    a, b, c, d = left
    e, f, g, h = right
    return (a * e + b * g) % n, (a * f + b * h) % n, (c * e + d * g) % n, (c * f + d * h) % n
