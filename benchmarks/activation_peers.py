"""Peers of a learned activation: a Kolmogorov-Arnold layer of B-splines, and Kafnet's function."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def b_splines(x: Tensor, knots: Tensor, order: int) -> Tensor:
    """Return the values of all B-splines of an order at x: ``(*, I)`` to ``(*, I, G)``.

    By the recursion of Cox and de Boor; of K knots, evenly spaced, there are G = K - order - 1.
    """
    x = x[..., None]
    basis = ((x >= knots[:-1]) & (x < knots[1:])).to(x.dtype)
    for k in range(1, order + 1):
        rising = (x - knots[: -k - 1]) / (knots[k:-1] - knots[: -k - 1])
        falling = (knots[k + 1 :] - x) / (knots[k + 1 :] - knots[1:-k])
        basis = rising * basis[..., :-1] + falling * basis[..., 1:]
    return basis


class SplineLayer(nn.Module):
    """A function of its own on every edge: y_j = sum_i (w_ji silu + spline_ji)(x_i).

    Liu et al., KAN, 2024.

    Args:
        inputs: I.
        outputs: O.
        grid: Intervals of the splines between the limits.
        order: Of the splines; 3 is cubic.
        limits: Where the grid lies.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        grid: int = 5,
        order: int = 3,
        limits: tuple[float, float] = (-1.0, 1.0),
    ) -> None:
        super().__init__()
        self.order = order
        step = (limits[1] - limits[0]) / grid
        count = grid + 2 * order + 1
        knots = limits[0] + step * (torch.arange(count, dtype=torch.float32) - order)
        self.register_buffer("knots", knots)
        self.base = nn.Linear(inputs, outputs, bias=False)
        self.spline = nn.Linear(inputs * (grid + order), outputs, bias=False)
        nn.init.normal_(self.spline.weight, std=0.1 / math.sqrt(inputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(B, O)`` of ``(B, I)``."""
        knots = self.get_buffer("knots")
        return self.base(F.silu(x)) + self.spline(b_splines(x, knots, self.order).flatten(1))


class KernelActivationFunction(nn.Module):
    """f_i(s) = sum_k alpha_ik exp(-gamma (s - d_k)^2), Scardapane et al. 2019.

    The dictionary d is fixed and shared; alpha is learned for every neuron.

    Args:
        features: Neurons.
        size: Of the dictionary.
        bound: It lies evenly from -bound to bound.
    """

    def __init__(self, features: int, size: int = 20, bound: float = 3.0) -> None:
        super().__init__()
        dictionary = torch.linspace(-bound, bound, size)
        self.gamma = float(1 / (6 * (dictionary[1] - dictionary[0]) ** 2))
        self.register_buffer("dictionary", dictionary)
        gram = torch.exp(-self.gamma * (dictionary[:, None] - dictionary) ** 2)
        start = torch.linalg.solve(gram + 1e-4 * torch.eye(size), F.elu(dictionary))
        self.alpha = nn.Parameter(start.expand(features, size).clone())

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(*, features)`` of the same."""
        bells = torch.exp(-self.gamma * (x[..., None] - self.get_buffer("dictionary")) ** 2)
        return (bells * self.alpha).sum(-1)
