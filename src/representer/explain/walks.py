"""The walks or chains that contribute most to an output of a graph-kernel network."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from representer.checks import check_integer
from representer.errors import KindError, MissingExtraError, ShapeError
from representer.functional.walks import tree_levels

if TYPE_CHECKING:
    from representer.nn import RandomWalkKernelNN, TreeKernelNN, WLKernelNN
    from representer.nn.graph.walks import WalkStates

    Network = RandomWalkKernelNN | TreeKernelNN | WLKernelNN


class WalkContribution(NamedTuple):
    """One walk of a graph and its contribution.

    Attributes:
        positions: Its nodes, in order; a node may occur several times.
        contribution: Its term of the output.
    """

    positions: tuple[int, ...]
    contribution: float


@torch.no_grad()
def top_walks(
    net: Network, data: Any, unit: int, k: int, level: int = -1
) -> list[WalkContribution]:
    r"""Return the k walks of largest absolute contribution to an output of a graph.

    .. math::
        h_G = \sum_{x_1 \to \dots \to x_n} \; \prod_{j=1}^n \langle w_j, f_{x_j} \rangle
              \prod_{j=2}^n \lambda_{x_{j-1}, x_j} \, \langle r_j, e_{x_{j-1} x_j} \rangle

    Each term is one walk: the products of its nodes (and edges) with those of the unit's reference,
    times the decay of each edge, where a gate is treated as a constant. The sum of all terms is the
    output before its activation. Parallel edges make separate walks.

    The search is exact and takes O(E n k) steps for E edges. The terms of a ``TreeKernelNN`` are
    those of the chains of a tree, with gaps on the way to the root.

    Args:
        net: The network. For a ``WLKernelNN``, the walks of one level are returned, whose sum is
            that level's part of the output; the features are the labels of that level.
        data: A graph with ``x``, ``edge_index`` and, if the network uses edge features,
            ``edge_attr``, such as PyG's ``Data``.
        unit: The unit.
        k: Number of walks or chains.
        level: Number of relabelings of a ``WLKernelNN`` before the walks; all by default.

    Returns:
        At most k pairs of nodes and contribution, in descending order of absolute contribution,
        zeros included.

    Raises:
        KindError: If the network is of another kind, adds nodes instead of multiplying them, or has
            an activation after each step of a walk.
        ShapeError: If a shape is wrong.
        ArgumentError: If unit, k or level is out of range, or an edge joins a node that does
            not exist.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (6), section 4, appendix D.
    """
    tree = _as_tree(net)
    chains = [] if tree else checked_chains(net)
    k = check_integer("k", k, 1)
    unit = check_integer("unit", unit, 0, net.hidden_channels - 1)
    if tree:
        tops, values = chain_terms(tree, data, slice(unit, unit + 1), k)
        return [*map(WalkContribution, tops, values[:, 0].tolist())]
    level = check_integer("level", level + len(chains) * (level < 0), 0, len(chains) - 1)
    walks, labels = chains[level], node_labels(net, data, level)
    edges, attributes = data.edge_index, getattr(data, "edge_attr", None)
    nodes, steps = walk_factors(walks, labels, edges, attributes, unit)
    return _best(nodes.tolist(), steps.tolist(), edges.T.tolist(), k)


def _layers() -> tuple[type[Any], ...]:
    """Return RandomWalkKernelNN, WLKernelNN and TreeKernelNN."""
    try:
        from representer.nn import RandomWalkKernelNN, TreeKernelNN, WLKernelNN
    except ImportError as error:
        raise MissingExtraError("top_walks", "torch_geometric", "graph") from error
    return RandomWalkKernelNN, WLKernelNN, TreeKernelNN


def _as_tree(net: Any) -> TreeKernelNN | None:
    """Return the network if its outputs are sums over the chains of a tree."""
    return net if isinstance(net, _layers()[-1]) else None


def checked_chains(net: Network) -> list[WalkStates]:
    """Return the chain of each level of a network, whose outputs must be sums over walks."""
    RandomWalkKernelNN, WLKernelNN, _ = _layers()
    if not isinstance(net, (RandomWalkKernelNN, WLKernelNN)):
        raise KindError("net", repr(net), "a RandomWalkKernelNN, WLKernelNN or TreeKernelNN")
    is_wl = isinstance(net, WLKernelNN)
    model: Any = net
    chains = [model.level_walks(level) for level in range(model.depth)] if is_wl else [model.walks]
    if model.combine != "multiply" or model.options.sigma != "identity":
        hint = "A sum, or an activation of a sum over neighbors, is not a sum over walks."
        expected = "one with combine='multiply' and nonlinear=False"
        raise KindError("net", repr(net), expected, hint=hint)
    return chains


def node_labels(net: Network, data: Any, level: int) -> Tensor:
    """Check the graph and return the labels of its nodes at a level."""
    model: Any = net
    x, edges = data.x, data.edge_index
    attributes = None if model.edge_dim is None else data.edge_attr
    if not hasattr(model, "labels"):
        model.node_states(x, edges, attributes)
        return x
    model.node_states(x, edges, attributes, level)
    return model.labels(x, edges, attributes, level=level)


def walk_factors(
    walks: WalkStates, x: Tensor, edges: Tensor, attributes: Tensor | None, unit: int | slice
) -> tuple[Tensor, Tensor]:
    """Return the factor of each node ``(n, N)`` and edge ``(n - 1, E)`` at each step of a walk.

    A slice of units adds an axis before the last.
    """
    nodes = walks.nodes[:, unit] @ x.T
    features = attributes if attributes is None or attributes.dim() == 2 else attributes[:, None]
    gates = walks.edge_gates(x, edges, features)[:, unit].movedim(0, -1)
    if walks.edges is None:
        return nodes, gates.expand(len(nodes) - 1, *gates.shape)
    assert features is not None
    return nodes, walks.edges[:, unit] @ features.T * gates


def _best(
    nodes: list[list[float]], steps: list[list[float]], edges: list[list[int]], k: int
) -> list[WalkContribution]:
    """Return the k largest walks, keeping the k largest of every length that end at each node.

    All walks that end at a node are extended by the same factors, so a discarded walk cannot become
    one of the largest.
    """

    def size(walk: WalkContribution) -> float:
        return abs(walk.contribution)

    ending = [[WalkContribution((v,), value)] for v, value in enumerate(nodes[0])]
    for row, step in zip(nodes[1:], steps, strict=True):
        longer: list[list[WalkContribution]] = [[] for _ in row]
        for (u, v), weight in zip(edges, step, strict=True):
            factor = weight * row[v]
            longer[v] += [WalkContribution((*walk, v), value * factor) for walk, value in ending[u]]
        ending = [nlargest(k, walks, key=size) for walks in longer]
    return nlargest(k, (walk for walks in ending for walk in walks), key=size)


# The contributions of all walks of a graph to a weighted sum of a network's outputs.


@torch.no_grad()
def walk_readout(net: Network, data: Any, weights: Tensor) -> list[WalkContribution]:
    r"""Return all walks of a graph with their contributions to a read-out.

    .. math::
        \sum_i w_i h_G[i] = \sum_{x_1 \to \dots \to x_n} \sum_i w_i \, s_i(x_1 \dots x_n)

    where :math:`s_i` is the contribution to unit i as in :func:`top_walks`. The sum includes all
    levels of the read-out, and parallel edges. A graph of N nodes with d neighbors each has
    :math:`N d^{n-1}` walks, which are all held in memory. The terms of a ``TreeKernelNN`` are
    those of the chains of a tree, with gaps on the way to the root.

    Args:
        net: The network; the read-out is that of its outputs before any activation.
        data: A graph with ``x``, ``edge_index`` and, if the network uses edge features,
            ``edge_attr``.
        weights: Weight of each unit ``(H,)``, or of the units of each level of a ``WLKernelNN``
            that sums over them ``(levels · H,)``.

    Returns:
        Pairs of nodes and contribution, in descending order of absolute contribution.

    Raises:
        KindError: If the network's outputs are not sums over walks.
        ShapeError: If a shape is wrong.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (6), (11), section 4.
    """
    tree = _as_tree(net)
    chains = [] if tree else checked_chains(net)
    levels = getattr(net, "read_levels", (0,))
    if weights.shape not in ((net.hidden_channels,), (len(levels) * net.hidden_channels,)):
        raise ShapeError("weights", weights.shape, f"({net.hidden_channels},), one per unit")
    if tree:
        tops, values = chain_terms(tree, data)
        terms = [*map(WalkContribution, tops, (values @ weights).tolist())]
        return sorted(terms, key=lambda walk: -abs(walk.contribution))
    edges, attributes = data.edge_index, getattr(data, "edge_attr", None)
    total: dict[tuple[int, ...], float] = {}
    by_level = weights.reshape(-1, net.hidden_channels).expand(len(levels), -1)
    for level, of_level in zip(levels, by_level, strict=True):
        labels = node_labels(net, data, level)
        nodes, steps = walk_factors(chains[level], labels, edges, attributes, slice(None))
        walks, values = _all_walks(nodes, steps, edges)
        for walk, value in zip(walks.tolist(), (values @ of_level).tolist(), strict=True):
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
    # each walk is repeated for the edges that leave its last node: in `order` they are neighbors
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


# The chains of a tree, and their contributions to the outputs of a tree-kernel network.

Chain = tuple[int, ...]
Terms = tuple[list[Chain], Tensor]  # chains, and their contributions to each unit (M, H)


@torch.no_grad()
def chain_terms(
    net: TreeKernelNN, data: Any, units: slice = slice(None), k: int | None = None
) -> Terms:
    r"""Return the chains of a tree and the contribution of each to the units before an activation.

    .. math::
        h_T = \sum_{v_1 < \dots < v_n} \prod_{j=1}^n \langle w_j, x_{v_j} \rangle
              \prod_{j=2}^n a_j \prod_{e} \lambda_e

    where the last product is over the edges to the nodes on the way to the root that the chain
    skips, :math:`a_j` is 1 unless the network compares positions, and a gate is treated as a
    constant: its value for this tree.
    """
    x, edges = data.x, data.edge_index
    lam = net.edge_decays(x, edges)[:, units]
    factors = net.edge_factors(edges, len(x))
    products = torch.einsum("vd,hjd->vjh", x, net.references()[units])
    below: dict[int, list[Terms]] = {}
    roots: list[int] = []
    into: list[list[tuple[int, int]]] = [[] for _ in x]
    for e, (u, v) in enumerate(edges.T.tolist()):
        into[v].append((u, e))
    for level in tree_levels(edges, len(x)):
        roots = level.nodes.tolist()  # those of the last level
        for v in roots:
            rows = []
            for j, p in enumerate(products[v]):
                chains, values = ([(v,)], [p[None]]) if j == 0 else ([], [p.new_zeros(0, len(p))])
                for u, e in into[v]:
                    kept, terms = below[u][j]
                    chains, values = chains + kept, [*values, lam[e] * terms]
                    if j:
                        shorter, terms = below[u][j - 1]
                        step = p if factors is None else p * factors[e, j - 1, units]
                        chains, values = (
                            chains + [(*c, v) for c in shorter],
                            [*values, step * terms],
                        )
                rows.append(_largest(chains, torch.cat(values), k))
            for u, _ in into[v]:  # which has no other parent, so that memory holds one front
                del below[u]
            below[v] = rows
    every = [below[v][-1] for v in roots]
    none = products.new_zeros(0, lam.shape[1])
    chains = [chain for chains, _ in every for chain in chains]
    return _largest(chains, torch.cat([none, *(values for _, values in every)]), k)


def _largest(chains: list[Chain], values: Tensor, k: int | None) -> Terms:
    """Return the k largest terms: all of a node are extended by the same factors."""
    if k is None:
        return chains, values
    best = values[:, 0].abs().topk(min(k, len(chains))).indices
    return [chains[i] for i in best.tolist()], values[best]
