"""The equations of L17 on graphs and trees: walks, relabelings, their kernels and networks.

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

from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.errors import ArgumentError, ShapeError
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


# The recurrence of tree-kernel networks, and the kernel that sums over the chains of two trees.
#
# Edges lead from child to parent. For each node v with children u, deepest nodes first,
#
#     c_1[v] = sum_u lam_uv c_1[u] + p_1[v]
#     c_j[v] = sum_u lam_uv c_j[u] + (sum_u a_j,uv c_{j-1}[u]) p_j[v]                  j = 2 .. n
#     lam_uv = lam,  or  s sigma(source[u] + target[v] + U phi(c_n[u]))
#
# c_j[v] sums over the chains v_1 < ... < v_j of nodes, each a proper descendant of the next, in the
# subtree of v: the product of their p, times lam of each edge into a node that the chain skips. On
# a path this is the recurrence of the string kernel, L17 (2). With n = 1, p = W x and the gate
# sigma(W' x_v + U h_u + b) it is the memory of the child-sum Tree-LSTM with its input gate at 1,
# Tai et al., Improved Semantic Representations From Tree-Structured Long Short-Term Memory
# Networks, ACL 2015, (4), (7).
#
# Shapes: N nodes, E edges, n nodes of a chain, H units.


class TreeLevel(NamedTuple):
    """The nodes of one depth, and the edges that lead to them from the depth below."""

    nodes: Tensor  # (M,)
    edges: Tensor  # their indices (F,)
    source: Tensor  # positions of their sources in the nodes of the level below (F,)
    target: Tensor  # positions of their targets in nodes (F,)


def tree_depths(edge_index: Tensor, nodes: int, name: str = "edge_index") -> Tensor:
    """Return the number of edges from each node to its root ``(N,)``.

    Args:
        edge_index: Child and parent of each edge ``(2, E)``.
        nodes: N.
        name: The name of the edges in messages.

    Raises:
        ArgumentError: If a node has two parents, or is its own ancestor.
    """
    child, parent = edge_index
    above = child.new_full((nodes + 1,), nodes)  # the parent of a root is an extra node
    above[child] = parent
    depth = (above < nodes).long()
    if int(depth.sum()) < len(child):
        most = int(child.bincount(minlength=nodes).argmax())
        parents = f"the parents {parent[child == most].tolist()}"
        hint = "Edges lead from child to parent."
        raise ArgumentError(f"{name} of node {most}", parents, "a single one", hint=hint)
    for _ in range(nodes.bit_length()):  # each round doubles the length of the path to `above`
        depth = depth + depth[above]
        above = above[above]
    if nodes and int(above.min()) < nodes:
        cycle = int((above < nodes).nonzero()[0])
        expected = "the edges of a tree, from child to parent"
        raise ArgumentError(name, f"a cycle above node {cycle}", expected)
    return depth[:nodes]


def child_positions(edge_index: Tensor, nodes: int) -> Tensor:
    """Return the position of each edge's child among its siblings ``(E,)``, by order of edges.

    Args:
        edge_index: Child and parent of each edge ``(2, E)``.
        nodes: N.
    """
    parent = edge_index[1]
    order = parent.argsort(stable=True)
    counts = torch.zeros(nodes, dtype=parent.dtype, device=parent.device)
    counts = counts.index_add(0, parent, torch.ones_like(parent))
    ranks = (
        torch.arange(len(parent), device=parent.device) - (counts.cumsum(0) - counts)[parent[order]]
    )
    return torch.zeros_like(parent).index_copy(0, order, ranks)


def tree_levels(edge_index: Tensor, nodes: int) -> Iterator[TreeLevel]:
    """Yield the nodes of each depth, deepest first; see `tree_depths` for errors."""
    depth = tree_depths(edge_index, nodes)
    index = torch.empty_like(depth)  # of each node among those of its depth
    child_depth = depth[edge_index[0]]
    for level in range(int(depth.max()) if nodes else -1, -1, -1):
        level_nodes = (depth == level).nonzero().flatten()
        edges = (child_depth == level + 1).nonzero().flatten()
        source = index[edge_index[0, edges]]
        index[level_nodes] = torch.arange(len(level_nodes), device=level_nodes.device)
        yield TreeLevel(level_nodes, edges, source, index[edge_index[1, edges]])


def tree_scan(
    products: Tensor,
    edge_index: Tensor,
    *,
    decay: Tensor | None = None,
    source_gate: Tensor | None = None,
    target_gate: Tensor | None = None,
    state_gate: Tensor | None = None,
    factor: Tensor | None = None,
    scale: float = 1.0,
    activation: str = "identity",
) -> Tensor:
    """Run the recurrence.

    Args:
        products: p_1 … p_n of every node ``(N, n, H)``.
        edge_index: Child and parent of each edge ``(2, E)``.
        decay: lam ``()`` or ``(H,)``; None for a gate.
        source_gate: The gate's term of the child ``(N, H)``, or None.
        target_gate: The gate's term of the parent ``(N, H)``; None without a gate.
        state_gate: U ``(H, H)``, or None.
        factor: a_2 … a_n of every edge ``(E, n - 1, H)``; 1 by default.
        scale: s, the value of an open gate.
        activation: phi, a name of ``NONLINEARITIES``.

    Returns:
        c_1 … c_n of every node ``(N, n, H)``.

    Raises:
        ArgumentError: If the edges are not those of trees.
    """
    phi, below = NONLINEARITIES[activation].value, products[:0]
    nodes, states = [], []
    for level in tree_levels(edge_index, len(products)):
        p, c = products[level.nodes], below[level.source]
        if target_gate is None:
            assert decay is not None
            kept = c * decay
        else:
            u, v = edge_index[:, level.edges]
            z = target_gate[v]
            if source_gate is not None:
                z = z + source_gate[u]
            if state_gate is not None:
                z = z + phi(c[:, -1]) @ state_gate.T
            kept = c * (scale * torch.sigmoid(z))[:, None]
        shorter = c[:, :-1] if factor is None else c[:, :-1] * factor[level.edges]
        sums = torch.zeros_like(p[:, 1:]).index_add(0, level.target, shorter)
        fresh = torch.cat((p[:, :1], sums * p[:, 1:]), dim=1)
        below = fresh.index_add(0, level.target, kept)
        nodes.append(level.nodes)
        states.append(below)
    if not nodes:
        return products * 1
    return torch.zeros_like(products).index_copy(0, torch.cat(nodes), torch.cat(states))


def tree_chains(edge_index: Tensor, nodes: int, order: int) -> list[tuple[int, ...]]:
    """Return all chains v_1 < … < v_n of nodes, each a proper descendant of the next."""
    above = dict(edge_index.T.tolist())

    def longer(chain: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(chain) == order:
            yield chain
            return
        node = above.get(chain[-1])
        while node is not None:
            yield from longer((*chain, node))
            node = above.get(node)

    return [chain for v in range(nodes) for chain in longer((v,))]


def tree_kernel_definition(
    similarities: Tensor,
    edges_x: Tensor,
    edges_y: Tensor,
    order: int,
    decay: float | Tensor,
    ordered: bool = False,
) -> Tensor:
    r"""Sum over every pair of chains of two trees. An oracle: exponential in the order.

    .. math::
        K_n = \sum_{v_1 < … < v_n} \sum_{w_1 < … < w_n} \lambda^{d(v_1) - n + 1}
            \lambda^{d(w_1) - n + 1} \prod_j \langle x_{v_j}, y_{w_j} \rangle

    d is the depth, 0 of a root, so that the exponents count the skipped nodes up to the root. If
    ``ordered``, v_{j-1} and w_{j-1} must lie below children at the same position, first, second, ….

    Args:
        similarities: <x_v, y_w> of all pairs of nodes ``(N, N')``.
        edges_x: Child and parent of each edge ``(2, E)``.
        edges_y: ``(2, E')``.
        order: n.
        decay: lam.
        ordered: Compare the positions of children.

    Returns:
        K_n ``()``.
    """
    sides = []
    for edges, size in zip((edges_x, edges_y), similarities.shape, strict=True):
        positions = child_positions(edges, size).tolist()
        above = {u: (v, a) for (u, v), a in zip(edges.T.tolist(), positions, strict=True)}
        depths = tree_depths(edges, size).tolist()
        sides.append(
            [
                (
                    chain,
                    depths[chain[0]] - order + 1,
                    [_step(*ends, above) for ends in pairwise(chain)],
                )
                for chain in tree_chains(edges, size, order)
            ]
        )
    total = similarities.new_zeros(())
    for (x, skipped, steps_x), (y, other, steps_y) in product(*sides):
        if not ordered or steps_x == steps_y:
            total = total + decay ** (skipped + other) * similarities[list(x), list(y)].prod()
    return total


def _step(node: int, end: int, above: dict[int, tuple[int, int]]) -> int:
    """Return the position of the child of a node below which another node lies, or is."""
    while above[node][0] != end:
        node = above[node][0]
    return above[node][1]
