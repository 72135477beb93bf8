"""A test for q of an inner product to be a Mercer kernel.

q(<x, y>) is one in every dimension if q(z) = sum_k a_k z^k without negative a_k (Schoenberg 1942).
Then the recurrent kernel of q is one, too, since each of its steps is q of an inner product.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from representer.errors import ArgumentError
from representer.functional import nonlinearity

DEGREE = 23  # truncation error below rounding at twice the largest radius, little amplification
RADII = (1 / 2, 1 / 8, 1 / 32)
ROUNDING = 1e-14


def mercer_violation(q: str | Callable[[Tensor], Tensor]) -> str:
    """Return the reason why q has no power series at 0 without negative coefficients, else "".

    For a callable, the series is computed from values near 0 in float64, so tiny coefficients and
    the values further away, such as those of a clamp, are not detected.

    Raises:
        ArgumentError: If the name is unknown, or a callable is not elementwise.
    """
    if isinstance(q, str):
        is_mercer = nonlinearity(q, "q").mercer
        return "" if is_mercer else f"{q} has no power series at 0 without negative coefficients"
    for radius in RADII:
        values = _values(q, radius)
        if not np.isfinite(values).all():
            continue
        scale = max(np.abs(values).max(), np.finfo(float).tiny)
        series = chebyshev.chebfit(_NODES, values, DEGREE)
        if np.abs(series[-3:]).max() > 1e2 * ROUNDING * scale:
            continue  # no power series converges on [-radius, radius]
        scaled = _TO_POWERS @ series  # a_k radius^k
        uncertainty = ROUNDING * scale * np.abs(_TO_POWERS).sum(1)
        worst = int(np.argmin(scaled + uncertainty))
        if scaled[worst] + uncertainty[worst] < 0:
            coefficient = scaled[worst] / radius**worst
            return f"the coefficient of z^{worst} in its power series at 0 is {coefficient:.3g}"
        return ""
    return f"no power series for it converges on |z| <= {RADII[-1]}"


def _values(q: Callable[[Tensor], Tensor], radius: float) -> np.ndarray:
    z = torch.from_numpy(radius * _NODES)
    with torch.no_grad():
        values = q(z)
    if not isinstance(values, Tensor) or values.shape != z.shape:
        raise ArgumentError("q", q, "an elementwise function of a tensor, or a name")
    return values.double().numpy()


def _to_powers() -> np.ndarray:
    """Return the coefficients of z^k in the Chebyshev polynomials, ``(k, polynomial)``."""
    matrix = np.zeros((DEGREE + 1, DEGREE + 1))
    for j, unit in enumerate(np.eye(DEGREE + 1)):
        powers = chebyshev.cheb2poly(unit)
        matrix[: len(powers), j] = powers
    return matrix


_NODES = chebyshev.chebpts1(DEGREE + 1)
_TO_POWERS = _to_powers()
