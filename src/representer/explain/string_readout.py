"""The decomposition of a weighted sum of a string-kernel network's outputs over tokens or n-grams.

    y = sum_t v_t . h_t,    h_t = g_t * sigma(s_t) + (1 - g_t) * x_t,
    s_t = c_n[t]  or  c_1[t] + ... + c_n[t]

With sigma(s)/s and the highway's gate g held constant, y is a sum over n-grams, each weighted by
its decay up to each step with a nonzero weight: Lei et al. 2017, (4), sections 4 and 6.1.

Shapes: T time, H units.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from representer.checks import check_integer
from representer.errors import KindError, ShapeError
from representer.explain.ngrams import (
    NgramContribution,
    StringParts,
    best_layer_ngrams,
    check_finite,
    check_multiplicative,
    refuse_layer,
    string_parts,
    tails,
)
from representer.functional import NONLINEARITIES
from representer.nn import StringKernelRNN

MOST_TERMS = 20_000_000  # of all n-grams in all units


@dataclass(frozen=True)
class StringReadout:
    """The decomposition of a weighted sum of outputs, given gates and activations.

    Attributes:
        layer: The layer.
        parts: Its products and decays for the sequence.
        state_weights: Weights of the states before the activation ``(T, H)``.
        highway_weights: Weights of the input of the highway ``(T, H)``; zeros without a highway.
        highway_contribution: Contributions of that input ``(T, H)``.
    """

    layer: StringKernelRNN
    parts: StringParts
    state_weights: Tensor
    highway_weights: Tensor
    highway_contribution: Tensor

    def steps(self) -> Tensor:
        """Return the contribution of each token through each unit ``(T, H)``; they sum to y.

        The contribution of an n-gram is divided equally among its tokens.
        """
        total = self.highway_contribution.clone()
        for order in orders_read(self.parts):
            parts = self.parts.select(order)
            added = parts.contributions(parts.divide_by_mass(self.state_weights)).sum(1)
            total += added / order if parts.chain.combine == "multiply" else added
        return total

    def input_weights(self) -> Tensor:
        r"""Return the weights u of the tokens in y ``(T, I)``: :math:`y = \sum_t u_t \cdot x_t`.

        The contribution of an n-gram is divided equally among its tokens, as in `steps`. If the
        input is the output of another layer, u are the weights of a read-out of that layer.
        """
        references_HnI = self.layer.references().double()
        total = torch.zeros(len(self.state_weights), self.layer.input_size, dtype=torch.float64)
        total = total.to(self.state_weights.device)
        for order in orders_read(self.parts):
            parts = self.parts.select(order)
            gradients = parts.product_gradients(parts.divide_by_mass(self.state_weights))
            added = torch.einsum("tnh,hni->ti", gradients, references_HnI[:, :order])
            total += added / order if parts.chain.combine == "multiply" else added
        return total + self.highway_weights if self.parts.highway is not None else total

    def every_ngram(self) -> dict[tuple[int, ...], float] | None:
        """Return the contribution of every n-gram, summed over units; they sum to y.

        The input of a highway is a contribution of single tokens.

        Returns:
            By ascending positions; None where an n-gram has more than `MOST_TERMS` terms, or where
            the layer adds its tokens.
        """
        length, units = self.parts.decay.shape
        orders = orders_read(self.parts)
        if self.parts.chain.combine != "multiply" or length ** max(orders) * units > MOST_TERMS:
            return None
        tokens = self.highway_contribution.sum(1).tolist()
        total: dict[tuple[int, ...], float] = {}
        if self.parts.highway is not None:
            total = {(t,): x for t, x in enumerate(tokens)}
        for order in orders:
            parts = self.parts.select(order)
            weighted = parts.weight[:, None] * parts.products
            tail = tails(parts.divide_by_mass(self.state_weights), parts.decay)
            partial = weighted[:, 0]
            for j in range(1, order):
                partial = partial[..., None, :] * _skipped(parts.decay) * weighted[:, j]
            terms = (partial * tail).sum(-1)
            for positions in combinations(range(length), order):
                value = terms[positions].item()
                total[positions] = total.get(positions, 0.0) + value
        return total

    def ngrams(self, unit: int, k: int) -> list[NgramContribution]:
        """Return the k n-grams of largest absolute contribution to y through one unit.

        Args:
            unit: The unit.
            k: Number of n-grams.

        Raises:
            KindError: If the layer adds the tokens of an n-gram instead of multiplying them.
            ArgumentError: If unit or k is out of range.
        """
        check_multiplicative(self.layer)
        check_integer("unit", unit, 0, self.layer.hidden_size - 1)
        check_integer("k", k, 1)
        ngrams: list[NgramContribution] = []
        for order in orders_read(self.parts):
            parts = self.parts.select(order, unit)
            ngrams += best_layer_ngrams(
                parts, parts.divide_by_mass(self.state_weights[:, unit : unit + 1]), k
            )
        return sorted(ngrams, key=lambda ngram: -abs(ngram.contribution))[:k]


def string_readout(layer: StringKernelRNN, input: Tensor, weights: Tensor) -> StringReadout:
    r"""Decompose a weighted sum of the outputs of a string-kernel network.

    .. math::
        y = \sum_t v_t \cdot h_t

    For the last output of unit u, v is 1 at (T, u) and 0 elsewhere; for a linear read-out of the
    mean over time, every row is the read-out's weights over T. The result is exact given
    the values of the gates and of :math:`\sigma(s)/s`.

    Args:
        layer: One layer and one direction, with any activation except the sigmoid: it is not 0 at
            0, so part of the output is independent of the tokens.
        input: One sequence.
        weights: v.

    Shape:
        - input ``(T, I)``; weights ``(T, H)``

    Raises:
        KindError: If the layer is not supported (the message states the reason), or if input or
            weights are of the wrong kind.
        ShapeError: If a shape is wrong.
        ArgumentError: If a value is not finite.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (4), sections 4 and 6.1.
    """
    parts = string_parts(layer, input)
    sigma = NONLINEARITIES[parts.chain.activation].value
    is_0 = not callable(layer.activation) and not bool(sigma(torch.zeros(())))
    name = layer.activation if isinstance(layer.activation, str) else "callable"
    hint = f"The activation {name} is not 0 at 0. Use 'tanh', 'relu' or None, or token_slots."
    weighted = "Its states have weights. Use readout='sum' or 'last', or token_slots."
    refuse_layer(layer, {hint: not is_0, weighted: layer.readout == "weighted"})
    v = check_weights(weights, len(input), layer.hidden_size)
    state_weights, highway_weights, highway_contribution = (
        v, torch.zeros_like(v), torch.zeros_like(v),
    )  # fmt: skip
    if parts.highway is not None:
        state_weights = v * parts.highway
        highway_weights = v - state_weights
        highway_contribution = highway_weights * input.detach().double()
    if parts.chain.activation == "relu":
        state_weights = state_weights * (_state(parts) > 0)
    elif parts.chain.activation != "identity":
        state = _state(parts)
        is_zero = state == 0
        slope = sigma(state) / torch.where(is_zero, 1.0, state)
        state_weights = state_weights * torch.where(is_zero, 1.0, slope)
    return StringReadout(layer, parts, state_weights, highway_weights, highway_contribution)


def orders_read(parts: StringParts) -> range:
    """Return the lengths of the n-grams in the read-out."""
    n = parts.chain.order
    return range(n, n + 1) if parts.chain.readout == "last" else range(1, n + 1)


def check_weights(weights: Any, time: int, units: int) -> Tensor:
    """Return the weights of a read-out in float64.

    Raises:
        ArgumentError: If a value is not finite.
    """
    if not isinstance(weights, Tensor):
        raise KindError("weights", type(weights).__name__, f"a tensor ({time}, {units})")
    if tuple(weights.shape) != (time, units):
        hint = "Pass one row per step, with zeros for the steps that are not read."
        raise ShapeError("weights", weights.shape, f"({time}, {units})", hint=hint)
    return check_finite("weights", weights.detach().double())


def _state(parts: StringParts) -> Tensor:
    """Return the input of the activation ``(T, H)``."""
    state, ones = torch.zeros_like(parts.decay), torch.ones_like(parts.decay)
    for order in orders_read(parts):
        chain = parts.select(order)
        state += chain.states()[0][:, -1] * chain.divide_by_mass(ones)
    return state


def _skipped(decay: Tensor) -> Tensor:
    """Return the products of the decays between two steps ``(T, T, H)``, 0 unless i < j."""
    products = torch.zeros(len(decay), *decay.shape, dtype=decay.dtype, device=decay.device)
    for i in range(len(decay) - 1):
        products[i, i + 1] = 1
        products[i, i + 2 :] = decay[i + 1 : -1].cumprod(0)
    return products
