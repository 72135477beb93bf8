from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import pairwise

from representer.errors import ArgumentError, KindError, ShapeError
from representer.kernels import Gaussian, InversePolynomial, Linear, Polynomial, StringKernel

X = 0.5 * np.random.default_rng(0).normal(size=(6, 3))
Y = 0.5 * np.random.default_rng(1).normal(size=(4, 3))


def test_point_kernels_match_those_of_scikit_learn():
    for kernel, expected in (
        (Linear(), pairwise.linear_kernel(X, Y)),
        (Polynomial(3, 0.5, 2.0), pairwise.polynomial_kernel(X, Y, degree=3, gamma=2, coef0=0.5)),
        (Gaussian(0.7), pairwise.rbf_kernel(X, Y, gamma=1 / (2 * 0.49))),
    ):
        np.testing.assert_allclose(kernel(X, Y), expected)


def test_the_inverse_polynomial_is_the_sum_of_all_powers():
    powers = sum((X @ Y.T) ** k / 2 ** (k + 1) for k in range(60))
    np.testing.assert_allclose(InversePolynomial()(X, Y), powers)


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


@pytest.mark.parametrize(
    ("X", "Y", "error", "message"),
    [
        ([X], None, ShapeError, r"X has shape \(1, 6, 3\)"),
        (X, Y[:, :2], ShapeError, r"Y has shape \(4, 2\); expected \(time, 3\)|features"),
        (X * np.nan, None, ArgumentError, r"X\[0, 0\] is nan; expected a finite number"),
        ("abc", None, KindError, "X is str"),
    ],
)
def test_invalid_lists_of_vectors_are_rejected(X, Y, error, message):
    with pytest.raises(error, match=message):
        Linear()(X, Y)


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        (Polynomial, {"degree": 0}, "degree is 0"),
        (Polynomial, {"offset": -1}, "offset is -1; expected a non-negative number"),
        (Polynomial, {"scale": 0}, "scale is 0; expected a positive number"),
        (Polynomial, {"scale": None}, "scale is None; expected a positive number"),
        (Gaussian, {"bandwidth": 0}, "bandwidth is 0; expected a positive number"),
        (Gaussian, {"bandwidth": "1"}, "bandwidth is '1'; expected a positive number"),
    ],
)
def test_invalid_arguments_are_rejected(kernel, options, message):
    with pytest.raises(ArgumentError, match=message):
        kernel(**options)
    with pytest.raises(ArgumentError, match=message):
        kernel().set_params(**options)(X)


def test_a_gaussian_is_at_most_1_despite_rounding_errors():
    x = 1e4 + torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    values = Gaussian(1e-3)(x, x.clone())
    assert values.max() <= 1
