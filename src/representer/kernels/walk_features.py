"""The feature map of the random-walk kernel with inner products.

    phi_1(v) = f_v,    phi_j(v) = (sum_{u -> v} phi_{j-1}(u) (x) e_uv) (x) f_v            multiply
    phi_j(v) = (f_v, sqrt(lam) sum_{u -> v} phi_{j-1}(u) (x) e_uv), or 0               add
    phi(G)   = sum_v phi_n(v),        K_n(G, G') = lam^(n-1) <phi(G), phi(G')>         (5)

The powers of lam are applied in the Gram matrix, so that a decay of 0 has a gradient. For few
features this is faster than the local kernels of all pairs of nodes. Lei et al. 2017, appendices D
and E.
"""

from __future__ import annotations

import torch
from torch import Tensor

from representer.kernels.graph_batch import Batch
from representer.ops import walk_aggregate


def walk_features(x: Batch, order: int, combine: str) -> list[Tensor]:
    """Return the features of every graph, separately for each power of lam.

    Args:
        x: Graphs with features.
        order: n.
        combine: ``"multiply"`` or ``"add"``.

    Returns:
        Features ``(G, D)`` for the powers 0, 1, … n - 1 of lam; for ``"multiply"``, only the last
        is not empty.
    """
    f, ends = x.nodes, x.ends(order)
    blocks = [f]
    for j in range(1, order):
        sums = [_neighbors(block, x) for block in blocks]
        if combine == "multiply":
            blocks = [(sums[0][:, :, None] * f[:, None]).flatten(1)]
        else:
            blocks = [torch.where(ends[:, j, None], block, 0.0) for block in (f, *sums)]
    result = [x.summed(block) for block in blocks]
    if combine == "multiply":
        result = [f.new_zeros(len(x.sizes), 0)] * (order - 1) + result
    return result


def features_count(x: Batch, order: int, combine: str) -> float:
    """Return the number of features of a node."""
    d, k = float(x.nodes.shape[1]), 1.0 if x.edges is None else max(1.0, x.edges.shape[1])
    if combine == "multiply":
        return d**order * k ** (order - 1)
    return sum(d * k**i for i in range(order))


def _neighbors(block: Tensor, x: Batch) -> Tensor:
    """Return the sum over neighbors, with the outer product by edge features, if any."""
    if x.edges is None:
        return walk_aggregate(block, x.edge_index)
    ones = block.new_ones(block.shape[1], 1)
    parts = [
        walk_aggregate(block, x.edge_index, edge_attr=x.edges[:, k : k + 1], factor=ones)
        for k in range(x.edges.shape[1])
    ]
    return torch.cat(parts, dim=1) if parts else block.new_zeros(len(block), 0)
