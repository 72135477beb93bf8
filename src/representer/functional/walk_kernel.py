"""The random-walk kernel of two graphs: the sum over all walks, and its local recursion.

    K_n(G, G') = lam^(n-1) sum_{x in P_n(G)} sum_{y in P_n(G')} prod_i <f_{x_i}, f_{y_i}>       (5)
                                                       with edges: prod_i <e_{x_i x_{i+1}}, e'_..>
    K_n(G, G') = sum_v sum_v' K^n(v, v')                                                        (7)
    K^1(v, v') = <f_v, f_v'>
    K^j(v, v') = <f_v, f_v'> o lam sum_{u -> v} sum_{u' -> v'} <e_uv, e'_u'v'> K_sigma^{j-1}(u, u')
    K^j(v, v') = 0  where no walk of j nodes ends in v, or none in v'                   appendix E

A walk of n nodes has n - 1 edges, may visit a node several times, and may take any of several edges
between two nodes. Both functions are oracles, written as printed. Lei et al. 2017.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor


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
