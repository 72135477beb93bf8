"""The smoothness of kernel expansions, and the expansion over a training set, M18 (2)-(5)."""

from __future__ import annotations

import torch
from torch import Tensor

from representer.errors import ArgumentError
from representer.functional import green_function, kernel_activation
from representer.functional.activations import Green

GREEN_FACTORS = {"abs": -2.0, "relu": -1.0, "cubic": 12.0, "gaussian": 1.0}
"""γ of Lg = γδ, with L = P*P."""


def _check_operator(green: str | Green) -> None:
    if not isinstance(green, str) or green not in GREEN_FACTORS:
        expected = f"one of {', '.join(GREEN_FACTORS)}, whose operator P is known"
        raise ArgumentError("green", green, expected)


def squared_norm(
    centers: Tensor, coefficients: Tensor, line: Tensor | None, *, green: str | Green,
    bandwidth: float, limits: tuple[float, float],
) -> Tensor:  # fmt: skip
    r"""Return (Pf, Pf) over the limits of each feature ``(F,)``, differentiable.

    f' is piecewise constant for ``"abs"`` and ``"relu"``, whose P is d/da; for ``"cubic"``, whose P
    is d²/da², f'' = :math:`6 \sum_k \chi_k |a - c_k|` is piecewise linear. For ``"gaussian"``, it
    is the squared norm :math:`\chi^T g(c_j - c_k) \chi` in the space of g over the whole line.

    Raises:
        ArgumentError: If the Green function is one without a known P.
    """
    _check_operator(green)
    if green == "gaussian":
        gram = green_function(green, bandwidth)(centers[:, :, None] - centers[:, None, :])
        return torch.einsum("fj,fjk,fk->f", coefficients, gram, coefficients)
    low, high = limits
    sorted_centers, order = centers.sort(dim=1)
    ends = torch.full_like(centers[:, :1], low), torch.full_like(centers[:, :1], high)
    knots = torch.cat((ends[0], sorted_centers.clamp(low, high), ends[1]), dim=1)
    lengths = knots.diff(dim=1)
    if green == "cubic":
        y = 6 * kernel_activation(knots.T, centers, coefficients, green="abs").T
        left, right = y[:, :-1], y[:, 1:]
        return (lengths / 3 * (left.square() + left * right + right.square())).sum(1)
    steps = -GREEN_FACTORS[str(green)] * coefficients.gather(1, order)  # L = -d²/da²
    slope = torch.zeros_like(steps[:, 0]) if line is None else line[:, 0]
    if green == "abs":
        slope = slope - coefficients.sum(1)
    slopes = torch.cat((slope[:, None], slope[:, None] + steps.cumsum(1)), dim=1)
    return (slopes.square() * lengths).sum(1)


def expansion(
    a: Tensor, y: Tensor, weights: Tensor, smoothness: float, green: str | Green, bandwidth: float
) -> tuple[Tensor, Tensor]:
    r"""Minimize :math:`\frac{\mu}{2} (Pf, Pf) + \frac12 \sum_\kappa w_\kappa (y - f(a))^2`.

    The minimizer is :math:`f = \sum_\kappa \chi_\kappa g(\cdot - a_\kappa) + \theta a + \nu` with
    :math:`\chi_\kappa = w_\kappa (y_\kappa - f(a_\kappa)) / \gamma\mu`, the (3) and (4) of the
    paper, and :math:`T^T \chi = 0`, where T is 1 or (1, a), the functions with Pf = 0 (none for
    ``"gaussian"``). Free ends: f continues as one of them beyond the data. χ is ``(F, N)`` as
    inputs and targets, in float64, θ and ν ``(F, 2)``.

    Raises:
        ArgumentError: If the Green function is one without a known P.
    """
    _check_operator(green)
    gram = green_function(green, bandwidth)(a[:, :, None] - a[:, None, :])
    system = gram + torch.diag_embed(GREEN_FACTORS[str(green)] * smoothness / weights)
    free = {"gaussian": 0, "cubic": 2}.get(str(green), 1)
    T = torch.stack((torch.ones_like(a), a), dim=-1)[..., :free]
    zeros = a.new_zeros(len(a), free, free)
    system = torch.cat((torch.cat((system, T), -1), torch.cat((T.mT, zeros), -1)), dim=1)
    solution = torch.linalg.solve(system, torch.cat((y, a.new_zeros(len(a), free)), dim=1))
    lines = a.new_zeros(len(a), 2)
    lines[:, 2 - free :] = solution[:, a.shape[1] :].flip(1)
    return solution[:, : a.shape[1]], lines
