"""Functions of one number: nonlinearities and q by name, and M18's kernel expansion of a neuron.

f_i(a) = sum_k chi_ik g(a - c_ik)                                              M18 (5), (6)

Marra, Zanca, Betti & Gori, Learning Neuron Non-Linearities with Kernel-Based Deep Neural Networks,
2018.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from representer.errors import ArgumentError, ShapeError

# The elementwise functions of the papers by name, with derivatives.
#
# Liang et al. 2019 (L19): q in (5)-(8), tanh in Table 1. A q is a Mercer kernel of the inner
# product if its power series at 0 has no negative coefficients (``mercer``).
#
#     linear       z / 2            tanh      tanh(z)
#     polynomial   (z + 1)^2 / 4    sigmoid   1 / (1 + e^-z)
#     exponential  (e^z - 1) / 2    inverse   z / (2 - z)
#     gaussian     e^z              identity  z
#     relu         max(0, z)


@dataclass(frozen=True)
class Nonlinearity:
    """A function of one real variable, applied to each entry of a tensor ``(…)``.

    Attributes:
        formula: Formula, as text.
        value: ``z -> y``.
        derivative: ``(z, y) -> dy/dz``, with the value y as a second argument to save work.
        mercer: Whether the power series at 0 has only non-negative coefficients.
    """

    formula: str
    value: Callable[[Tensor], Tensor]
    derivative: Callable[[Tensor, Tensor], Tensor]
    mercer: bool


NONLINEARITIES: dict[str, Nonlinearity] = {
    "identity": Nonlinearity("z", lambda z: z, lambda z, y: torch.ones_like(z), True),
    "linear": Nonlinearity("z/2", lambda z: z / 2, lambda z, y: torch.full_like(z, 0.5), True),
    "polynomial": Nonlinearity(
        "(z+1)²/4", lambda z: (z + 1).square() / 4, lambda z, y: (z + 1) / 2, True
    ),
    "exponential": Nonlinearity(
        "(e^z−1)/2", lambda z: torch.expm1(z) / 2, lambda z, y: y + 0.5, True
    ),
    "inverse": Nonlinearity(
        "z/(2−z)", lambda z: z / (2 - z), lambda z, y: 2 / (2 - z).square(), True
    ),
    "gaussian": Nonlinearity("e^z", torch.exp, lambda z, y: y, True),
    "tanh": Nonlinearity("tanh(z)", torch.tanh, lambda z, y: 1 - y.square(), False),
    "sigmoid": Nonlinearity("σ(z)", torch.sigmoid, lambda z, y: y * (1 - y), False),
    "relu": Nonlinearity("max(0, z)", torch.relu, lambda z, y: (z > 0).to(z), False),
}


def nonlinearity(name: str, argument: str = "nonlinearity") -> Nonlinearity:
    """Return a nonlinearity by name.

    Args:
        name: A key of `NONLINEARITIES`.
        argument: The name of the argument in the message of the error.

    Raises:
        ArgumentError: If the name is unknown.
    """
    if name not in NONLINEARITIES:
        raise ArgumentError(argument, name, f"one of {', '.join(NONLINEARITIES)}, or a callable")
    return NONLINEARITIES[name]


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


def edge_activation(
    input: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    *,
    green: str | Green = "abs",
    bandwidth: float = 1.0,
) -> Tensor:
    r"""Return :math:`y_j = \sum_i \sum_k \chi_{ijk}\, g(x_i - c_{ik})`, a function on every edge.

    Args:
        input: x ``(..., I)``.
        centers: c ``(I, K)``, shared by the edges of an input, in any order.
        coefficients: chi ``(I, J, K)``.
        green: g, see ``kernel_activation``.
        bandwidth: s.

    Returns:
        ``(..., J)``.

    References:
        Marra et al., 2018, (5), (6), for each edge instead of each neuron.
    """
    g = green_function(green, bandwidth)(input[..., None] - centers)
    return torch.einsum("...ik,ijk->...j", g, coefficients)


# The recurrence of a network with learned activations, step by step.
#
#     a_t     = z_t + U h_{t-1},                            z_t = W x_t + b
#     n_t     = (a_t - mu_t) / sqrt(var_t + eps)            over the batch, at every step t
#     h_t     = f(gain n_t + offset),    f_i(a) = sum_k chi_ik g(a - c_ik)  (+ theta_i a + nu_i)
#
# Marra, Zanca, Betti & Gori, Learning Neuron Non-Linearities with Kernel-Based Deep Neural
# Networks, 2018, section 2 (cyclic graphs), (6) and section 3; their "deviation" is a variance.
# This is the reference implementation, in plain torch and differentiable by autograd.
#
# Shapes: T time, B batch, H units, K centers.


def kbrn_scan(
    z: Tensor,
    h0: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    *,
    weight: Tensor,
    line: Tensor | None = None,
    norm: Tensor | None = None,
    statistics: Tensor | None = None,
    batch_statistics: bool = False,
    lengths: Tensor | None = None,
    green: str | Green = "abs",
    bandwidth: float = 1.0,
    epsilon: float = 1e-3,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the network over a sequence.

    Args:
        z: Products with the input ``(T, B, H)``.
        h0: Output before the first step ``(B, H)``.
        centers: c ``(H, K)``, in any order.
        coefficients: chi ``(H, K)``.
        weight: U ``(H, H)``, output by input.
        line: theta and nu ``(H, 2)``, or None.
        norm: Gain and offset ``(2, H)``; None disables normalization.
        statistics: mu and var of every step and sequence ``(2, T, B, H)``, with ``norm``.
        batch_statistics: Use mu and var of the batch at the steps of two or more sequences, and
            ``statistics`` at the others.
        lengths: True lengths ``(B,)``; beyond them the state does not change and the output is 0.
        green: g, see ``kernel_activation``.
        bandwidth: s of a Gaussian.
        epsilon: eps.

    Returns:
        h of every step ``(T, B, H)``, the last h ``(B, H)``, and mu and var of the batch at every
        step ``(2, T, H)``, zeros where they were not computed.
    """
    outputs, h = [], h0
    moments = []
    for t in range(len(z)):
        is_real = torch.ones_like(h[:, 0]) > 0 if lengths is None else t < lengths
        real = is_real[:, None]
        a = torch.where(real, z[t] + h @ weight.T, 0.0)
        batch_moments = torch.zeros_like(a[:1].sum(0)).expand(2, -1)
        if norm is not None:
            assert statistics is not None
            mean, var = torch.where(real, statistics[:, t], 1.0)
            if batch_statistics:
                count = is_real.sum()  # not read in Python, so that the loop can be exported
                own_mean = a.sum(0) / count.clamp(min=1)
                squares = torch.where(real, (a - own_mean).square(), 0.0)
                new = torch.stack((own_mean, squares.sum(0) / count.clamp(min=1)))
                batch_moments = torch.where(count >= 2, new, 0.0)
                mean, var = torch.where(count >= 2, new[:, None], torch.stack((mean, var)))
            n = (a - mean) / (var + epsilon).sqrt()
            a = norm[0] * torch.where(real, n, 0.0) + norm[1]
        h_new = kernel_activation(a, centers, coefficients, green=green, bandwidth=bandwidth)
        if line is not None:
            h_new = h_new + line[:, 0] * a + line[:, 1]
        h = torch.where(real, h_new, h)
        outputs.append(torch.where(real, h_new, 0.0))
        moments.append(batch_moments)
    return torch.stack(outputs), h, torch.stack(moments, dim=1)


