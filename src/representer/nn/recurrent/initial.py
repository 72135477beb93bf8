"""Start weights of unit variance: the parts that all recurrent layers share.

``docs/derivations/initialization.md`` has the derivation. Inputs are assumed to be independent over
time, with features of mean 0 and mean square 1.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn

from representer.errors import ArgumentError

Initialization = Literal["unit", "paper"]
GATE_VARIANCE = 1 / 3  # of a gate's pre-activation; torch.nn.LSTM's with equal sizes
LONGEST = 0.995  # a longer memory is treated as this one, of 1 / (1 - LONGEST²) = 100 steps
POINTS = 21  # of the quadrature


class Moments(NamedTuple):
    """Moments of a gate g over random inputs, one entry per unit.

    Attributes:
        square: E[g²].
        complement: E[(1 − g)²].
    """

    square: Tensor
    complement: Tensor

    @property
    def mean(self) -> Tensor:
        """E[g]."""
        return (1 + self.square - self.complement) / 2


def check_initialization(value: Any) -> Initialization:
    """Return the name of an initialization if it is known.

    Raises:
        ArgumentError: If it is unknown.
    """
    if value not in get_args(Initialization):
        raise ArgumentError("initialization", value, "'unit' or 'paper'")
    return value


def spread_logits(units: int) -> Tensor:
    """Return σ^{−1} of forget factors that are evenly spaced in (0, 1), in random order.

    A unit with factor λ remembers for about 1 / (1 − λ) steps: from 1 to 2 H, and a fraction 1 / t
    of the units for longer than t.

    References:
        Gu et al., Improving the Gating Mechanism of Recurrent Neural Networks, ICML 2020.
    """
    places = torch.randperm(units, dtype=torch.float64, device="cpu")  # even for a layer on "meta"
    return torch.logit((places + 0.5) / units)


def fixed_moments(factor: Tensor) -> Moments:
    """Return the moments of constant factors in [0, 1]."""
    known = factor.double().clamp(max=LONGEST)
    return Moments(known.square(), (1 - known).square())


def gate_moments(bias: Tensor) -> Moments:
    """Return the moments of σ(a), a from N(bias, GATE_VARIANCE), by Gauss-Hermite quadrature."""
    points, weights = map(torch.from_numpy, np.polynomial.hermite_e.hermegauss(POINTS))
    weights = weights / weights.sum()
    gates = torch.sigmoid(bias.double()[:, None] + math.sqrt(GATE_VARIANCE) * points)
    return Moments(gates.square() @ weights, (1 - gates).square() @ weights)


@torch.no_grad()
def draw(weight: Tensor, deviation: Tensor | float) -> None:
    """Draw a weight from a uniform distribution of mean 0.

    Args:
        weight: ``(H, I)``.
        deviation: Standard deviation, of all entries or of each row ``(H,)``.
    """
    nn.init.uniform_(weight, -math.sqrt(3), math.sqrt(3))
    weight.mul_(deviation.to(weight)[:, None] if isinstance(deviation, Tensor) else deviation)


def draw_gate(*weights: Tensor | None) -> None:
    """Draw the matrices of a gate, so that its pre-activation has `GATE_VARIANCE`.

    Args:
        weights: The gate's matrix on each input ``(H, …)``; None for an input that it lacks.
    """
    found = [weight for weight in weights if weight is not None]
    fan_in = sum(weight.shape[-1] for weight in found)
    for weight in found:
        draw(weight, math.sqrt(GATE_VARIANCE / fan_in))
