from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from looped import looped
from representer.errors import ArgumentError
from representer.functional import NONLINEARITIES, nonlinearity

# the power series at 0 up to z^4, from the formulas
SERIES = {
    "identity": [0, 1, 0, 0, 0],
    "linear": [0, 1 / 2, 0, 0, 0],
    "polynomial": [1 / 4, 1 / 2, 1 / 4, 0, 0],
    "exponential": [0, 1 / 2, 1 / 4, 1 / 12, 1 / 48],
    "inverse": [0, 1 / 2, 1 / 4, 1 / 8, 1 / 16],
    "gaussian": [1, 1, 1 / 2, 1 / 6, 1 / 24],
    "tanh": [0, 1, 0, -1 / 3, 0],
    "sigmoid": [1 / 2, 1 / 4, 0, -1 / 48, 0],
}

KINKED = ["relu"]  # no power series at 0


def taylor(q, order: int) -> list[float]:
    """Return the coefficients of z^k at 0 by repeated differentiation."""
    z = torch.zeros((), dtype=torch.float64, requires_grad=True)
    value, factorial, coefficients = q(z), 1, []
    for k in range(order + 1):
        coefficients.append(value.item() / factorial)
        factorial *= k + 1
        if not value.requires_grad:
            return coefficients + [0.0] * (order - k)
        (value,) = torch.autograd.grad(value, z, create_graph=True, materialize_grads=True)
    return coefficients


@pytest.mark.parametrize("name", NONLINEARITIES)
@settings(deadline=None)
@given(z=st.floats(-1.5, 1.5))
def test_the_derivative_matches_autograd(name, z):
    function = NONLINEARITIES[name]
    z = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    y = function.value(z)
    (expected,) = torch.autograd.grad(y, z)
    torch.testing.assert_close(function.derivative(z, y).detach(), expected)


@pytest.mark.parametrize("name", SERIES)
def test_the_power_series_at_0_matches_the_formula(name):
    assert taylor(NONLINEARITIES[name].value, 4) == pytest.approx(SERIES[name], abs=1e-12)


def test_a_function_without_a_power_series_is_not_a_mercer_kernel():
    assert sorted(NONLINEARITIES) == sorted([*SERIES, *KINKED])
    assert not any(NONLINEARITIES[name].mercer for name in KINKED)


@pytest.mark.parametrize("name", SERIES)
def test_a_function_is_marked_as_mercer_if_its_series_has_no_negative_coefficient(name):
    coefficients = taylor(NONLINEARITIES[name].value, 6)
    assert NONLINEARITIES[name].mercer == (min(coefficients) >= 0)


@pytest.mark.parametrize("name", NONLINEARITIES)
@looped("dtype", [torch.float32, torch.float64])
def test_value_and_derivative_keep_dtype_and_shape(name, dtype):
    z = torch.linspace(-1, 1, 6, dtype=dtype).reshape(2, 3)
    y = NONLINEARITIES[name].value(z)
    for result in (y, NONLINEARITIES[name].derivative(z, y)):
        assert (result.dtype, result.shape) == (dtype, z.shape)


def test_the_error_for_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        ArgumentError, match=r"q is 'tan'; expected one of identity, linear, .*tanh"
    ):
        nonlinearity("tan", "q")
