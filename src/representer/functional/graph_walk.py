"""The recurrence of the graph-kernel networks, and the relabeling of a graph.

    c_1[v] = p_1[v]
    c_j[v] = lam  sum_{u -> v} g_uv * r_j,uv * sigma(c_{j-1}[u])  *  p_j[v]       multiply, (6), (8)
    c_j[v] = lam  sum_{u -> v} g_uv * r_j,uv * sigma(c_{j-1}[u])  +  p_j[v]       add, (8)
    c_j[v] = 0  where no walk of j nodes ends                   add, or with sigma, appendix E
    r(v)   = sigma(U_1 f_v + U_2 sum_{u -> v} sigma(V f_u))                        (10)

Lei et al. 2017, (6), (8), section 3.3, (10), section 4, appendices D and E; p_j[v] = W^(j) f_v.
g is a gate of each edge; r_j,uv = R^(j) e_uv are products of edges and references.
Walks follow the edges and end in v. This is the reference implementation, in plain torch.

Shapes: N nodes, E edges, n nodes of a walk, H units.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.errors import ShapeError
from representer.functional.nonlinearities import NONLINEARITIES


def walk_states(
    products: Tensor,
    edge_index: Tensor,
    *,
    decay: float | Tensor = 1.0,
    combine: str = "multiply",
    activation: str = "identity",
    edge_products: Tensor | None = None,
    gates: Tensor | None = None,
) -> Tensor:
    """Run the recurrence.

    Args:
        products: p_1 … p_n of every node ``(N, n, H)``.
        edge_index: u and v of each edge ``(2, E)``.
        decay: lam, a number or a tensor ``()`` or ``(H,)``.
        combine: Operation that extends a walk by a node, ``"multiply"`` or ``"add"``.
        activation: sigma, a name of ``NONLINEARITIES``.
        edge_products: r_2 … r_n of every edge ``(E, n - 1, H)``; 1 by default.
        gates: g of every edge ``(E, H)``; 1 by default.

    Returns:
        c_1 … c_n of every node ``(N, n, H)``.
    """
    source, target = edge_index
    sigma = NONLINEARITIES[activation].value
    can_end = walks_end(edge_index, *products.shape[:2])
    states = [products[:, 0]]
    for j in range(1, products.shape[1]):
        messages = sigma(states[-1])[source]
        if edge_products is not None:
            messages = messages * edge_products[:, j - 1]
        if gates is not None:
            messages = messages * gates
        sums = decay * torch.zeros_like(states[-1]).index_add(0, target, messages)
        c_new = sums * products[:, j] if combine == "multiply" else sums + products[:, j]
        if combine == "add" or activation != "identity":
            c_new = torch.where(can_end[:, j, None], c_new, 0.0)
        states.append(c_new)
    return torch.stack(states, dim=1)


def edges_of(adjacency: Any, nodes: int) -> Tensor:
    """Return the edges ``(2, E)`` of a sparse adjacency, sources over targets.

    Args:
        adjacency: ``(N, N)``, transposed as in PyG: an entry ``(v, u)`` for each edge u → v; a
            sparse tensor of torch, or a ``SparseTensor`` of torch_sparse. The values are not used.
        nodes: N.

    Raises:
        ShapeError: If it has another shape.
    """
    if not isinstance(adjacency, Tensor):
        adjacency = adjacency.to_torch_sparse_coo_tensor()
    if tuple(adjacency.shape) != (nodes, nodes):
        raise ShapeError("adjacency", adjacency.shape, f"({nodes}, {nodes}), a row for each node")
    target, source = adjacency.to_sparse_coo().coalesce().indices()
    return torch.stack((source, target))


def walks_end(edge_index: Tensor, nodes: int, order: int) -> Tensor:
    """Return True for each node where walks of 1, 2, … n nodes end ``(N, n)``."""
    source, target = edge_index
    ends = [torch.ones(nodes, dtype=torch.bool, device=edge_index.device)]
    for _ in range(order - 1):
        reached = torch.zeros(nodes, device=edge_index.device)
        ends.append(reached.index_add(0, target, ends[-1][source].to(reached.dtype)) > 0)
    return torch.stack(ends, dim=1)


def relabel(
    x: Tensor,
    edge_index: Tensor,
    own: Tensor,
    neighbors: Tensor,
    inner: Tensor,
    *,
    bias: Tensor | None = None,
    inner_bias: Tensor | None = None,
    edge_attr: Tensor | None = None,
    edge_weight: Tensor | None = None,
    activation: str = "relu",
) -> Tensor:
    """Relabel each node from its neighbors, r of (10); with edge features, sigma(V f_u + B e_uv).

    Args:
        x: f ``(N, d)``.
        edge_index: u and v of each edge ``(2, E)``.
        own: U_1 ``(d', d)``.
        neighbors: U_2 ``(d', m)``.
        inner: V ``(m, d)``.
        bias: Bias of the outer sum ``(d',)``.
        inner_bias: Bias of the inner product ``(m,)``.
        edge_attr: e ``(E, K)``.
        edge_weight: B ``(m, K)``.
        activation: sigma, a name of ``NONLINEARITIES``.

    Returns:
        The new labels ``(N, d')``.
    """
    source, target = edge_index
    sigma = NONLINEARITIES[activation].value
    messages = x[source] @ inner.T
    if inner_bias is not None:
        messages = messages + inner_bias
    if edge_weight is not None:
        assert edge_attr is not None
        messages = messages + edge_attr @ edge_weight.T
    sums = x.new_zeros(x.shape[0], len(inner)).index_add(0, target, sigma(messages))
    z = x @ own.T + sums @ neighbors.T
    return sigma(z if bias is None else z + bias)
