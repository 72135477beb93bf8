"""The walks that make up an output of a graph-kernel network, the largest first."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from representer.errors import KindError, MissingExtraError
from representer.explain.checks import check_index

if TYPE_CHECKING:
    from representer.nn import RandomWalkKernelNN, WLKernelNN
    from representer.nn.graph.walk_states import WalkStates


class WalkShare(NamedTuple):
    """One walk of a graph and what it adds.

    Attributes:
        positions: Its nodes, in order; a node may occur several times.
        contribution: Its share of the output.
    """

    positions: tuple[int, ...]
    contribution: float


@torch.no_grad()
def top_walks(
    net: RandomWalkKernelNN | WLKernelNN, data: Any, unit: int, k: int, level: int = -1
) -> list[WalkShare]:
    r"""Return the k walks that contribute most to an output of a graph, with their exact shares.

    .. math::
        h_G = \sum_{x_1 \to \dots \to x_n} \; \prod_{j=1}^n \langle w_j, f_{x_j} \rangle
              \prod_{j=2}^n \lambda_{x_{j-1}, x_j} \, \langle r_j, e_{x_{j-1} x_j} \rangle

    Each term is one walk: the matches of its nodes (and edges) with those of the unit's reference,
    times the decay of each edge, a gate having the value that it had on this graph. All terms sum
    to the output, before an activation of it. Of parallel edges each makes a walk.

    The search is exact: no walk outside of the list is larger in size than one inside. It takes
    time in proportion to the number of edges times n k.

    Args:
        net: The network. Of a ``WLKernelNN`` the walks of one level are returned, which sum to its
            part of the output; its features are the labels of that level.
        data: A graph with ``x``, ``edge_index`` and, where the network looks at edges,
            ``edge_attr``, such as PyG's ``Data``.
        unit: Which unit.
        k: How many walks.
        level: How often a ``WLKernelNN`` relabels the graph before; by default as often as it does.

    Returns:
        At most k pairs of nodes and contribution, the largest in size first. Zeros are listed too.

    Raises:
        KindError: If the network is another, adds nodes instead of multiplying them, or has an
            activation between the steps of a walk.
        ShapeError: If a shape does not fit.
        ArgumentError: If unit, k or level is out of range, or an edge joins a node that is not
            there.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (6), section 4, appendix D.
    """
    try:
        from representer.nn.graph.random_walk_kernel_nn import RandomWalkKernelNN
        from representer.nn.graph.wl_kernel_nn import WLKernelNN
    except ImportError as error:
        raise MissingExtraError("top_walks", "torch_geometric", "graph") from error

    if not isinstance(net, (RandomWalkKernelNN, WLKernelNN)):
        raise KindError("net", repr(net), "a RandomWalkKernelNN or WLKernelNN")
    k = check_index("k", k, 1)
    unit = check_index("unit", unit, 0, net.hidden_channels - 1)
    x, edges, attributes = data.x, data.edge_index, getattr(data, "edge_attr", None)
    if isinstance(net, WLKernelNN):
        level = check_index("level", level + net.depth * (level < 0), 0, net.depth - 1)
        net.node_states(x, edges, attributes, level=level)  # which checks the graph
        labels, walks = net.labels(x, edges, attributes, level=level), net._walks(level)
    else:
        net.node_states(x, edges, attributes)
        labels, walks = x, net.walks
    if walks.combine != "multiply" or walks.sigma != "identity":
        hint = "A sum, or an activation of a sum over neighbours, has no shares of walks."
        expected = "one with combine='multiply' and nonlinear=False"
        raise KindError("net", repr(net), expected, hint=hint)
    nodes, steps = _parts(walks, labels, edges, attributes, unit)
    return _best(nodes.tolist(), steps.tolist(), edges.T.tolist(), k)


def _parts(
    walks: WalkStates, x: Tensor, edges: Tensor, attributes: Tensor | None, unit: int
) -> tuple[Tensor, Tensor]:
    """Return the factors of every node ``(n, N)`` and of every edge ``(n - 1, E)``."""
    nodes = walks.weight[:, unit] @ x.T
    steps = nodes.new_ones(walks.order - 1, edges.shape[1])
    if walks.edge_weight is not None:
        assert attributes is not None
        steps = walks.edge_weight[:, unit] @ attributes.reshape(edges.shape[1], -1).T
    value = walks.decay_value()
    if value is not None:
        return nodes, steps * (value[unit] if value.dim() else value)
    assert walks.gate_weight is not None
    assert walks.gate_bias is not None
    of_source, of_target = walks.gate_weight[:, unit] @ x.T
    z = of_source[edges[0]] + of_target[edges[1]] + walks.gate_bias[unit]
    if walks.gate_edge is not None:
        assert attributes is not None
        z = z + attributes.reshape(edges.shape[1], -1) @ walks.gate_edge[unit]
    return nodes, steps * walks.gate_scale * torch.sigmoid(z)


def _best(
    nodes: list[list[float]], steps: list[list[float]], edges: list[list[int]], k: int
) -> list[WalkShare]:
    """Keep, for every length and node, the k largest walks that end there.

    Scaling all of them by one number changes no order of their sizes, so that no walk that is left
    out could become one of the largest.
    """

    def size(walk: WalkShare) -> float:
        return abs(walk.contribution)

    ending = [[WalkShare((v,), value)] for v, value in enumerate(nodes[0])]
    for row, step in zip(nodes[1:], steps, strict=True):
        longer: list[list[WalkShare]] = [[] for _ in row]
        for (u, v), weight in zip(edges, step, strict=True):
            factor = weight * row[v]
            longer[v] += [WalkShare((*at, v), value * factor) for at, value in ending[u]]
        ending = [nlargest(k, walks, key=size) for walks in longer]
    return nlargest(k, (walk for walks in ending for walk in walks), key=size)
