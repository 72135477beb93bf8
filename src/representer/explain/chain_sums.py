"""A read-out of a string chain as a function of each step, from a forward and a backward pass.

    y = sum over t of r_t c_J[t]                                          the read-out
    y = fixed[t] + lam_t kept[t] + w_t ( linked[t] + sum_j slots_j[t] p_j[t] )    for every t

since a state is linear in each step while the others are fixed. With G_j[t] = dy/dc_j[t] and
M_j[t] = dy/dm_j[t], computed backwards from the last step,

    slots_j[t] = G_j[t] c_{j-1}[t-1]       multiply      (G_j[t] in add, G_j[t] m_{j-1}[t-1] in
    kept[t]    = sum_j G_j[t] c_j[t-1] + M_j[t] m_j[t-1]                            add_exact)
    linked[t]  = 0                         multiply      the part independent of the token:
                 sum_j G_j[t] c_{j-1}[t-1] + M_j[t] m_{j-1}[t-1]             add and add_exact
    fixed[t]   = the part of y read before step t, and that of n-grams that begin after it

Lei et al. 2017, (4) and Tables 4 and 5; ``functional.string_scan`` has the chain itself.

Shapes: T time, n order of the chain, J order of the read-out, H units.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from representer.functional.string_chain import Combine
from representer.ops import gated_scan


@dataclass(frozen=True)
class ChainSums:
    """The four parts of a read-out at every step, as defined in the module docstring.

    Attributes:
        fixed: ``(T, H)``.
        kept: ``(T, H)``.
        linked: ``(T, H)``.
        slots: ``(T, J, H)``.
    """

    fixed: Tensor
    kept: Tensor
    linked: Tensor
    slots: Tensor

    def total(self, products: Tensor, decay: Tensor, weight: Tensor) -> Tensor:
        """Return y ``(T, H)`` with the products, decay and weight of step t replaced in row t."""
        written = self.linked + (self.slots * products).sum(1)
        return self.fixed + decay * self.kept + weight * written


def chain_states(
    products: Tensor, decay: Tensor, weight: Tensor, combine: Combine = "multiply"
) -> tuple[Tensor, Tensor]:
    """Return c_1..c_n and the masses m_1..m_n of every prefix, each ``(T, n, H)``.

    Args:
        products: p_j[t] ``(T, n, H)``.
        decay: lam_t ``(T, H)``.
        weight: w_t ``(T, H)``.
        combine: Operation that extends an n-gram by a token.
    """
    one = torch.ones_like(decay)
    shorter, lighter = one if combine == "multiply" else 0 * one, one
    states, masses = [], []
    for p in products.unbind(1):
        token = {"multiply": shorter * p, "add": shorter + p, "add_exact": shorter + lighter * p}
        states.append(_run(weight * token[combine], decay))
        masses.append(_run(weight * lighter, decay))
        shorter, lighter = before(states[-1]), before(masses[-1])
    return torch.stack(states, dim=1), torch.stack(masses, dim=1)


def chain_sums(
    products: Tensor, decay: Tensor, weight: Tensor, read: Tensor, combine: Combine = "multiply"
) -> ChainSums:
    """Split a read-out of c_J into its parts at each step.

    Args:
        products: p_1..p_J of every step ``(T, J, H)``.
        decay: lam_t ``(T, H)``.
        weight: w_t ``(T, H)``.
        read: r_t ``(T, H)``, the weight of c_J[t] in the read-out.
        combine: Operation that extends an n-gram by a token.
    """
    states, masses = chain_states(products, decay, weight, combine)
    c, m = before(states), before(masses)
    one = torch.ones_like(c[:, :1])
    shorter = torch.cat((one if combine == "multiply" else 0 * one, c[:, :-1]), dim=1)
    lighter = torch.cat((one, m[:, :-1]), dim=1)
    G, M = _gradients(products, decay, weight, read, combine)
    head = {"multiply": shorter, "add": torch.ones_like(c), "add_exact": lighter}[combine]
    if combine == "multiply":
        linked, begun = torch.zeros_like(decay), products[:, 0] * G[:, 0]
    else:
        linked = (G * shorter + M * lighter).sum(1)
        begun = products[:, 0] * G[:, 0] + M[:, 0]
        if combine == "add":
            begun = (products * G).sum(1)
    earlier = before((read * states[:, -1]).cumsum(0))
    later = after((weight * begun).flip(0).cumsum(0).flip(0))
    return ChainSums(earlier + later, (G * c + M * m).sum(1), linked, G * head)


def tails(read: Tensor, decay: Tensor) -> Tensor:
    """Return the gradient of the read-out with respect to c_J at every step ``(T, H)``."""
    return _run(read, after(decay), reverse=True)


def _gradients(
    products: Tensor, decay: Tensor, weight: Tensor, read: Tensor, combine: Combine
) -> tuple[Tensor, Tensor]:
    """Return G and M, each ``(T, J, H)``."""
    order, next_decay = products.shape[1], after(decay)
    gradients, mass_gradients = [tails(read, decay)] * order, [torch.zeros_like(read)] * order
    for j in range(order - 2, -1, -1):
        p, upper = products[:, j + 1], gradients[j + 1]
        joined = p * upper if combine == "multiply" else upper
        gradients[j] = _run(after(weight * joined), next_decay, reverse=True)
        if combine == "add_exact":
            joined = p * upper + mass_gradients[j + 1]
            mass_gradients[j] = _run(after(weight * joined), next_decay, reverse=True)
    return torch.stack(gradients, dim=1), torch.stack(mass_gradients, dim=1)


def before(values: Tensor) -> Tensor:
    """Shift values by one step to later steps; the first becomes 0."""
    return torch.cat((torch.zeros_like(values[:1]), values[:-1]))


def after(values: Tensor) -> Tensor:
    """Shift values by one step to earlier steps; the last becomes 0."""
    return torch.cat((values[1:], torch.zeros_like(values[:1])))


def _run(added: Tensor, kept: Tensor, reverse: bool = False) -> Tensor:
    return gated_scan(added[:, None], kept[:, None], reverse=reverse)[0][:, 0]
