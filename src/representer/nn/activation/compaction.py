"""Approximation of kernel expansions by fewer centers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook
from torch.utils.weak import WeakIdKeyDictionary

from representer import functional
from representer.errors import ArgumentError, KindError
from representer.functional import green_function, kernel_activation
from representer.functional.activations import Green

if TYPE_CHECKING:
    from representer.nn.activation.kernel_activation import KernelActivation

# The smoothness of kernel expansions, and the expansion over a training set, M18 (2)-(5).

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


CORNERS = {"abs": 2.0, "relu": 1.0}
"""The jump of the slope of g at 0, for piecewise-linear g."""
GRID = 1001


def exact_values(activation: KernelActivation, points: Tensor) -> Tensor:
    """Return f in float64 at points ``(P, F)``, without normalization."""
    c, chi = _doubles(activation)
    value = functional.kernel_activation(
        points, c, chi, green=activation.green, bandwidth=activation.bandwidth
    )
    if activation.line is None:
        return value
    slope, height = activation.line.detach().double().cpu().unbind(-1)
    return value + slope * points + height


def rounding_error(activation: KernelActivation, points: Tensor) -> float:
    """Return the largest error of f at points ``(P, F)`` from rounding the parameters."""
    c, chi = _doubles(activation)
    g = functional.green_function(activation.green, activation.bandwidth)
    size = functional.kernel_activation(points, c, chi.abs(), green=lambda u: g(u).abs())
    return float(size.max()) * torch.finfo(activation.centers.dtype).eps


_SHORTENED = WeakIdKeyDictionary()


def check_parameter(name: str, value: Tensor) -> None:
    """Raise an error if a tensor that is to be overwritten is computed from another one."""
    if not isinstance(value, nn.Parameter):
        hint = "Remove it first, with parametrize.remove_parametrizations or prune.remove."
        got = "computed by a parametrization or a pruning mask of torch"
        raise KindError(name, got, "a parameter, which can be overwritten", hint=hint)


def restart_moments(parameter: nn.Parameter) -> None:
    """Let every optimizer drop its state of a parameter whose shape has changed, at its next step.

    A module does not know the optimizers that hold its parameters.
    """
    _watch_optimizers()
    _SHORTENED[parameter] = True


@cache
def _watch_optimizers() -> None:
    register_optimizer_step_pre_hook(_drop_old_moments)


def _drop_old_moments(optimizer: Optimizer, *_: Any) -> None:
    for parameter in list(_SHORTENED):
        moments = optimizer.state.get(parameter, {}).values()
        if any(isinstance(x, Tensor) and x.dim() and x.shape != parameter.shape for x in moments):
            del optimizer.state[parameter]


def sampled(activation: KernelActivation) -> Tensor:
    """Return points ``(P, F)`` of the range: a grid, and the centers in the range."""
    low, high = activation.limits
    grid = torch.linspace(low, high, GRID, dtype=torch.float64)
    grid_points = grid[:, None].expand(-1, activation.num_features)
    return torch.cat((grid_points, _doubles(activation)[0].T)).clamp(low, high)


def compacted(activation: KernelActivation, tolerance: float) -> tuple[Tensor, Tensor]:
    """Return fewer centers and their coefficients ``(F, K')``, padded with zeros."""
    kept = [
        _fewer(activation, c, chi, tolerance) for c, chi in zip(*_doubles(activation), strict=True)
    ]
    count = max(1, *(len(c) for c, _ in kept))
    old = activation.centers.detach()
    centers, coefficients = (old.new_zeros(len(kept), count) for _ in range(2))
    for i, (c, chi) in enumerate(kept):
        centers[i, : len(c)], coefficients[i, : len(c)] = c, chi
        centers[i, len(c) :] = c[-1] if len(c) else 0.0
    return centers, coefficients


def corners(activation: KernelActivation) -> tuple[Tensor, Tensor, Tensor]:
    """Return each feature's corners, their values, and the slopes beyond the first and last."""
    pairs = [merged(c, chi) for c, chi in zip(*_doubles(activation), strict=True)]
    count = max(len(c) for c, _ in pairs)
    # features with fewer corners get additional ones on their last line
    knots = torch.stack(
        [torch.cat((c, c[-1] + torch.arange(1, count - len(c) + 1))) for c, _ in pairs]
    )
    values = exact_values(activation, knots.T).T
    beyond = torch.stack((knots[:, 0] - 1, knots[:, -1] + 1))
    ends = exact_values(activation, beyond).T
    slopes = torch.stack((values[:, 0] - ends[:, 0], ends[:, 1] - values[:, -1]), dim=1)
    like = activation.centers.detach()
    return knots.to(like), values.to(like), slopes.to(like)


def _doubles(activation: KernelActivation) -> tuple[Tensor, Tensor]:
    pair = activation.centers, activation.coefficients
    return pair[0].detach().double().cpu(), pair[1].detach().double().cpu()


def _fewer(
    activation: KernelActivation, c: Tensor, chi: Tensor, tolerance: float
) -> tuple[Tensor, Tensor]:
    c, chi = merged(c, chi)
    tolerance *= 0.99  # leaves room for rounding to the parameters' dtype
    if activation.green in CORNERS:
        return thinned(c, chi, activation.limits, CORNERS[str(activation.green)], tolerance)
    grid = torch.linspace(*activation.limits, GRID, dtype=torch.float64)
    g = functional.green_function(activation.green, activation.bandwidth)
    return dropped(c, chi, lambda c: g(grid[:, None] - c).abs().amax(0), tolerance)


def merged(c: Tensor, chi: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sorted unique centers ``(K',)``, with the sums of their coefficients."""
    kinds, index = c.unique(return_inverse=True)
    return kinds, torch.zeros_like(kinds).index_add(0, index, chi)


def thinned(
    c: Tensor, chi: Tensor, limits: tuple[float, float], corner: float, tolerance: float
) -> tuple[Tensor, Tensor]:
    r"""Drop corners of a piecewise-linear expansion while it changes by no more than a tolerance.

    The coefficient of a dropped center is divided between its two neighbors, so that nothing
    changes beyond these; between them, the change is a triangle of height
    :math:`\kappa |\chi_k| h_l h_r / (h_l + h_r)`, with the distances :math:`h` to the neighbors and
    the jump :math:`\kappa` of the slope of g. Centers are dropped in ascending order of height,
    while the total change at every original center is below the tolerance.

    ``c`` are sorted unique centers ``(K,)`` in float64; ``corner`` is the jump of the slope.
    """
    points = torch.cat((c, c.new_tensor(limits)))
    inside = points[(points >= limits[0]) & (points <= limits[1])]
    change = torch.zeros_like(inside)  # so far, at every point
    left, right = c.new_tensor(limits)
    rejected: set[float] = set()
    while len(c) > 2:
        low, mid, high = c[:-2], c[1:-1], c[2:]
        heights = corner * chi[1:-1].abs() * (mid - low) * (high - mid) / (high - low)
        heights = torch.where((high <= left) | (low >= right), 0.0, heights)
        candidates = torch.tensor([float(center) not in rejected for center in mid])
        if not candidates.any():
            break
        k = int(torch.where(candidates, heights, torch.inf).argmin())
        share = (high[k] - mid[k]) / (high[k] - low[k])
        bump = _triangle(inside, low[k], mid[k], high[k]) * corner * chi[k + 1]
        bump = bump * (mid[k] - low[k]) * (high[k] - mid[k]) / (high[k] - low[k])
        if (change + bump).abs().max() > tolerance:
            rejected.add(float(mid[k]))
            continue
        change = change + bump
        coefficient = chi[k + 1]
        chi = chi.clone()
        chi[k] += share * coefficient
        chi[k + 2] += (1 - share) * coefficient
        c, chi = (torch.cat((x[: k + 1], x[k + 2 :])) for x in (c, chi))
    return c, chi


def _triangle(a: Tensor, low: Tensor, mid: Tensor, high: Tensor) -> Tensor:
    """Return the piecewise-linear function that is 1 at mid and 0 outside of low and high."""
    rising, falling = (a - low) / (mid - low), (high - a) / (high - mid)
    return torch.minimum(rising, falling).clamp(0, 1)


def dropped(
    c: Tensor, chi: Tensor, bound: Callable[[Tensor], Tensor], tolerance: float
) -> tuple[Tensor, Tensor]:
    """Drop the centers of least influence while the bound of their sum is within a tolerance.

    ``bound`` returns the largest |g(a - c)| on the range for every center.
    """
    weight = chi.abs() * bound(c)
    order = weight.argsort()
    keep = torch.ones_like(c, dtype=torch.bool)
    keep[order[weight[order].cumsum(0) <= tolerance]] = False
    return c[keep], chi[keep]
