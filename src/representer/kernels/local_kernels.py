"""The local kernels of all pairs of nodes of two batches, L17 (7), sections 3.2, 3.3, appendix E.

    K^{l,1}(v, v') = S^l(v, v'),          S^1 = <f_v, f_v'>,   S^l = K_sigma^{l-1,n}
    K^{l,j}(v, v') = S^l(v, v') o lam sum_{u -> v} sum_{u' -> v'} <e, e'> K_sigma^{l,j-1}(u, u')
    K^{l,j}(v, v') = 0  where no walk of j nodes ends          add, or with an activation

The double sum is computed as sums over neighbors of the rows and of the columns of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from representer.kernels.graph_batch import Batch
from representer.ops import walk_aggregate

Activate = Callable[[Tensor, Tensor, Tensor], Tensor]
Compare = Callable[[Tensor, Tensor], Tensor]
Own = list[Tensor]
NODES = 512  # per block of graphs, so that the local kernels of two blocks fit in the cache


@dataclass(frozen=True)
class Local:
    """The parameters of a local kernel."""

    order: int  # n, nodes of a walk
    decay: float | Tensor  # lam, a number or a tensor ()
    combine: str  # o, "multiply" or "add"
    activate: Activate | None  # k_sigma from K(v, v'), K(v, v) and K(v', v'); None for K itself
    compare: Compare  # the base kernel of two nodes, S^1
    layers: int = 1  # L

    @property
    def is_masked(self) -> bool:
        """Return True if values at nodes where no walk ends must be set to 0."""
        return self.combine == "add" or self.activate is not None


def gram(local: Local, x: Batch, y: Batch | None, *, activated: bool = False) -> Tensor:
    """Sum the local kernels of all pairs of graphs ``(G, G')``, in blocks.

    Args:
        local: The local kernel.
        x: Graphs.
        y: Graphs, or None for x itself.
        activated: Sum K_sigma instead of K.
    """
    rows = [(part, own_kernels(local, part)) for part in x.parts(NODES)]
    columns = rows if y is None else [(p, own_kernels(local, p)) for p in y.parts(NODES)]
    blocks: dict[tuple[int, int], Tensor] = {}
    for i, (a, own_a) in enumerate(rows):
        for j, (b, own_b) in enumerate(columns):
            if y is None and j < i:
                blocks[i, j] = blocks[j, i].T
                continue
            K = _last(local, a, b, own_a, own_b, activated)
            blocks[i, j] = b.summed(a.summed(K).T).T
    return torch.cat(
        [torch.cat([blocks[i, j] for j in range(len(columns))], dim=1) for i in range(len(rows))]
    )


def diagonal(local: Local, x: Batch, *, activated: bool = False) -> Tensor:
    """Sum the local kernels of every graph with itself ``(G,)``."""
    sums = []
    for graph in x.parts(0):  # one graph each
        of = own_kernels(local, graph)
        sums.append(_last(local, graph, graph, of, of, activated).sum())
    return torch.stack(sums)


def own_kernels(local: Local, x: Batch) -> Own:
    """Return K^{l,j}(v, v) of every node ``(N,)``, for all l and j; [] without an activation."""
    if local.activate is None:
        return []
    per_graph: list[Own] = []
    for graph in x.parts(0):
        diagonals: Own = []
        K = _levels(local, graph, graph, diagonals, diagonals, grow=True)
        assert K.shape == (len(graph.nodes),) * 2
        per_graph.append(diagonals)
    return [torch.cat(parts) for parts in zip(*per_graph, strict=True)]


def _last(local: Local, a: Batch, b: Batch, own_a: Own, own_b: Own, activated: bool) -> Tensor:
    K = _levels(local, a, b, own_a, own_b)
    if activated and local.activate is not None:
        return local.activate(K, own_a[-1][:, None], own_b[-1])
    return K


def _levels(
    local: Local, a: Batch, b: Batch, own_a: Own, own_b: Own, *, grow: bool = False
) -> Tensor:
    """Return K^{L,n} ``(N, N')``; with ``grow``, append the diagonal of all levels to ``own_a``."""
    ends_a, ends_b = a.ends(local.order), b.ends(local.order)
    S = local.compare(a.nodes, b.nodes)
    level = 0
    K = S
    for layer in range(local.layers):
        if layer:
            S = _activated(local, K, own_a, own_b, level - 1)
        K = S
        for j in range(local.order):
            if j:
                below = _activated(local, K, own_a, own_b, level - 1)
                sums = local.decay * _neighbors(below, a, b)
                K = S * sums if local.combine == "multiply" else S + sums
                if local.is_masked:
                    K = torch.where(ends_a[:, j, None] & ends_b[:, j], K, 0.0)
            if grow:
                own_a.append(K.diagonal())
            level += 1
    return K


def _activated(local: Local, K: Tensor, own_a: Own, own_b: Own, level: int) -> Tensor:
    if local.activate is None:
        return K
    return local.activate(K, own_a[level][:, None], own_b[level])


def _neighbors(K: Tensor, a: Batch, b: Batch) -> Tensor:
    """Return the sum over the neighbors of both nodes, weighted by the similarity of the edges."""
    if a.edges is None or b.edges is None:
        columns = walk_aggregate(K.T, b.edge_index).T
        return walk_aggregate(columns, a.edge_index)
    total = torch.zeros_like(K)
    ones_a, ones_b = (K.new_ones(size, 1) for size in K.shape)
    for k in range(a.edges.shape[1]):
        own_a, own_b = a.edges[:, k : k + 1], b.edges[:, k : k + 1]
        columns = walk_aggregate(K.T, b.edge_index, edge_attr=own_b, factor=ones_a).T
        total = total + walk_aggregate(columns, a.edge_index, edge_attr=own_a, factor=ones_b)
    return total
