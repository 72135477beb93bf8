"""Chains and walks with held gates: their states, their features, and kernels of the features.

With the gates of a sequence held, a state is linear in the features of its reference,

    c_j[t] = lam_t c_j[t-1] + v_t (c_{j-1}[t-1] * p_j[t]),  p_j[t] = <phi_t, r_j>,  c_0 = 1
    F_j[t] = lam_t F_j[t-1] + v_t (F_{j-1}[t-1] (x) phi_t),  c_j = <F_j, r_1 (x) .. (x) r_j>

or with a sum in place of the product ("add", c_0 = 0) and F_{j-1} concatenated with phi_t, which
"add_exact" multiplies by the mass m_{j-1}[t-1]. A kernel is the inner product of the features of
two sequences. Where they are many, it is computed from all pairs of steps,

    K_j = D_x (v_x v_y' (S o K_{j-1} shifted by a step along both axes)) D_y',   S = <phi_s, phi_t>

in which D is the recurrence with the decays. Memory cells are chains of order 1, in which v is the
input gate. Lei et al. 2017, (3), (4), section 4; Liang et al. 2019, (9), (10), (16).

Shapes: T time, B sequences, F features of a step, H units, J read orders.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from torch import Tensor

from representer.functional import NONLINEARITIES, walk_states, walks_end
from representer.functional.strings import Combine
from representer.functional.walks import tree_levels
from representer.ops.gated_scan import gated_scan
from representer.ops.walk_aggregate import walk_aggregate

ENTRIES = 2**20  # of a tensor of all pairs of steps


def before(states: Tensor) -> Tensor:
    """Return the states before each step, zeros before the first."""
    return torch.cat((torch.zeros_like(states[:1]), states[:-1]))


def chain_states(
    products: Tensor, decay: Tensor, write: Tensor, combine: Combine, with_mass: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """Return c_1 … c_n and, if wanted, the masses m_1 … m_n of every step, each ``(T, B, H)``.

    Given the shorter states, those of one length are an elementwise recurrence, so n scans compute
    all steps. The products are ``(T, B, n, H)``; lam is ``()``, ``(H,)`` or ``(T, B, H)``, to which
    ``write`` broadcasts.
    """
    m = torch.ones_like(products[:, :, 0])
    c = m if combine == "multiply" else torch.zeros_like(m)
    states: list[Tensor] = []
    masses: list[Tensor] = []
    for p in products.unbind(2):
        joined = c * p if combine == "multiply" else c + (m * p if combine == "add_exact" else p)
        states.append(gated_scan(write * joined, decay)[0])
        c = before(states[-1])
        if with_mass:
            masses.append(gated_scan(write * m, decay)[0])
            m = before(masses[-1])
    return states, masses


class HeldChain(NamedTuple):
    """The gates and features of padded sequences; padding changes no state."""

    features: Tensor  # phi of each step (T, B, F)
    decay: Tensor  # lam of each step (T, B, H), 1 beyond the end of a sequence
    write: Tensor  # v of each step (T, B, H), 0 beyond the end
    read: Tensor  # factors of the states of the last step, such as an output gate (B, J, H)
    share: Tensor  # non-negative weights of the read orders (J, H)
    orders: tuple[int, ...]  # the lengths j of the states that are read
    combine: Combine = "multiply"

    @classmethod
    def of(cls, features: Tensor, decay: Tensor, write: Tensor, lengths: Tensor) -> Self:
        """Return a chain of order 1 of padded sequences, which is read as it is."""
        steps = torch.arange(len(features), device=features.device)[:, None, None]
        is_real = steps < lengths[:, None]
        decay, write = torch.where(is_real, decay, 1.0), torch.where(is_real, write, 0.0)
        ones = torch.ones_like(decay[:1].transpose(0, 1))
        return cls(features, decay, write, ones, torch.ones_like(ones[0]), (1,))

    @property
    def order(self) -> int:
        """Return n, the length of the longest n-gram."""
        return self.orders[-1]

    @property
    def objects(self) -> int:
        """Return B."""
        return self.decay.shape[1]

    @property
    def size(self) -> int:
        """Return the number of steps of all sequences, with padding."""
        return self.decay[..., 0].numel()

    @property
    def width(self) -> int:
        """Return the number of features of a unit."""
        size, is_product = self.features.shape[2], self.combine == "multiply"
        return sum(size**j if is_product else size * j for j in self.orders)

    @property
    def pair_cost(self) -> float:
        """Return the time of a pair of steps, in measured multiples of that of a feature."""
        features, units = self.features.shape[2], self.decay.shape[2]
        return (features + units) / 3 + 35 * units * (self.order - 1)

    def of_units(self, units: slice, sequences: slice = slice(None)) -> HeldChain:
        """Return the chain of some units, and of some sequences."""
        return self._replace(
            features=self.features[:, sequences], decay=self.decay[:, sequences, units],
            write=self.write[:, sequences, units], read=self.read[sequences, :, units],
            share=self.share[:, units],
        )  # fmt: skip

    def to(self, like: Tensor) -> HeldChain:
        """Return the chain with the dtype and device of a tensor."""
        names = "features", "decay", "write", "read", "share"
        return self._replace(**{name: getattr(self, name).to(like) for name in names})

    def states(self, references: Tensor) -> Tensor:
        """Return what is read of each unit ``(B, H)``, with references ``(n, H, F)``."""
        products = torch.einsum("tbf,nhf->tbnh", self.features, references)
        states, _ = chain_states(products, *self[1:3], self.combine, self.combine == "add_exact")
        last = torch.stack([states[j - 1][-1] for j in self.orders], dim=1)
        return (self.share * self.read * last).sum(1)

    def maps(self) -> Tensor:
        """Return the features of each unit ``(B, H, D)``, of all read orders, times √share."""
        kept, rows, m = self._kept(), self.write.new_ones(*self.write.shape, 1), self._ones()
        rows = rows if self.combine == "multiply" else rows[..., :0]
        maps = []
        for j in range(1, self.order + 1):
            if j in self.orders:
                maps.append(self._summed(kept, rows, m) * self._factor(j)[..., None])
            if j < self.order:
                joined = self._extended(rows, m)
                rows = before(self._scan(self.write[..., None] * joined, self.decay[..., None]))
                m = self._heavier(m)
        return torch.cat(maps, dim=-1)

    def kernels(self, other: HeldChain) -> Tensor:
        """Return the sum over the units of the kernel of all pairs of sequences ``(B, B')``."""
        units = self.decay.shape[2] if self.order > 1 else 1
        size = max(1, ENTRIES // (len(self.decay) * len(other.decay) * units))  # limits memory
        every = slice(None)
        parts = [other.of_units(every, slice(i, i + size)) for i in range(0, other.objects, size)]
        rows = [self.of_units(every, slice(b, b + 1)) for b in range(self.objects)]
        return torch.stack([torch.cat([row._with(rows_of) for rows_of in parts]) for row in rows])

    def _with(self, other: HeldChain) -> Tensor:
        """Return the kernels of a single sequence with others ``(B',)``."""
        S = torch.einsum("tf,sbf->tsb", self.features[:, 0], other.features)[..., None]
        kept_x, kept_y, m_x, m_y = self._kept()[:, 0], other._kept(), self._ones(), other._ones()
        K = torch.ones_like(S) if self.combine == "multiply" else torch.zeros_like(S)
        total = S.new_zeros(S.shape[2])
        for j in range(1, self.order + 1):
            if self.combine == "multiply":
                joined = S * K
            else:
                joined = K + (S if self.combine == "add" else S * m_x[:, None] * m_y[None])
            if j in self.orders:
                left, right = kept_x * self._factor(j)[0], kept_y * other._factor(j)
                if joined.shape[-1] == 1:  # the same for all units
                    weights = torch.einsum("th,sbh->tsb", left, right)
                    total = total + (weights * joined[..., 0]).sum((0, 1))
                else:
                    total = total + torch.einsum("th,sbh,tsbh->b", left, right, joined)
            if j < self.order:
                u = self.write[:, None] * other.write[None] * joined
                u = before(self._scan(u, self.decay[:, None])).transpose(0, 1)
                K = before(self._scan(u, other.decay[:, None])).transpose(0, 1)
                m_x, m_y = self._heavier(m_x), other._heavier(m_y)
        return total

    def _kept(self) -> Tensor:
        """Return v_t times the decays after t ``(T, B, H)``."""
        later = torch.cat((self.decay[1:], torch.ones_like(self.decay[:1])))
        return self.write * later.flip(0).cumprod(0).flip(0)

    def _factor(self, order: int) -> Tensor:
        """Return the factor of a read order, with the root of its share ``(B, H)``."""
        k = self.orders.index(order)
        return self.read[:, k] * self.share[k].sqrt()

    def _ones(self) -> Tensor:
        return torch.ones_like(self.write)

    def _heavier(self, mass: Tensor) -> Tensor:
        """Return m_j from m_{j−1}, before each step; 1 where tokens are not weighted by it."""
        if self.combine != "add_exact":
            return mass
        return before(gated_scan(self.write * mass, self.decay)[0])

    def _extended(self, rows: Tensor, mass: Tensor) -> Tensor:
        """Return the features of all n-grams that end at each step ``(T, B, H, D)``."""
        phi = self.features[:, :, None]
        if self.combine == "multiply":
            return (rows[..., None] * phi[..., None, :]).flatten(3)
        return torch.cat((rows, mass[..., None] * phi), dim=-1)

    def _summed(self, kept: Tensor, rows: Tensor, mass: Tensor) -> Tensor:
        """Return the sum of `_extended` over the steps, times ``kept``, without its memory."""
        if self.combine == "multiply":
            weighted = (kept[..., None] * rows).permute(1, 2, 3, 0)
            return (
                (weighted.flatten(1, 2) @ self.features.transpose(0, 1))
                .unflatten(1, weighted.shape[1:3])
                .flatten(2)
            )
        summed = torch.einsum("tbh,tbf->bhf", kept * mass, self.features)
        return torch.cat(((kept[..., None] * rows).sum(0), summed), dim=-1)

    @staticmethod
    def _scan(u: Tensor, decay: Tensor) -> Tensor:
        """Run the recurrence over the first axis; the others broadcast to those of u."""
        return gated_scan(u.flatten(1, -2), decay.expand_as(u).flatten(1, -2))[0].view(u.shape)


# Walks of graphs, and chains of trees, whose gates are held: their states, features and kernels.
#
# With the gate lam of every edge held, a state is linear in the features of its reference,
#
#     F_1[v] = f_v,   F_j[v] = sum_{e = (u, v)} lam_e F_{j-1}[u] (x) a_e (x) f_v
#     K_j(v, v') = <f_v, f_v'> o sum_e sum_e' lam_e lam_e' <a_e, a_e'> sigma(K_{j-1}(u, u'))
#
# without a_e for a layer without edge features; "add" is the sum ∘ in place of the product, and
# concatenates the sum over the edges with f_v. The chains of a tree may skip nodes, at the cost of
# the decay of the edges above them: the sums are then over all descendants, and the value is of
# the roots. Lei et al. 2017, (6)-(8), section 4, appendix E.
#
# Shapes: N nodes, d features of a node, E edges, K features of an edge, H units, G graphs.


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
