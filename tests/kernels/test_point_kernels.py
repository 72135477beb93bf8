"""Kernels of vectors, and which are Mercer kernels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import pairwise

from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import NONLINEARITIES
from representer.kernels import Gaussian, InversePolynomial, Linear, Polynomial, StringKernel
from representer.kernels.composition import mercer_violation

X = 0.5 * np.random.default_rng(0).normal(size=(6, 3))
Y = 0.5 * np.random.default_rng(1).normal(size=(4, 3))


def test_point_kernels_match_those_of_scikit_learn():
    for kernel, expected in (
        (Linear(), pairwise.linear_kernel(X, Y)),
        (Polynomial(3, 0.5, 2.0), pairwise.polynomial_kernel(X, Y, degree=3, gamma=2, coef0=0.5)),
        (Gaussian(0.7), pairwise.rbf_kernel(X, Y, gamma=1 / (2 * 0.49))),
    ):
        np.testing.assert_allclose(kernel(X, Y), expected)


def test_the_inverse_polynomial_rejects_arguments_of_2_or_more():
    with pytest.raises(ArgumentError, match=r"<x, y> is 2.0; expected below 2.*Scale the inputs"):
        InversePolynomial()([[1.0, 1.0]])
    with pytest.raises(ArgumentError, match="below 2"):  # no kernel, though each entry is defined
        InversePolynomial()([[2.0, 0.0]], [[0.0, 1.0]])


def test_a_point_kernel_compares_the_tokens_of_a_string_kernel():
    x, y = X[:2], Y[:2]
    for base in (Gaussian(), Polynomial(), Linear(), Linear() + Gaussian(), Gaussian().cosine()):
        K = base(x, y)
        expected = 0.25 * K[0, 0] + 0.5 * (K[0, 1] + K[1, 0]) + K[1, 1]
        assert StringKernel(1, 0.5, base=base)([x], [y])[0, 0] == pytest.approx(expected)
        assert StringKernel(2, 0.5, base=base)([x, x[:0]], [y])[1, 0] == 0


def test_lists_of_vectors_are_accepted():
    np.testing.assert_allclose(Linear()(X.tolist()), X @ X.T)
    tensors = list(torch.from_numpy(X))
    torch.testing.assert_close(Linear()(tensors), torch.from_numpy(X @ X.T))


@pytest.mark.parametrize(("X", "Y", "error", "message"), [
    ([X], None, ShapeError, r"X has shape \(1, 6, 3\)"),
    (X, Y[:, :2], ShapeError, r"Y has shape \(4, 2\); expected \(time, 3\)|features"),
    (X * np.nan, None, ArgumentError, r"X\[0, 0\] is nan; expected a finite number"),
    ("abc", None, KindError, "X is str"),
])  # fmt: skip
def test_invalid_lists_of_vectors_are_rejected(X, Y, error, message):
    with pytest.raises(error, match=message):
        Linear()(X, Y)


@pytest.mark.parametrize(("kernel", "options", "message"), [
    (Polynomial, {"degree": 0}, "degree is 0"),
    (Polynomial, {"offset": -1}, "offset is -1; expected a non-negative number"),
    (Polynomial, {"scale": 0}, "scale is 0; expected a positive number"),
    (Polynomial, {"scale": None}, "scale is None; expected a positive number"),
    (Gaussian, {"bandwidth": 0}, "bandwidth is 0; expected a positive number"),
    (Gaussian, {"bandwidth": "1"}, "bandwidth is '1'; expected a positive number"),
])  # fmt: skip
def test_invalid_arguments_are_rejected(kernel, options, message):
    with pytest.raises(ArgumentError, match=message):
        kernel(**options)
    with pytest.raises(ArgumentError, match=message):
        kernel().set_params(**options)(X)


def test_a_gaussian_is_at_most_1_despite_rounding_errors():
    x = 1e4 + torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    values = Gaussian(1e-3)(x, x.clone())
    assert values.max() <= 1


GOOD = {
    "0": torch.zeros_like, "3": lambda z: torch.full_like(z, 3), "z^2": torch.square,
    "(1 + z)^3": lambda z: (1 + z) ** 3, "e^z": torch.exp,
    "1e6 e^{3z}": lambda z: 1e6 * torch.exp(3 * z), "sinh z": torch.sinh, "asin z": torch.asin,
    "1 / (1 - z)": lambda z: 1 / (1 - z), "1 / (1 - 10 z)": lambda z: 1 / (1 - 10 * z),
    "-log(1 - z)": lambda z: -torch.log1p(-z), "1 - sqrt(1 - z)": lambda z: 1 - (1 - z).sqrt(),
}  # fmt: skip
NEGATIVE = {
    0: lambda z: z - 1, 1: lambda z: torch.exp(z) - 1.001 * z, 2: lambda z: torch.sqrt(1 + z),
    3: torch.tanh, 4: F.gelu, 5: lambda z: torch.exp(z) - z**5 / 100,
    7: lambda z: torch.exp(z) - z**7 / 1000,
}  # fmt: skip
NO_SERIES = {"relu": torch.relu, "abs": torch.abs, "elu": F.elu, "log": torch.log}


@pytest.mark.parametrize("q", GOOD.values(), ids=GOOD.keys())
def test_a_series_without_negative_coefficients_is_accepted(q):
    assert mercer_violation(q) == ""


@pytest.mark.parametrize("power", NEGATIVE)
def test_the_reason_names_the_negative_coefficient(power):
    assert mercer_violation(NEGATIVE[power]).startswith(f"the coefficient of z^{power} ")


@pytest.mark.parametrize("q", NO_SERIES.values(), ids=NO_SERIES.keys())
def test_functions_without_a_power_series_are_rejected(q):
    assert "no power series" in mercer_violation(q)


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_callables_and_names_give_the_same_result(name):
    q = NONLINEARITIES[name]
    assert (mercer_violation(name) == "") == (mercer_violation(q.value) == "") == q.mercer


@given(coefficients=st.lists(st.floats(0, 10), min_size=1, max_size=6))
def test_every_polynomial_with_non_negative_coefficients_is_accepted(coefficients):
    assert mercer_violation(lambda z: sum(a * z**k for k, a in enumerate(coefficients))) == ""


def test_a_module_with_parameters_of_another_dtype_is_evaluated():
    weight = torch.nn.Parameter(torch.tensor(0.5))
    assert mercer_violation(lambda z: torch.exp(weight * z)) == ""
