"""Walks of graphs, and chains of trees, whose gates are held: their states, features and kernels.

With the gate lam of every edge held, a state is linear in the features of its reference,

    F_1[v] = f_v,   F_j[v] = sum_{e = (u, v)} lam_e F_{j-1}[u] (x) a_e (x) f_v
    K_j(v, v') = <f_v, f_v'> o sum_e sum_e' lam_e lam_e' <a_e, a_e'> sigma(K_{j-1}(u, u'))

without a_e for a layer without edge features; "add" is the sum ∘ in place of the product, and
concatenates the sum over the edges with f_v. The chains of a tree may skip nodes, at the cost of
the decay of the edges above them: the sums are then over all descendants, and the value is that of
the roots. Lei et al. 2017, (6)-(8), section 4, appendix E.

Shapes: N nodes, d features of a node, E edges, K features of an edge, H units, G graphs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from representer.functional import NONLINEARITIES, walk_states, walks_end
from representer.functional.trees import tree_levels
from representer.ops.walk_aggregate import walk_aggregate


class HeldWalks(NamedTuple):
    """The gates and features of the graphs of a batch, at one level of a layer."""

    features: Tensor  # f of each node (N, d)
    edge_index: Tensor  # (2, E)
    gates: Tensor  # lam of every edge (E, H)
    edges: Tensor | None  # a (E, K)
    of_graph: Tensor  # the graph of each node (N,)
    objects: int  # G
    order: int  # n
    combine: str = "multiply"
    sigma: str = "identity"
    decays: Tensor | None = None  # of the edges of a tree above nodes that a chain skips (E, H)

    def to(self, like: Tensor) -> HeldWalks:
        """Return the walks with the dtype of a tensor."""
        names = [name for name in ("features", "gates", "edges", "decays") if _has(self, name)]
        return self._replace(**{name: getattr(self, name).to(like) for name in names})

    def of_units(self, units: slice) -> HeldWalks:
        """Return the gates of some units."""
        decays = None if self.decays is None else self.decays[:, units]
        return self._replace(gates=self.gates[:, units], decays=decays)

    @property
    def size(self) -> int:
        """Return the number of nodes."""
        return len(self.features)

    @property
    def width(self) -> int:
        """Return the number of features of a unit; 0 if they are not a few products."""
        d, K = self.features.shape[1], 1 if self.edges is None else self.edges.shape[1]
        if self.sigma != "identity":
            return 0
        if self.combine == "multiply":
            return d**self.order * K ** (self.order - 1)
        return d * sum(K**j for j in range(self.order))

    @property
    def pair_cost(self) -> float:
        """Return the time of a pair of nodes, in measured multiples of that of a feature."""
        return self.features.shape[1] + self.gates.shape[1] * (8 * self.order - 7)

    def states(self, references: Tensor, edges: Tensor | None = None) -> Tensor:
        """Return the state of each graph and unit ``(G, H)``.

        The nodes of the references are ``(n, H, d)``, their edges ``(n − 1, H, K)`` if the layer
        has edge features.
        """
        products = torch.einsum("nd,jhd->njh", self.features, references)
        of_edges = None
        if self.edges is not None and edges is not None:
            of_edges = torch.einsum("ek,jhk->ejh", self.edges, edges)
        if self.decays is None:
            states = walk_states(
                products, self.edge_index, decay=1.0, combine=self.combine, activation=self.sigma,
                edge_products=of_edges, gates=self.gates,
            )  # fmt: skip
            return self._summed(states[:, -1])
        (source, target), c = self.edge_index, products[:, 0]
        for j in range(1, self.order):
            messages = self._with_descendants(c, self.decays)[source]
            messages = messages if of_edges is None else messages * of_edges[:, j - 1]
            c = products[:, j] * torch.zeros_like(c).index_add(0, target, messages)
        return self._summed(self._read(c, self.decays))

    def maps(self) -> Tensor:
        """Return the features of each unit ``(G, H, D)``."""
        (source, target), gates = self.edge_index, self.gates[..., None]
        ends, f = self._ends(), self.features[:, None]
        rows = f.expand(-1, gates.shape[1], -1)
        decays = None if self.decays is None else self.decays[..., None]
        for j in range(1, self.order):
            messages = gates * self._with_descendants(rows, decays)[source]
            if self.edges is not None:
                messages = (messages[..., None] * self.edges[:, None, None]).flatten(2)
            sums = messages.new_zeros(len(f), *messages.shape[1:]).index_add(0, target, messages)
            if self.combine == "multiply":
                rows = (sums[..., None] * f[:, :, None]).flatten(2)
            else:
                rows = torch.cat((sums, f.expand(-1, gates.shape[1], -1)), dim=2)
                rows = torch.where(ends[:, j, None, None], rows, 0.0)
        return self._summed(self._read(rows, decays))

    def kernels(self, other: HeldWalks) -> Tensor:
        """Return the sum over the units of the kernel of all pairs of graphs ``(G, G')``."""
        S, sigma = self.features @ other.features.T, NONLINEARITIES[self.sigma].value
        both_end = self._ends()[:, None] & other._ends()[None]
        total = torch.zeros_like(S)
        for i in range(self.gates.shape[1]):
            K, (unit, others) = S, (side.of_units(slice(i, i + 1)) for side in (self, other))
            for j in range(1, self.order):
                below = unit._with_descendants(sigma(K), unit.decays)
                below = others._with_descendants(below.T, others.decays).T
                sums = self._neighbors(other, below, unit.gates, others.gates)
                K = S * sums if self.combine == "multiply" else S + sums
                if self.combine == "add" or self.sigma != "identity":
                    K = torch.where(both_end[..., j], K, 0.0)
            total = total + other._read(self._read(K, unit.decays).T, others.decays).T
        return other._summed(self._summed(total).T).T

    def _neighbors(self, other: HeldWalks, K: Tensor, unit: Tensor, others: Tensor) -> Tensor:
        """Return the sum over the neighbors of both nodes, weighted by gates and edges."""
        pairs = [(unit, others)]
        if self.edges is not None and other.edges is not None:
            pairs = [(unit * a[:, None], others * b[:, None])
                     for a, b in zip(self.edges.T, other.edges.T, strict=True)]  # fmt: skip
        total = torch.zeros_like(K)
        for left, right in pairs:
            columns = _weighted(K.T, other.edge_index, right).T
            total = total + _weighted(columns, self.edge_index, left)
        return total

    def _with_descendants(self, values: Tensor, decays: Tensor | None) -> Tensor:
        """Add to each node of a tree its descendants ``(N, …)``, times the decays in between."""
        if decays is None:
            return values
        below, parts, order = values[:0], [], []
        for level in tree_levels(self.edge_index, len(values)):
            kept = decays[level.edges] * below[level.source]
            below = values[level.nodes].index_add(0, level.target, kept)
            parts.append(below)
            order.append(level.nodes)
        return torch.cat(parts)[torch.cat(order).argsort()] if parts else values

    def _read(self, values: Tensor, decays: Tensor | None) -> Tensor:
        """Return what a graph sums over its nodes: of a tree, the values of roots."""
        if decays is None:
            return values
        is_inner = torch.zeros_like(values[:, :1]).index_fill(0, self.edge_index[0], 1.0) > 0
        return torch.where(is_inner, 0.0, self._with_descendants(values, decays))

    def _ends(self) -> Tensor:
        return walks_end(self.edge_index, len(self.features), self.order)

    def _summed(self, values: Tensor) -> Tensor:
        """Return the sums over the nodes of each graph ``(G, …)`` of values ``(N, …)``."""
        zeros = values.new_zeros(self.objects, *values.shape[1:])
        return zeros.index_add(0, self.of_graph, values)


def _weighted(x: Tensor, edge_index: Tensor, weights: Tensor) -> Tensor:
    """Return the sum over the neighbors of every node, with a weight of each edge ``(E, 1)``."""
    factor = x.new_ones(x.shape[1], 1)
    return walk_aggregate(x.contiguous(), edge_index, edge_attr=weights, factor=factor)


def _has(held: HeldWalks, name: str) -> bool:
    return getattr(held, name) is not None
