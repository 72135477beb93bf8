"""Learned activations and what is derived from nonlinearities."""

from __future__ import annotations

import math
from functools import cached_property

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from representer.errors import ArgumentError, ShapeError
from representer.functional import (
    GREENS,
    NONLINEARITIES,
    Cell,
    StringChain,
    activation_regularization,
    green_function,
    kbrn_scan,
    kernel_activation,
    nonlinearity,
)

# The kernel expansion as printed: the sum, its Green functions, its errors.


def test_the_activation_is_the_sum_over_the_centers():
    generator = torch.Generator().manual_seed(0)
    a, c, chi = (torch.randn(s, generator=generator).double() for s in ((5, 2), (2, 3), (2, 3)))
    found = kernel_activation(a, c, chi, green="cubic")
    for n in range(5):
        for i in range(2):
            total = sum(chi[i, k] * abs(a[n, i] - c[i, k]) ** 3 for k in range(3))
            assert found[n, i].item() == pytest.approx(total.item(), rel=1e-12)


@pytest.mark.parametrize(("green", "at", "value", "slope"), [
    ("abs", -2.0, 2.0, -1.0), ("abs", 0.0, 0.0, 0.0), ("relu", -2.0, 0.0, 0.0),
    ("relu", 3.0, 3.0, 1.0), ("cubic", -2.0, 8.0, -12.0),
    ("gaussian", 2.0, math.exp(-0.5), -0.5 * math.exp(-0.5)),
])  # fmt: skip
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


# The recurrence of learned activations, against values computed by hand.


def test_a_batch_is_normalized_by_its_standard_deviation_at_every_step():
    """Inputs 1 and 5 have mean 3 and standard deviation 2; 0 and 20, mean 10 and deviation 10."""
    z = torch.tensor([[1.0, 5.0], [0.0, 20.0]])[:, :, None].double()
    one, norm = torch.ones(1, 1).double(), torch.tensor([[2.0], [0.5]]).double()
    given = torch.zeros(2, 2, 2, 1).double()
    output, _, used = kbrn_scan(
        z, torch.zeros(2, 1).double(), 0 * one, 0 * one, weight=0 * one,
        line=torch.tensor([[1.0, 0.0]]).double(), norm=norm, statistics=given,
        batch_statistics=True, epsilon=1e-12,
    )  # fmt: skip
    expected = torch.tensor([[-1.5, 2.5], [-1.5, 2.5]]).double()
    torch.testing.assert_close(output[:, :, 0], expected)
    assert used.flatten().tolist() == pytest.approx([3.0, 10.0, 4.0, 100.0])


def test_a_step_of_a_single_sequence_uses_the_given_statistics():
    z = torch.tensor([[1.0, 5.0], [0.0, 20.0]])[:, :, None].double()
    one = torch.ones(1, 1).double()
    given = torch.tensor([[[7.0, 7.0], [8.0, 8.0]], [[1.0, 1.0], [4.0, 4.0]]])[..., None].double()
    output, _, used = kbrn_scan(
        z, torch.zeros(2, 1).double(), 0 * one, 0 * one, weight=0 * one,
        line=torch.tensor([[1.0, 0.0]]).double(), norm=torch.tensor([[1.0], [0.0]]).double(),
        statistics=given, batch_statistics=True, lengths=torch.tensor([1, 2]), epsilon=1e-12,
    )  # fmt: skip
    torch.testing.assert_close(output[:, :, 0], torch.tensor([[-1.0, 1.0], [0.0, 6.0]]).double())
    assert used[:, 1].flatten().tolist() == [0.0, 0.0]


# AR and TAR are the sums as written.


def test_the_penalties_match_sums_over_entries_and_steps() -> None:
    torch.manual_seed(0)
    dropped, raw = torch.randn(2, 4, 3, 5, dtype=torch.float64).unbind()
    ar = sum(v * v for v in dropped.flatten().tolist()) / (4 * 3 * 5)
    steps = [(raw[t + 1] - raw[t]).flatten().tolist() for t in range(3)]
    tar = sum(v * v for step in steps for v in step) / (3 * 3 * 5)
    result = activation_regularization(dropped, raw, alpha=2.5, beta=0.7)
    assert result.item() == pytest.approx(2.5 * ar + 0.7 * tar, rel=1e-12)


def test_the_defaults_are_those_of_the_paper() -> None:
    raw = torch.tensor([[[1.0]], [[4.0]]])
    assert activation_regularization(raw / 2, raw).item() == 2 * (0.25 + 4) / 2 + 1 * 9


def test_tar_is_zero_for_one_step() -> None:
    x = torch.full((1, 2, 3), 2.0)
    assert activation_regularization(x, x, 1, 1).item() == 4


def test_mismatched_shapes_are_rejected() -> None:
    with pytest.raises(ShapeError, match=r"dropped has shape \(2, 3\)"):
        activation_regularization(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(ShapeError, match=r"\(2, 3, 4\); expected \(2, 3, 5\), the shape of"):
        activation_regularization(torch.ones(2, 3, 5), torch.ones(2, 3, 4))


# Derived fields are there before they are read, as torch.compile needs.


@pytest.mark.parametrize("made", [Cell("dynamic", "dynamic", True), StringChain(2)])
def test_every_cached_property_is_computed_when_the_object_is_made(made):
    names = {name for name, own in vars(type(made)).items() if isinstance(own, cached_property)}
    assert len(names) >= 5
    assert names <= set(vars(made))


# the power series at 0 up to z^4, from the formulas
SERIES = {
    "identity": [0, 1, 0, 0, 0], "linear": [0, 1 / 2, 0, 0, 0],
    "polynomial": [1 / 4, 1 / 2, 1 / 4, 0, 0], "exponential": [0, 1 / 2, 1 / 4, 1 / 12, 1 / 48],
    "inverse": [0, 1 / 2, 1 / 4, 1 / 8, 1 / 16], "gaussian": [1, 1, 1 / 2, 1 / 6, 1 / 24],
    "tanh": [0, 1, 0, -1 / 3, 0], "sigmoid": [1 / 2, 1 / 4, 0, -1 / 48, 0],
}  # fmt: skip

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


def test_the_error_for_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        ArgumentError, match=r"q is 'tan'; expected one of identity, linear, .*tanh"
    ):
        nonlinearity("tan", "q")
