"""Walks, paths and kernels of graphs by enumeration, from nothing of the library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import torch
from hypothesis import strategies as st
from small_oracles import outer
from torch import Tensor


@dataclass(frozen=True)
class Drawn:
    """A random graph: features of nodes and edges, and the edges, loops and parallels included."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor

    @property
    def edges(self) -> list[tuple[int, int]]:
        return [(u, v) for u, v in self.edge_index.T.tolist()]


def random_graph(
    nodes: int, edges: int, d: int, k: int, seed: int, undirected: bool = False
) -> Drawn:
    """Draw a graph; with few edges some nodes are isolated, with many some edges are parallel."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(nodes, d, generator=g, dtype=torch.float64)
    ends = torch.randint(0, nodes, (2, edges), generator=g)
    attr = torch.randn(edges, k, generator=g, dtype=torch.float64)
    if undirected:
        ends, attr = torch.cat((ends, ends.flip(0)), dim=1), torch.cat((attr, attr))
    return Drawn(x, ends, attr)


GRAPHS = st.builds(
    random_graph,
    st.integers(1, 6), st.integers(0, 8), st.just(3), st.just(2), st.integers(0, 2**16),
    st.booleans(),
)  # fmt: skip


def path(features: Tensor, edge_features: Tensor | None = None) -> Drawn:
    """A directed path through all nodes in their order."""
    n = len(features)
    steps = torch.tensor([[i, i + 1] for i in range(n - 1)], dtype=torch.int64).reshape(-1, 2).T
    if edge_features is None:
        edge_features = torch.ones(n - 1, 1, dtype=torch.float64)
    return Drawn(features, steps, edge_features)


def walks(graph: Drawn, n: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All walks of n nodes: their nodes, and the edges that they take."""
    if n == 1:
        return [((v,), ()) for v in range(len(graph.x))]
    return [
        ((*nodes, v), (*edges, e))
        for nodes, edges in walks(graph, n - 1)
        for e, (u, v) in enumerate(graph.edges)
        if u == nodes[-1]
    ]


def walk_kernel(G: Drawn, H: Drawn, n: int, lam: float, edges: bool = False) -> float:
    """(5): the sum over every two walks."""
    total = 0.0
    of_nodes = (G.x @ H.x.T).tolist()
    of_edges = (G.edge_attr @ H.edge_attr.T).tolist() if edges else []
    for (x, in_x), (y, in_y) in product(walks(G, n), walks(H, n)):
        term = math.prod(of_nodes[a][b] for a, b in zip(x, y, strict=True))
        if edges:
            term *= math.prod(of_edges[e][f] for e, f in zip(in_x, in_y, strict=True))
        total += term
    return lam ** (n - 1) * total


def local_kernel(G, H, v, w, n, lam, combine="multiply", sigma_kernel=None, edges=False) -> float:
    """K^n(v, w) of section 3.2, with the case of appendix E; K_sigma sees K(u, u') alone."""
    own = float(G.x[v] @ H.x[w])
    if n == 1:
        return own
    if not ends_in(G, v, n) or not ends_in(H, w, n):
        return 0.0
    total = 0.0
    for e, (u, to) in enumerate(G.edges):
        for f, (t, end) in enumerate(H.edges):
            if (to, end) == (v, w):
                below = local_kernel(G, H, u, t, n - 1, lam, combine, sigma_kernel, edges)
                weight = float(G.edge_attr[e] @ H.edge_attr[f]) if edges else 1.0
                total += weight * (below if sigma_kernel is None else sigma_kernel(below))
    return own * lam * total if combine == "multiply" else own + lam * total


def ends_in(G: Drawn, v: int, n: int) -> bool:
    """Return True if a walk of n nodes ends in v."""
    return n == 1 or any(to == v and ends_in(G, u, n - 1) for u, to in G.edges)


def graph_kernel(G: Drawn, H: Drawn, n: int, lam: float, **options) -> float:
    """(7): the sum of the local kernel over every two nodes."""
    pairs = product(range(len(G.x)), range(len(H.x)))
    return sum(local_kernel(G, H, v, w, n, lam, **options) for v, w in pairs)


def deep_local(G, H, v, w, level, lam, combine, sigma_kernel, n) -> float:
    """K^{(l,j)}(v, w) of section 3.3, level = (l, j); K_sigma sees K(v, w) and both squares."""
    l, j = level  # noqa: E741 (the paper's letter)
    if not ends_in(G, v, j) or not ends_in(H, w, j):
        return 0.0

    def post(u: int, t: int, below: tuple[int, int]) -> float:
        arguments = (below, lam, combine, sigma_kernel, n)
        return sigma_kernel(
            deep_local(G, H, u, t, *arguments),
            deep_local(G, G, u, u, *arguments),
            deep_local(H, H, t, t, *arguments),
        )

    own = float(G.x[v] @ H.x[w]) if l == 1 else post(v, w, (l - 1, n))
    if j == 1:
        return own
    total = sum(
        post(u, t, (l, j - 1)) for u, to in G.edges for t, end in H.edges if (to, end) == (v, w)
    )
    return own * lam * total if combine == "multiply" else own + lam * total


def refined(graphs: list[Drawn], labels: list[list]) -> list[list]:
    """One round of the Weisfeiler-Lehman test: labels that say everything, and grow."""
    return [
        [(own[v], tuple(sorted(own[u] for u, to in G.edges if to == v))) for v in range(len(G.x))]
        for G, own in zip(graphs, labels, strict=True)
    ]


def walk_features(G: Drawn, n: int, lam: float) -> Tensor:
    """phi_n(G) of appendix D, with lam^(n-1) on one side: the reference has none."""
    total = torch.zeros(G.x.shape[1] ** n, dtype=torch.float64)
    for nodes, _ in walks(G, n):
        total = total + outer([G.x[u] for u in nodes])
    return lam ** (n - 1) * total
