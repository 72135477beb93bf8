"""Every walk of a graph with what it adds to a weighted sum of a network's outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from representer.errors import ShapeError
from representer.explain.top_walks import WalkContribution, checked_chains, labels_of, walk_factors

if TYPE_CHECKING:
    from representer.nn import RandomWalkKernelNN, WLKernelNN


@torch.no_grad()
def walk_readout(
    net: RandomWalkKernelNN | WLKernelNN, data: Any, weights: Tensor
) -> list[WalkContribution]:
    r"""Return all walks of a graph with their exact shares of a read-out.

    .. math::
        \sum_i w_i h_G[i] = \sum_{x_1 \to \dots \to x_n} \sum_i w_i \, s_i(x_1 \dots x_n)

    where :math:`s_i` is the share of unit i that :func:`top_walks` finds. Levels that are read out
    are summed; so are parallel edges. A graph of N nodes with d neighbors each has
    :math:`N d^{n-1}` walks, and all of them are held at once.

    Args:
        net: The network, of which no activation follows.
        data: A graph with ``x``, ``edge_index`` and, where the network looks at edges,
            ``edge_attr``.
        weights: What each unit counts ``(H,)``.

    Returns:
        Pairs of nodes and contribution, the largest in size first.

    Raises:
        KindError: If the network's outputs are no sums over walks.
        ShapeError: If a shape does not fit.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (6), (11), section 4.
    """
    chains = checked_chains(net)
    if weights.shape != (net.hidden_channels,):
        raise ShapeError("weights", weights.shape, f"({net.hidden_channels},), one a unit")
    edges, attributes = data.edge_index, getattr(data, "edge_attr", None)
    shares: dict[tuple[int, ...], float] = {}
    for level in getattr(net, "_read", (0,)):
        labels = labels_of(net, data, level)
        nodes, steps = walk_factors(chains[level], labels, edges, attributes, slice(None))
        walks, values = _all_walks(nodes, steps, edges)
        for walk, share in zip(walks.tolist(), (values @ weights).tolist(), strict=True):
            shares[tuple(walk)] = shares.get(tuple(walk), 0.0) + share
    every = [WalkContribution(walk, share) for walk, share in shares.items()]
    return sorted(every, key=lambda walk: -abs(walk.contribution))


def _all_walks(nodes: Tensor, steps: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return all walks ``(W, n)`` and the share of each in every unit ``(W, H)``."""
    source, target = edges
    order = source.argsort(stable=True)
    degrees = source.bincount(minlength=nodes.shape[-1])
    starts = degrees.cumsum(0) - degrees
    walks, values = torch.arange(nodes.shape[-1])[:, None], nodes[0].T
    for of_nodes, of_edges in zip(nodes[1:], steps, strict=True):
        ways = degrees[walks[:, -1]]
        longer = torch.arange(len(walks)).repeat_interleave(ways)
        place = torch.arange(len(longer)) - (ways.cumsum(0) - ways).repeat_interleave(ways)
        edge = order[starts[walks[longer, -1]] + place]
        walks = torch.cat((walks[longer], target[edge][:, None]), dim=1)
        values = values[longer] * of_edges.T[edge] * of_nodes.T[target[edge]]
    return walks, values
