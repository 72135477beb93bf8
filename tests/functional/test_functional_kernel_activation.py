"""The kernel expansion as printed: the sum, its Green functions, its errors."""

from __future__ import annotations

import math

import pytest
import torch

from representer.errors import ArgumentError
from representer.functional import GREENS, green_function, kernel_activation


def test_the_activation_is_the_sum_over_the_centers():
    generator = torch.Generator().manual_seed(0)
    a, c, chi = (torch.randn(s, generator=generator).double() for s in ((5, 2), (2, 3), (2, 3)))
    found = kernel_activation(a, c, chi, green="cubic")
    for n in range(5):
        for i in range(2):
            total = sum(chi[i, k] * abs(a[n, i] - c[i, k]) ** 3 for k in range(3))
            assert found[n, i].item() == pytest.approx(total.item(), rel=1e-12)


@pytest.mark.parametrize(
    ("green", "at", "value", "slope"),
    [
        ("abs", -2.0, 2.0, -1.0),
        ("abs", 0.0, 0.0, 0.0),
        ("relu", -2.0, 0.0, 0.0),
        ("relu", 3.0, 3.0, 1.0),
        ("cubic", -2.0, 8.0, -12.0),
        ("gaussian", 2.0, math.exp(-0.5), -0.5 * math.exp(-0.5)),
    ],
)
def test_green_functions_and_their_derivatives(green, at, value, slope):
    u = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    found = green_function(green, 2.0)(u)
    assert found.item() == pytest.approx(value, rel=1e-12)
    assert torch.autograd.grad(found, u)[0].item() == pytest.approx(slope, rel=1e-12)


def test_a_callable_is_accepted_as_green_function():
    a, ones = torch.tensor([[2.0]]), torch.ones(1, 1)
    assert kernel_activation(a, ones, 3 * ones, green=torch.exp).item() == pytest.approx(3 * math.e)


def test_invalid_green_functions_and_bandwidths_are_rejected():
    with pytest.raises(ArgumentError, match="green is 'spline'; expected one of abs, relu"):
        green_function("spline")
    with pytest.raises(ArgumentError, match="bandwidth is 0; expected a number above 0"):
        green_function("gaussian", 0)
    assert list(GREENS) == [
        "abs",
        "relu",
        "gaussian",
        "cubic",
    ]  # the core uses this order
