"""The contributions of all walks of a graph to a weighted sum of a network's outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from representer.errors import ShapeError
from representer.explain.top_walks import (
    WalkContribution,
    checked_chains,
    node_labels,
    walk_factors,
)

if TYPE_CHECKING:
    from representer.nn import RandomWalkKernelNN, WLKernelNN


@torch.no_grad()
def walk_readout(
    net: RandomWalkKernelNN | WLKernelNN, data: Any, weights: Tensor
) -> list[WalkContribution]:
    r"""Return all walks of a graph with their contributions to a read-out.

    .. math::
        \sum_i w_i h_G[i] = \sum_{x_1 \to \dots \to x_n} \sum_i w_i \, s_i(x_1 \dots x_n)

    where :math:`s_i` is the contribution to unit i as in :func:`top_walks`. The sum includes all
    levels of the read-out, and parallel edges. A graph of N nodes with d neighbors each has
    :math:`N d^{n-1}` walks, which are all held in memory.

    Args:
        net: The network; the read-out is that of its outputs before any activation.
        data: A graph with ``x``, ``edge_index`` and, if the network uses edge features,
            ``edge_attr``.
        weights: Weight of each unit ``(H,)``.

    Returns:
        Pairs of nodes and contribution, in descending order of absolute contribution.

    Raises:
        KindError: If the network's outputs are not sums over walks.
        ShapeError: If a shape is wrong.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (6), (11), section 4.
    """
    chains = checked_chains(net)
    if weights.shape != (net.hidden_channels,):
        raise ShapeError("weights", weights.shape, f"({net.hidden_channels},), one per unit")
    edges, attributes = data.edge_index, getattr(data, "edge_attr", None)
    total: dict[tuple[int, ...], float] = {}
    for level in getattr(net, "_read", (0,)):
        labels = node_labels(net, data, level)
        nodes, steps = walk_factors(chains[level], labels, edges, attributes, slice(None))
        walks, values = _all_walks(nodes, steps, edges)
        for walk, value in zip(walks.tolist(), (values @ weights).tolist(), strict=True):
            total[tuple(walk)] = total.get(tuple(walk), 0.0) + value
    contributions = [WalkContribution(walk, value) for walk, value in total.items()]
    return sorted(contributions, key=lambda walk: -abs(walk.contribution))


def _all_walks(nodes: Tensor, steps: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return all walks ``(W, n)`` and their contributions to all units ``(W, H)``."""
    source, target = edges
    order = source.argsort(stable=True)
    degrees = source.bincount(minlength=nodes.shape[-1])
    starts = degrees.cumsum(0) - degrees
    walks, values = torch.arange(nodes.shape[-1])[:, None], nodes[0].T
    for node_factors, edge_factors in zip(nodes[1:], steps, strict=True):
        branches = degrees[walks[:, -1]]
        longer = torch.arange(len(walks)).repeat_interleave(branches)
        offset = torch.arange(len(longer)) - (branches.cumsum(0) - branches).repeat_interleave(
            branches
        )
        edge = order[starts[walks[longer, -1]] + offset]
        walks = torch.cat((walks[longer], target[edge][:, None]), dim=1)
        values = values[longer] * edge_factors.T[edge] * node_factors.T[target[edge]]
    return walks, values