# Penalties on the outputs of a recurrent layer, and on their changes between steps.
#
#     AR = alpha mean(h'_t^2)        TAR = beta mean((h_{t+1} - h_t)^2)
#
# Merity, McCann & Socher, Revisiting Activation Regularization for Language RNNs, 2017, (3), (4).


def activation_regularization(
    dropped: Tensor, raw: Tensor, alpha: float = 2.0, beta: float = 1.0
) -> Tensor:
    r"""Return AR and TAR, :math:`\alpha\,\overline{h'^2} + \beta\,\overline{(h_{t+1} - h_t)^2}`.

    The means are over all entries. TAR is 0 for a single step.

    Args:
        dropped: The last layer's output after dropout ``(T, B, D)``, for AR.
        raw: The same output before dropout, for TAR.
        alpha: The weight of AR.
        beta: The weight of TAR.

    Raises:
        ShapeError: If the shapes differ, or are not ``(T, B, D)``.

    References:
        Merity et al., Revisiting Activation Regularization for Language RNNs, 2017, (3), (4).
    """
    if dropped.dim() != 3:
        raise ShapeError("dropped", tuple(dropped.shape), "(time, batch, features)")
    if raw.shape != dropped.shape:
        raise ShapeError("raw", tuple(raw.shape), f"{tuple(dropped.shape)}, the shape of dropped")
    penalty = alpha * dropped.square().mean()
    if len(raw) > 1:
        penalty = penalty + beta * (raw[1:] - raw[:-1]).square().mean()
    return penalty
