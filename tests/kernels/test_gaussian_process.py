"""Exact kernels in scikit-learn's Gaussian processes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from tests.kernels.test_learned_parameters import CASES, TEXTS, text_kernel

from representer.errors import ArgumentError
from representer.kernels import GaussianProcessKernel, TextKernel
from representer.kernels.composition import with_values
from representer.kernels.gram import as_array

BOUNDS = {"kernel__decay": (0.01, 0.99)}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_differences(name):
    kernel, objects, number = CASES[name]
    X, step = np.arange(len(objects))[:, None], 1e-5
    learned = GaussianProcessKernel(kernel, objects, {number: (0.01, 0.99)})
    K, gradient = learned(X, eval_gradient=True)
    np.testing.assert_allclose(K, as_array(kernel(objects)))
    after, before = (learned.clone_with_theta(learned.theta + sign * step)(X) for sign in (1, -1))
    np.testing.assert_allclose(gradient[..., 0], (after - before) / (2 * step), atol=1e-8)
    assert np.abs(gradient).max() > 1e-3
    np.testing.assert_allclose(learned.diag(X), K.diagonal())


def test_a_process_learns_the_decay_that_drew_its_values():
    rng, noise = np.random.default_rng(0), 1e-6
    drawn = text_kernel(0.3)(TEXTS)
    y = np.linalg.cholesky(drawn + noise * np.eye(len(TEXTS))) @ rng.normal(size=len(TEXTS))
    kernel = ConstantKernel() * GaussianProcessKernel(text_kernel(0.7), learn=BOUNDS)
    model = GaussianProcessRegressor(clone(kernel), alpha=noise).fit(TEXTS[:30], y[:30])
    assert model.kernel_.k2.kernel.kernel.decay == pytest.approx(0.3, abs=0.02)
    assert kernel.k2.kernel.kernel.decay == 0.7  # that of the argument stays
    assert np.abs(model.predict(TEXTS[30:]) - y[30:]).max() < 0.1


def test_sums_and_products_have_the_hyperparameters_of_their_parts():
    kernel = ConstantKernel(2.0) * GaussianProcessKernel(text_kernel(0.5), learn=BOUNDS)
    both = kernel + WhiteKernel(0.1)
    np.testing.assert_allclose(np.exp(both.theta), [2.0, 0.5, 0.1])
    assert len(both.bounds) == 3
    assert GaussianProcessKernel(text_kernel(0.5)).bounds.shape == (0, 2)
    assert both(TEXTS[:4], eval_gradient=True)[1].shape == (4, 4, 3)
    assert GaussianProcessKernel(text_kernel(0.5))(TEXTS[:4], eval_gradient=True)[1].shape[2] == 0


def test_a_fitted_kernel_stays_fitted():
    kernel = TextKernel(min_count=1, min_characters=1).fit(TEXTS)
    rows, y = np.arange(30)[:, None], np.arange(30.0)
    model = GaussianProcessRegressor(GaussianProcessKernel(kernel, TEXTS), alpha=0.1).fit(rows, y)
    expected = kernel(TEXTS[30:], TEXTS[:30]) @ np.linalg.solve(
        kernel(TEXTS[:30]) + 0.1 * np.eye(30), y
    )
    np.testing.assert_allclose(model.predict(np.arange(30, 40)[:, None]), expected)
    assert with_values(kernel, {"min_count": 2}).views_


def test_bounds_are_checked():
    with pytest.raises(ArgumentError, match="learn is 'decays'; expected one of kernel__decay"):
        GaussianProcessKernel(text_kernel(0.5), learn={"decays": (0.1, 0.9)})
    with pytest.raises(ArgumentError, match=r"expected a number between 0.6 and 0.9"):
        GaussianProcessKernel(text_kernel(0.5), learn={"kernel__decay": (0.6, 0.9)})
