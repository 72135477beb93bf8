"""The products, decays and states of a string-kernel layer for one sequence, in float64.

Contributions are computed in float64 for every dtype of the layer, so that they sum to the state up
to the rounding error of the layer itself.

Shapes: T time, n order, H units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from representer.checks import check_integer
from representer.errors import KindError
from representer.explain.checks import check_sequence
from representer.functional import StringChain, string_scan
from representer.functional.strings import Combine
from representer.nn import StringKernelRNN
from representer.ops import gated_scan

# A read-out of a string chain as a function of each step, from a forward and a backward pass.
#
#     y = sum over t of r_t c_J[t]                                          the read-out
#     y = fixed[t] + lam_t kept[t] + w_t ( linked[t] + sum_j slots_j[t] p_j[t] )    for every t
#
# since a state is linear in each step while the others are fixed. With G_j[t] = dy/dc_j[t] and
# M_j[t] = dy/dm_j[t], computed backwards from the last step,
#
#     slots_j[t] = G_j[t] c_{j-1}[t-1]       multiply      (G_j[t] in add, G_j[t] m_{j-1}[t-1] in
#     kept[t]    = sum_j G_j[t] c_j[t-1] + M_j[t] m_j[t-1]                            add_exact)
#     linked[t]  = 0                         multiply      the part independent of the token:
#                  sum_j G_j[t] c_{j-1}[t-1] + M_j[t] m_{j-1}[t-1]             add and add_exact
#     fixed[t]   = the part of y read before step t, and that of n-grams that begin after it
#
# Lei et al. 2017, (4) and Tables 4 and 5; ``functional.string_scan`` has the chain itself.
#
# Shapes: T time, n order of the chain, J order of the read-out, H units.


@dataclass(frozen=True)
class ChainSums:
    """The four parts of a read-out at every step, as defined in the module docstring."""

    fixed: Tensor  # ``(T, H)``
    kept: Tensor  # ``(T, H)``
    linked: Tensor  # ``(T, H)``
    slots: Tensor  # ``(T, J, H)``

    def total(self, products: Tensor, decay: Tensor, weight: Tensor) -> Tensor:
        """Return y ``(T, H)`` with the products, decay and weight of step t replaced in row t."""
        written = self.linked + (self.slots * products).sum(1)
        return self.fixed + decay * self.kept + weight * written


def chain_states(
    products: Tensor, decay: Tensor, weight: Tensor, combine: Combine = "multiply"
) -> tuple[Tensor, Tensor]:
    """Return c_1..c_n and the masses m_1..m_n of every prefix, each ``(T, n, H)``.

    The products p_j[t] are ``(T, n, H)``, decay and weight ``(T, H)``.
    """
    ones = torch.ones_like(decay)
    shorter, lighter = ones if combine == "multiply" else 0 * ones, ones
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

    The products p_1..p_J are ``(T, J, H)``, and ``read`` r_t ``(T, H)`` is the weight of c_J[t] in
    the read-out.
    """
    states, masses = chain_states(products, decay, weight, combine)
    c, m = before(states), before(masses)
    ones = torch.ones_like(c[:, :1])
    shorter = torch.cat((ones if combine == "multiply" else 0 * ones, c[:, :-1]), dim=1)
    lighter = torch.cat((ones, m[:, :-1]), dim=1)
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


@dataclass(frozen=True)
class StringParts:
    """The products and decays of every step."""

    chain: StringChain
    products: Tensor  # p_j[t] ``(T, n, H)``
    decay: Tensor  # lam_t ``(T, H)``
    highway: Tensor | None = None  # the highway's gate ``(T, H)``, or None

    @property
    def weight(self) -> Tensor:
        """Return w_t ``(T, H)``, the weight of a new term: 1 − lam_t in Table 4, else 1."""
        is_weighted = self.chain.normalized == "paper"
        return 1 - self.decay if is_weighted else torch.ones_like(self.decay)

    def select(self, order: int, unit: int | None = None) -> StringParts:
        """Return the parts up to one order, of all units or of a single one (H = 1)."""
        kept = slice(None) if unit is None else slice(unit, unit + 1)
        highway = None if self.highway is None else self.highway[:, kept]
        parts = (self.products[:, :order, kept], self.decay[:, kept], highway)
        return StringParts(replace(self.chain, order=order), *parts)

    def states(self) -> tuple[Tensor, Tensor]:
        """Return c_1..c_n before division by their masses, and the masses, each ``(T, n, H)``."""
        return chain_states(self.products, self.decay, self.weight, self.chain.combine)

    def divide_by_mass(self, weights: Tensor) -> Tensor:
        """Convert weights of the states to weights of c_n[t] before division by its mass."""
        if self.chain.normalized != "exact":
            return weights
        mass = self.states()[1][:, -1]
        return torch.where(mass == 0, 0.0, weights / torch.where(mass == 0, 1.0, mass))

    def sums(self, read: Tensor) -> ChainSums:
        """Split sum_t read_t c_n[t] at every step."""
        return chain_sums(self.products, self.decay, self.weight, read, self.chain.combine)

    def product_gradients(self, read: Tensor) -> Tensor:
        """Return the gradient of a read-out with respect to each product ``(T, n, H)``."""
        return self.weight[:, None] * self.sums(read).slots

    def contributions(self, read: Tensor) -> Tensor:
        """Return the contribution of each token in each slot ``(T, n, H)``."""
        return self.product_gradients(read) * self.products

    def last_state_weights(self) -> Tensor:
        """Return the weights ``(T, H)`` of a read-out that equals the last state."""
        weights = torch.zeros_like(self.decay)
        weights[-1] = 1
        return weights


def string_parts(layer: StringKernelRNN, input: Tensor) -> StringParts:
    """Return the parts of a layer for a sequence, from a zero state, in evaluation mode.

    Only the first layer and its forward direction are used.

    Raises:
        KindError: If the layer is not a `StringKernelRNN`, or as in `check_sequence`.
        ShapeError: If the input is not one sequence.
        ArgumentError: If a value is not finite.
    """
    check_layer(layer)
    x = check_sequence(layer, input).detach().double()
    direction = layer.plain_direction(0)
    chain, n = direction.chain, direction.chain.order
    z = torch.einsum("ti,phi->tph", x, direction.input_weight.detach().double())
    if direction.bias is not None:  # of the gates, which follow the products
        z[:, n:] += direction.bias.detach().double()
    if direction.decay is not None:
        decay = direction.decay.detach().double().expand_as(z[:, 0])
    elif direction.weight is None:
        decay = torch.sigmoid(z[:, n])
    else:
        weight = direction.weight.detach().double()
        zeros = z.new_zeros(1, chain.states, layer.hidden_size)
        carry = x[:, None] if chain.highway else None
        h, _, _ = string_scan(
            z[:, None], zeros[:, 0], zeros, chain=chain, weight=weight, carry=carry
        )
        decay = torch.sigmoid(z[:, n] + before(h[:, 0]) @ weight.T)
    highway = torch.sigmoid(z[:, -1]) if chain.highway else None
    return StringParts(chain, z[:, :n], decay, highway)


def check_layer(layer: Any) -> None:
    """Check that a layer is a `StringKernelRNN`."""
    if not isinstance(layer, StringKernelRNN):
        raise KindError("layer", type(layer).__name__, "a StringKernelRNN")


def check_order(layer: StringKernelRNN, order: int | None) -> int:
    """Return the length of the n-grams; the layer's order by default.

    Raises:
        ArgumentError: If the layer has no n-grams of that length.
    """
    most = layer.chains[0].order
    return most if order is None else check_integer("order", order, 1, most)
