"""Initialization of an expansion by fitting a function."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from representer.errors import ArgumentError, ShapeError
from representer.functional import green_function
from representer.functional.kernel_activation import Green

INITIAL: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "identity": lambda a: a,
}
"""Initial functions by name; ``"random"`` and ``"zeros"`` are not fitted."""

# Relative to the largest eigenvalue. Gaussians at close centers are nearly collinear, and would be
# fitted with large coefficients of opposite signs.
RIDGES = {"abs": 1e-13, "relu": 1e-13, "cubic": 1e-13}
RIDGE = 1e-7
POINTS = 401


def even_centers(limits: tuple[float, float], count: int) -> Tensor:
    """Return centers evenly spaced on the range, with the one nearest to 0 moved to 0.

    Common activations have their corner at 0.
    """
    low, high = limits
    if count == 1:
        return torch.tensor([min(max(0.0, low), high)])
    even = torch.linspace(low, high, count)
    if low < 0 < high and count > 2:
        even[1 + even[1:-1].abs().argmin()] = 0.0
    return even


def fitted(
    function: Callable[[Tensor], Tensor],
    centers: Tensor,
    *,
    green: str | Green,
    bandwidth: float,
    limits: tuple[float, float],
    has_line: bool,
) -> tuple[Tensor, Tensor]:
    r"""Fit coefficients, and slope and intercept of a line, to a function.

    They minimize :math:`\sum_j (f(a_j) - \sum_k \chi_k g(a_j - c_k) - \theta a_j - \nu)^2` over an
    even grid of the range, with a small ridge penalty on the coefficients.

    Returns:
        Coefficients ``(F, K)`` and lines ``(F, 2)``, which are 0 without ``has_line``.

    Raises:
        ShapeError: If the function does not preserve the shape.
        ArgumentError: If it returns values that are not finite.
    """
    grid = torch.linspace(*limits, POINTS, dtype=torch.float64, device=centers.device)
    with torch.no_grad():
        wanted = function(grid)
        if not isinstance(wanted, Tensor) or wanted.shape != grid.shape:
            got = tuple(getattr(wanted, "shape", ()))
            raise ShapeError("init(a)", got, f"{tuple(grid.shape)}, the shape of a")
        if not wanted.isfinite().all():
            raise ArgumentError("init", function, f"a function that is finite on {limits}")
        g = green_function(green, bandwidth)
        columns = [g(grid[None, :, None] - centers.double()[:, None, :])]
        if has_line:
            line = torch.stack((grid, torch.ones_like(grid)), dim=-1)
            columns.append(line.expand(len(centers), *line.shape))
        design = torch.cat(columns, dim=-1)  # (F, points, K or K + 2)
        normal = design.mT @ design
        largest = torch.linalg.matrix_norm(normal, ord=2)[:, None, None]
        eye = torch.eye(normal.shape[-1], dtype=normal.dtype, device=normal.device)
        eye[centers.shape[1] :] = 0  # no penalty on the line
        ridge = RIDGES.get(green, RIDGE) if isinstance(green, str) else RIDGE
        right = design.mT @ wanted.double()[:, None]
        found = torch.linalg.solve(normal + ridge * largest * eye, right)[..., 0]
    count = centers.shape[1]
    lines = found[:, count:] if has_line else found.new_zeros(len(centers), 2)
    return found[:, :count].to(centers.dtype), lines.to(centers.dtype)
