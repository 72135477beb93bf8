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

from representer.errors import KindError
from representer.explain.chain_sums import ChainSums, before, chain_states, chain_sums
from representer.explain.checks import check_sequence
from representer.functional import StringChain, string_scan
from representer.nn import StringKernelRNN
from representer.requirements import check_integer


@dataclass(frozen=True)
class StringParts:
    """The products and decays of every step.

    Attributes:
        chain: The chain.
        products: p_j[t] ``(T, n, H)``.
        decay: lam_t ``(T, H)``.
        highway: The highway's gate ``(T, H)``, or None.
    """

    chain: StringChain
    products: Tensor
    decay: Tensor
    highway: Tensor | None = None

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

    Args:
        layer: The layer; only its first layer and forward direction are used.
        input: ``(T, I)``.

    Raises:
        KindError: If the layer is not a `StringKernelRNN`, or as in `check_sequence`.
        ShapeError: If the input is not one sequence.
        ArgumentError: If a value is not finite.
    """
    check_layer(layer)
    x = check_sequence(layer, input).detach().double()
    direction = layer.plain_direction(0)
    chain, n = direction.chain, layer.order
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
    """Check that a layer is a `StringKernelRNN`.

    Raises:
        KindError: If it is not.
    """
    if not isinstance(layer, StringKernelRNN):
        raise KindError("layer", type(layer).__name__, "a StringKernelRNN")


def check_order(layer: StringKernelRNN, order: int | None) -> int:
    """Return the length of the n-grams; the layer's order by default.

    Raises:
        ArgumentError: If the layer has no n-grams of that length.
    """
    return layer.order if order is None else check_integer("order", order, 1, layer.order)
