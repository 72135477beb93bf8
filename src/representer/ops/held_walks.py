"""Walks of graphs whose gates are held: their states, their features, and the kernels of these.

With the gate lam of every edge held, a state is linear in the features of its reference,

    F_1[v] = f_v,   F_j[v] = sum_{e = (u, v)} lam_e F_{j-1}[u] (x) a_e (x) f_v
    K_j(v, v') = <f_v, f_v'> o sum_e sum_e' lam_e lam_e' <a_e, a_e'> sigma(K_{j-1}(u, u'))

without a_e for a layer without edge features; "add" is the sum ∘ in place of the product, and
concatenates the sum over the edges with f_v. Lei et al. 2017, (6)-(8), section 4, appendix E.

Shapes: N nodes, d features of a node, E edges, K features of an edge, H units, G graphs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from representer.functional import NONLINEARITIES, walk_states, walks_end
from representer.ops.walk_aggregate import walk_aggregate


class HeldWalks(NamedTuple):
    """The gates and features of the graphs of a batch, at one level of a layer."""

    nodes: Tensor  # f (N, d)
    edge_index: Tensor  # (2, E)
    gates: Tensor  # lam of every edge (E, H)
    edges: Tensor | None  # a (E, K)
    of_graph: Tensor  # the graph of each node (N,)
    graphs: int  # G
    order: int  # n
    combine: str = "multiply"
    sigma: str = "identity"

    def to(self, like: Tensor) -> HeldWalks:
        """Return the walks with the dtype of a tensor."""
        edges = None if self.edges is None else self.edges.to(like)
        return self._replace(nodes=self.nodes.to(like), gates=self.gates.to(like), edges=edges)

    def width(self) -> int:
        """Return the number of features of a unit; 0 if they are not a few products."""
        d, K = self.nodes.shape[1], 1 if self.edges is None else self.edges.shape[1]
        if self.sigma != "identity":
            return 0
        if self.combine == "multiply":
            return d**self.order * K ** (self.order - 1)
        return d * sum(K**j for j in range(self.order))

    def states(self, references: Tensor, edges: Tensor | None) -> Tensor:
        """Return the state of each graph and unit ``(G, H)``.

        Args:
            references: Nodes of the references ``(n, H, d)``.
            edges: Their edges ``(n − 1, H, K)``, if the layer has edge features.
        """
        products = torch.einsum("nd,jhd->njh", self.nodes, references)
        of_edges = None
        if self.edges is not None and edges is not None:
            of_edges = torch.einsum("ek,jhk->ejh", self.edges, edges)
        states = walk_states(
            products, self.edge_index, decay=1.0, combine=self.combine, activation=self.sigma,
            edge_products=of_edges, gates=self.gates,
        )  # fmt: skip
        return self._summed(states[:, -1])

    def maps(self, units: slice) -> Tensor:
        """Return the features of some units ``(G, H, D)``."""
        (source, target), gates = self.edge_index, self.gates[:, units, None]
        ends, f = self._ends(), self.nodes[:, None]
        rows = f.expand(-1, gates.shape[1], -1)
        for j in range(1, self.order):
            messages = gates * rows[source]
            if self.edges is not None:
                messages = (messages[..., None] * self.edges[:, None, None]).flatten(2)
            sums = messages.new_zeros(len(f), *messages.shape[1:]).index_add(0, target, messages)
            if self.combine == "multiply":
                rows = (sums[..., None] * f[:, :, None]).flatten(2)
            else:
                rows = torch.cat((sums, f.expand(-1, gates.shape[1], -1)), dim=2)
                rows = torch.where(ends[:, j, None, None], rows, 0.0)
        return self._summed(rows)

    def kernels(self, other: HeldWalks, units: slice) -> Tensor:
        """Return the sum over some units of the kernel of all pairs of graphs ``(G, G')``."""
        S, sigma = self.nodes @ other.nodes.T, NONLINEARITIES[self.sigma].value
        both_end = self._ends()[:, None] & other._ends()[None]
        total = torch.zeros_like(S)
        for own, others in zip(self.gates.T[units], other.gates.T[units], strict=True):
            K = S
            for j in range(1, self.order):
                sums = self._neighbors(other, sigma(K), own[:, None], others[:, None])
                K = S * sums if self.combine == "multiply" else S + sums
                if self.combine == "add" or self.sigma != "identity":
                    K = torch.where(both_end[..., j], K, 0.0)
            total = total + K
        return other._summed(self._summed(total).T).T

    def _neighbors(self, other: HeldWalks, K: Tensor, own: Tensor, others: Tensor) -> Tensor:
        """Return the sum over the neighbors of both nodes, weighted by gates and edges."""
        pairs = [(own, others)]
        if self.edges is not None and other.edges is not None:
            pairs = [(own * a[:, None], others * b[:, None])
                     for a, b in zip(self.edges.T, other.edges.T, strict=True)]  # fmt: skip
        total = torch.zeros_like(K)
        for left, right in pairs:
            columns = _weighted(K.T, other.edge_index, right).T
            total = total + _weighted(columns, self.edge_index, left)
        return total

    def _ends(self) -> Tensor:
        return walks_end(self.edge_index, len(self.nodes), self.order)

    def _summed(self, values: Tensor) -> Tensor:
        """Return the sums over the nodes of each graph ``(G, …)`` of values ``(N, …)``."""
        zeros = values.new_zeros(self.graphs, *values.shape[1:])
        return zeros.index_add(0, self.of_graph, values)


def _weighted(x: Tensor, edge_index: Tensor, weights: Tensor) -> Tensor:
    """Return the sum over the neighbors of every node, with a weight of each edge ``(E, 1)``."""
    factor = x.new_ones(x.shape[1], 1)
    return walk_aggregate(x.contiguous(), edge_index, edge_attr=weights, factor=factor)
