r"""The kernel expansion of a neuron's activation, as printed.

f_i(a) = sum_k chi_ik g(a - c_ik)                                              M18 (5), (6)

Marra, Zanca, Betti & Gori, Learning Neuron Non-Linearities with Kernel-Based Deep Neural Networks,
2018.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from representer.errors import ArgumentError

Green = Callable[[Tensor], Tensor]

GREENS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "abs": lambda u, s: u.abs(),
    "relu": lambda u, s: torch.relu(u),
    "gaussian": lambda u, s: torch.exp(-u.square() / (2 * s * s)),
    "cubic": lambda u, s: u.abs() ** 3,
}
"""Green functions g by name, as functions of the difference to a center and the bandwidth."""


def green_function(green: str | Green, bandwidth: float = 1.0) -> Green:
    """Return g as a function of the difference to a center.

    Args:
        green: A key of `GREENS`, or the function itself.
        bandwidth: s of the Gaussian, unused by the others.

    Raises:
        ArgumentError: If there is no such function, or the bandwidth is not positive.
    """
    if callable(green):
        return green
    if green not in GREENS:
        raise ArgumentError("green", green, f"one of {', '.join(GREENS)}, or a function")
    if not 0 < bandwidth < float("inf"):
        raise ArgumentError("bandwidth", bandwidth, "a number above 0")
    return lambda u: GREENS[green](u, bandwidth)


def kernel_activation(
    input: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    *,
    green: str | Green = "abs",
    bandwidth: float = 1.0,
) -> Tensor:
    r"""Return :math:`f_i(a) = \sum_k \chi_{ik}\, g(a - c_{ik})`.

    Args:
        input: a ``(..., F)``.
        centers: c ``(F, K)``, in any order.
        coefficients: chi ``(F, K)``.
        green: g: ``"abs"`` :math:`|u|`, ``"relu"`` :math:`\max(0, u)`, ``"gaussian"``
            :math:`e^{-u^2 / 2 s^2}`, ``"cubic"`` :math:`|u|^3`, or a function. Its derivative at 0
            is torch's.
        bandwidth: s.

    Returns:
        ``(..., F)``.

    References:
        Marra et al., 2018, (5), (6).
    """
    g = green_function(green, bandwidth)
    return (coefficients * g(input[..., None] - centers)).sum(-1)
