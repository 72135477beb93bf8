"""The recurrence of tree-kernel networks, and the kernel that sums over the chains of two trees.

Edges lead from child to parent. For each node v with children u, deepest nodes first,

    c_1[v] = sum_u lam_uv c_1[u] + p_1[v]
    c_j[v] = sum_u lam_uv c_j[u] + (sum_u a_j,uv c_{j-1}[u]) p_j[v]                  j = 2 .. n
    lam_uv = lam,  or  s sigma(source[u] + target[v] + U phi(c_n[u]))

c_j[v] sums over the chains v_1 < ... < v_j of nodes, each a proper descendant of the next, in the
subtree of v: the product of their p, times lam of each edge into a node that the chain skips. On a
path this is the recurrence of the string kernel, L17 (2). With n = 1, p = W x and the gate
sigma(W' x_v + U h_u + b) it is the memory of the child-sum Tree-LSTM with its input gate at 1,
Tai et al., Improved Semantic Representations From Tree-Structured Long Short-Term Memory Networks,
ACL 2015, (4), (7).

Shapes: N nodes, E edges, n nodes of a chain, H units.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import NamedTuple

import torch
from torch import Tensor

from representer.errors import ArgumentError
from representer.functional.activations import NONLINEARITIES


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
