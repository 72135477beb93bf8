"""Chains whose gates are held: their states, their features, and the kernels of the features.

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

from representer.functional.strings import Combine
from representer.ops.gated_scan import gated_scan

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
            features=self.features[:, sequences],
            decay=self.decay[:, sequences, units],
            write=self.write[:, sequences, units],
            read=self.read[sequences, :, units],
            share=self.share[:, units],
        )

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
