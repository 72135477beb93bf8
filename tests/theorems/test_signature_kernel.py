"""The truncated signature kernel of a path is a sum of string kernels of its increments."""

from __future__ import annotations

import numpy as np
import pytest

from representer.kernels import Gaussian, StringKernel

LEVELS = 4
RNG = np.random.default_rng(0)
PATHS = [np.cumsum(RNG.normal(size=(steps, 3)), axis=0) / 4 for steps in (5, 9, 2)]


def signature_kernel(products: np.ndarray) -> float:
    """Return the sum of the levels 0 to `LEVELS`, as KSig's first-order recursion defines it.

    ``R_1 = M`` and ``R_m[i, j] = M[i, j] * sum of R_{m-1} before i and j``; level m is the sum of
    R_m. M holds the products of the increments, or a static kernel of them.
    """
    before, total = products, 1.0 + products.sum()
    for _ in range(LEVELS - 1):
        sums = np.pad(before, ((1, 0), (1, 0))).cumsum(0).cumsum(1)[:-1, :-1]
        before = products * sums
        total += before.sum()
    return float(total)


def gaussian(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.exp(-((x[:, None] - y[None]) ** 2).sum(2) / 2)


@pytest.mark.parametrize("base", ["linear", "gaussian"])
def test_it_is_the_sum_of_string_kernels_without_decay(base):
    increments = [np.diff(path, axis=0) for path in PATHS]
    static = (lambda x, y: x @ y.T) if base == "linear" else gaussian
    expected = [[signature_kernel(static(x, y)) for y in increments] for x in increments]
    token = "linear" if base == "linear" else Gaussian()
    kernel = sum(StringKernel(n, decay=1.0, base=token) for n in range(1, LEVELS + 1))
    np.testing.assert_allclose(1 + kernel(increments), expected, rtol=1e-10)


def test_products_of_increments_are_second_differences_of_those_of_points():
    x, y = PATHS[:2]
    products = np.diff(np.diff(x @ y.T, axis=0), axis=1)
    kernel = sum(StringKernel(n, decay=1.0) for n in range(1, LEVELS + 1))
    value = 1 + kernel([np.diff(x, axis=0)], [np.diff(y, axis=0)])[0, 0]
    assert value == pytest.approx(signature_kernel(products), rel=1e-10)
