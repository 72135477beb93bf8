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

from collections.abc import Callable
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.errors import ShapeError
from representer.functional.activations import NONLINEARITIES


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
    """
    if not isinstance(adjacency, Tensor):
        adjacency = adjacency.to_torch_sparse_coo_tensor()
    if tuple(adjacency.shape) != (nodes, nodes):
        raise ShapeError("adjacency", adjacency.shape, f"({nodes}, {nodes}), a row for each node")
    target, source = adjacency.to_sparse_coo().coalesce().indices()
    return torch.stack((source, target))


def walks_end(edge_index: Tensor, nodes: int, order: int) -> Tensor:
    """Return True for each node where walks of 1, 2, … n nodes end ``(N, n)``.

    Args:
        edge_index: u and v of each edge ``(2, E)``.
        nodes: N.
        order: n.
    """
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
    combine: str = "add",
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
        combine: Of U_1 f_v + b' and the neighbors, ``"add"``, or ``"multiply"`` as (9) allows.

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
    z, around = x @ own.T, sums @ neighbors.T
    z = z if bias is None else z + bias
    return sigma(z + around if combine == "add" else z * around)


# Gated sums over the neighbors of every node of a graph.
#
#     y[v] = sum_{e = (u, v)} g_e * tau(x[u] + B a_e) * (F a_e)
#     g_e  = s sigma(p[u] + q[v] + G a_e),  or 1
#
# a_e are the features of an edge, such as a bond; tau, the factor and the gate are optional.
# Messages follow the edges, u -> v. With x = c_{j-1} this is the sum in L17 (6), with edge factors
# F and the gate of section 4; with tau(V h_u + B a_e) it is the sum of the relabeling (10).
#
# Lei et al. 2017, (6), (8), (10), section 4. N nodes, E edges, K features of an edge, H units.


def walk_aggregate(
    nodes: Tensor,
    edge_index: Tensor,
    *,
    edge_attr: Tensor | None = None,
    shift: Tensor | None = None,
    factor: Tensor | None = None,
    source_gate: Tensor | None = None,
    target_gate: Tensor | None = None,
    edge_gate: Tensor | None = None,
    scale: float = 1.0,
    activation: str = "identity",
) -> Tensor:
    """Sum the messages to each node.

    Args:
        nodes: x ``(N, H)``.
        edge_index: u and v of each edge ``(2, E)``.
        edge_attr: a ``(E, K)``.
        shift: B ``(H, K)``.
        factor: F ``(H, K)``.
        source_gate: p ``(N, H)``; None, with q, for no gate.
        target_gate: q ``(N, H)``.
        edge_gate: G ``(H, K)``.
        scale: s, the value of an open gate.
        activation: tau, a name of ``NONLINEARITIES``.

    Returns:
        y ``(N, H)``.
    """
    source, target = edge_index
    messages = walk_messages(
        nodes[source], edge_attr, shift, factor,
        None if source_gate is None else source_gate[source],
        None if target_gate is None else target_gate[target], edge_gate, scale, activation,
    )  # fmt: skip
    return torch.zeros_like(nodes).index_add(0, target, messages)


def walk_messages(
    sources: Tensor, edge_attr: Tensor | None, shift: Tensor | None, factor: Tensor | None,
    source_gate: Tensor | None, target_gate: Tensor | None, edge_gate: Tensor | None, scale: float,
    activation: str,
) -> Tensor:  # fmt: skip
    """Return the message of each edge ``(E, H)``, from x, p and q of its ends ``(E, H)``."""
    messages = sources
    if shift is not None:
        assert edge_attr is not None
        messages = messages + edge_attr @ shift.T
    messages = NONLINEARITIES[activation].value(messages)
    if factor is not None:
        assert edge_attr is not None
        messages = messages * (edge_attr @ factor.T)
    if source_gate is not None:
        assert target_gate is not None
        z = source_gate + target_gate
        if edge_gate is not None:
            assert edge_attr is not None
            z = z + edge_attr @ edge_gate.T
        messages = scale * torch.sigmoid(z) * messages
    return messages


def walk_aggregate_definition(
    nodes: Tensor,
    edge_index: Tensor,
    *,
    edge_attr: Tensor | None = None,
    shift: Tensor | None = None,
    factor: Tensor | None = None,
    source_gate: Tensor | None = None,
    target_gate: Tensor | None = None,
    edge_gate: Tensor | None = None,
    scale: float = 1.0,
    activation: str = "identity",
) -> Tensor:
    """Evaluate y ``(N, H)`` as written. An oracle; arguments as in ``walk_aggregate``."""

    def product(weight: Tensor | None, e: int, h: int) -> Tensor:
        if weight is None:
            return nodes.new_zeros(())
        assert edge_attr is not None
        return sum(
            (w * a for w, a in zip(weight[h], edge_attr[e], strict=True)), nodes.new_zeros(())
        )

    tau = NONLINEARITIES[activation].value
    y = [[nodes.new_zeros(()) for _ in range(nodes.shape[1])] for _ in range(len(nodes))]
    for e, (u, v) in enumerate(edge_index.T.tolist()):
        for h in range(nodes.shape[1]):
            message = tau(nodes[u, h] + product(shift, e, h))
            if factor is not None:
                message = message * product(factor, e, h)
            if source_gate is not None and target_gate is not None:
                z = source_gate[u, h] + target_gate[v, h] + product(edge_gate, e, h)
                message = message * scale / (1 + torch.exp(-z))
            y[v][h] = y[v][h] + message
    rows = [torch.stack(row) if row else nodes.new_zeros(0) for row in y]
    return torch.stack(rows) if rows else torch.zeros_like(nodes)


# The random-walk kernel of two graphs: the sum over all walks, and its local recursion.
#
#     K_n(G, G') = lam^(n-1) sum_{x in P_n(G)} sum_{y in P_n(G')} prod_i <f_{x_i}, f_{y_i}>
#         (5)
#                                                        with edges: prod_i <e_{x_i x_{i+1}}, e'_..>
#     K_n(G, G') = sum_v sum_v' K^n(v, v')
#         (7)
#     K^1(v, v') = <f_v, f_v'>
#     K^j(v, v') = <f_v, f_v'> o lam sum_{u -> v} sum_{u' -> v'} <e_uv, e'_u'v'> K_sigma^{j-1}(u,
#         u')
#     K^j(v, v') = 0  where no walk of j nodes ends in v, or none in v'                   appendix E
#
# A walk of n nodes has n - 1 edges, may visit a node several times, and may take any of several
# edges between two nodes. Both functions are oracles, written as printed. Lei et al. 2017.


def walks(edge_index: Tensor, nodes: int, order: int) -> list[tuple[list[int], list[int]]]:
    """Return all walks of ``order`` nodes, each as its nodes and edges."""
    ends = edge_index.T.tolist()
    result: list[tuple[list[int], list[int]]] = [([v], []) for v in range(nodes)]
    for _ in range(order - 1):
        result = [
            ([*path, v], [*edges, e])
            for path, edges in result
            for e, (u, v) in enumerate(ends)
            if u == path[-1]
        ]
    return result


def walk_kernel_definition(
    similarities: Tensor,
    edges_x: Tensor,
    edges_y: Tensor,
    order: int,
    decay: float,
    edge_similarities: Tensor | None = None,
) -> Tensor:
    """Sum over every pair of walks, (5). An oracle: exponential in the order.

    Args:
        similarities: <f_v, f_v'> of all pairs of nodes ``(N, N')``.
        edges_x: ``(2, E)``.
        edges_y: ``(2, E')``.
        order: n.
        decay: lam.
        edge_similarities: <e, e'> of all pairs of edges ``(E, E')``; 1 by default.

    Returns:
        K_n ``()``.
    """
    total = similarities.new_zeros(())
    sides = zip((edges_x, edges_y), similarities.shape, strict=True)
    for (x, in_x), (y, in_y) in product(*(walks(edges, size, order) for edges, size in sides)):
        term = similarities[x, y].prod()
        if edge_similarities is not None and order > 1:
            term = term * edge_similarities[in_x, in_y].prod()
        total = total + term
    return decay ** (order - 1) * total


def local_kernel_definition(
    similarities: Tensor,
    edges_x: Tensor,
    edges_y: Tensor,
    order: int,
    decay: float,
    *,
    combine: str = "multiply",
    activate: Callable[[Tensor, int], Tensor] | None = None,
    edge_similarities: Tensor | None = None,
) -> Tensor:
    """Evaluate the local recursion pair by pair.

    Args:
        similarities: <f_v, f_v'> ``(N, N')``, or their counterpart in a deep kernel.
        edges_x: ``(2, E)``.
        edges_y: ``(2, E')``.
        order: n.
        decay: lam.
        combine: The operation o, ``"multiply"`` or ``"add"``.
        activate: Function of K^j and j that returns K_sigma; None for the identity.
        edge_similarities: <e, e'> of all pairs of edges ``(E, E')``; 1 by default.

    Returns:
        K^n of all pairs of nodes ``(N, N')``.
    """
    N, M = similarities.shape
    K = similarities
    for j in range(2, order + 1):
        below = K if activate is None else activate(K, j - 1)
        ends_x, ends_y = ({w[0][-1] for w in walks(e, size, j)}
                          for e, size in ((edges_x, N), (edges_y, M)))  # fmt: skip
        rows = [[similarities.new_zeros(()) for _ in range(M)] for _ in range(N)]
        for v, w in product(ends_x, ends_y):
            for e, (u, end) in enumerate(edges_x.T.tolist()):
                for f, (t, other) in enumerate(edges_y.T.tolist()):
                    if (end, other) == (v, w):
                        weight = 1.0 if edge_similarities is None else edge_similarities[e, f]
                        rows[v][w] = rows[v][w] + decay * weight * below[u, t]
            is_product = combine == "multiply"
            similarity = similarities[v, w]
            rows[v][w] = rows[v][w] * similarity if is_product else rows[v][w] + similarity
        K = torch.stack([torch.stack(row) for row in rows]) if N * M else K
    return K


# Rounds of relabeling with a sum over the walks of every round, for Weisfeiler-Lehman networks.
#
#     P_l     = W h_l + c = (inner, own, p_1 .. p_n, source, target),  l = 0 .. L - 1
#     c_1     = p_1,  c_j[v] = p_j[v] o sum_{e = (u, v)} g_e * c_{j-1}[u] * (F_j a_e)
#     g_e     = s sigma(source[u] + target[v] + G a_e),  or 1
#     h_{l+1} = sigma(own + U sum_{u -> v} sigma(inner[u] + B a_e))
#     y[v]    = sum_{l >= first} c_n[v]
#
# W stacks V, U_1, the references and the two weights of the gate, so the labels of a round are
# multiplied once. Lei et al. 2017, (6), (9)-(11), section 4. N nodes, E edges, K features of an
# edge, d of a label, H units.


def walk_rounds(
    labels: Tensor,
    edge_index: Tensor,
    edge_attr: Tensor,
    weight: Tensor,
    bias: Tensor,
    neighbors: Tensor,
    shift: Tensor,
    factor: Tensor,
    edge_gate: Tensor | None = None,
    *,
    depth: int,
    first: int = 0,
    scale: float = 1.0,
    activation: str = "relu",
) -> Tensor:
    """Return the sum of c_n of every node over the rounds from ``first``.

    Args:
        labels: h_0 ``(N, d)``.
        edge_index: u and v of each edge ``(2, E)``.
        edge_attr: a ``(E, K)``.
        weight: W ``(2 d + n H, d)``, with a gate ``(2 d + (n + 2) H, d)``.
        bias: c, one entry per row of W.
        neighbors: U ``(d, d)``.
        shift: B ``(d, K)``.
        factor: F_2 … F_n ``(n - 1, H, K)``.
        edge_gate: G ``(H, K)``; None for no gate.
        depth: L.
        first: The first round in the sum.
        scale: s, the value of an open gate.
        activation: sigma of the relabeling, a name of ``NONLINEARITIES``.

    Returns:
        y ``(N, H)``.
    """
    d, H, sigma = labels.shape[1], factor.shape[1], NONLINEARITIES[activation].value
    h, y = labels, labels.new_zeros(labels.shape[0], H)
    for round_ in range(depth):
        inner, center, *p = F.linear(h, weight, bias).split(
            [d, d, *[H] * ((len(weight) - 2 * d) // max(1, H))], dim=1
        )
        gates = {}
        if edge_gate is not None:
            gates = {"source_gate": p[-2], "target_gate": p[-1], "edge_gate": edge_gate}
        if round_ >= first:
            c = p[0]
            for p_j, F_j in zip(p[1:], factor, strict=False):
                sums = walk_aggregate(
                    c, edge_index, edge_attr=edge_attr, factor=F_j, scale=scale, **gates
                )
                c = p_j * sums
            y = y + c
        if round_ < depth - 1:
            sums = walk_aggregate(
                inner, edge_index, edge_attr=edge_attr, shift=shift, activation=activation
            )
            h = sigma(center + sums @ neighbors.T)
    return y
