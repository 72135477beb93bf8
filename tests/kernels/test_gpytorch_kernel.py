"""Exact kernels in GPyTorch."""

from __future__ import annotations

import copy
import sys

import gpytorch
import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel
from tests.kernels.test_composition import CASES, TEXTS, text_kernel

from representer import kernels
from representer.errors import ArgumentError, MissingExtraError
from representer.kernels import (
    GaussianProcessKernel,
    GPyTorchKernel,
    Linear,
    Nystroem,
    RandomWalkKernel,
    StringKernel,
    TextKernel,
)
from representer.kernels.composition import with_values
from representer.kernels.gram import as_array

BOUNDS = {"kernel__decay": (0.01, 0.99)}


def rows(*numbers: int) -> torch.Tensor:
    """Return row numbers as GPyTorch passes them."""
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_kernel_is_the_exact_one(name, learn):
    kernel, objects, number = CASES[name]
    made = GPyTorchKernel(kernel, objects, {number: (0.01, 0.99)} if learn else None).double()
    x, z = rows(*range(len(objects))), rows(2, 0)
    expected = torch.from_numpy(as_array(kernel(objects)))
    torch.testing.assert_close(made(x).to_dense(), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(made(x, z).to_dense(), expected[:, [2, 0]], rtol=1e-6, atol=0)
    torch.testing.assert_close(made(x, diag=True), expected.diagonal(), rtol=1e-6, atol=0)
    batch = made(x[:, None], z).to_dense()  # as an acquisition of BoTorch calls it
    torch.testing.assert_close(batch, expected[:, None, [2, 0]], rtol=1e-6, atol=0)


def test_a_batch_of_kernels_has_weights_and_learned_numbers_of_its_own():
    made = GPyTorchKernel(StringKernel(2, 0.5, base="delta"), TEXTS[:6], {"decay": (0.01, 0.99)},
                          batch_shape=(2,)).double()  # fmt: skip
    constraint = made.raw_decay_constraint
    made.initialize(raw_decay=constraint.inverse_transform(torch.tensor([0.3, 0.8]).double()))
    made.weights = torch.tensor([[2.0], [3.0]])
    found = made(rows(*range(6))).to_dense()
    for own, decay, weight in zip(found, (0.3, 0.8), (2.0, 3.0), strict=True):
        expected = weight * StringKernel(2, decay, base="delta")(TEXTS[:6])
        np.testing.assert_allclose(own.detach(), expected, rtol=1e-6)


def test_the_row_numbers_may_be_a_column_beside_other_features():
    x = torch.randn(6, 3, dtype=torch.float64)
    x[:, 1] = torch.arange(6)
    made = GPyTorchKernel(text_kernel(0.5), TEXTS[:6], active_dims=(1,)).double()
    both = made * gpytorch.kernels.RBFKernel(active_dims=(0, 2)).double()
    expected = text_kernel(0.5)(TEXTS[:6]) * both.kernels[1](x).to_dense().detach().numpy()
    np.testing.assert_allclose(both(x).to_dense().detach(), expected, rtol=1e-6)


class Process(gpytorch.models.ExactGP):
    """A Gaussian process with a mean of 0."""

    def __init__(self, x, y, likelihood, kernel):
        super().__init__(x, y, likelihood)
        self.kernel = kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(
            torch.zeros_like(x[..., 0]), self.kernel(x)
        )


def test_the_marginal_likelihood_finds_the_decay_and_the_weights():
    drawn = text_kernel(0.3)(TEXTS)
    rng, eye = np.random.default_rng(0), np.eye(len(TEXTS))
    y = torch.from_numpy(np.linalg.cholesky(drawn + 1e-4 * eye) @ rng.normal(size=len(TEXTS)))
    parts = [StringKernel(n, 0.7, base="delta").cosine() for n in (1, 2)]
    likelihood = gpytorch.likelihoods.GaussianLikelihood(
        noise_constraint=gpytorch.constraints.GreaterThan(1e-5)
    )
    kernel, x = GPyTorchKernel(parts, TEXTS, BOUNDS), rows(*range(30))
    model = Process(x, y[:30], likelihood, kernel).double()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=15, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = -objective(model(x), y[:30])
        value.backward()
        return value

    model.train()
    optimizer.step(loss)
    assert float(kernel.values()["kernel__decay"].detach()) == pytest.approx(0.3, abs=0.1)
    assert kernel.weights[1] > 3 * kernel.weights[0]  # equal at the start
    model.eval()
    with torch.no_grad():
        error = model(rows(*range(30, 40))).mean - y[30:]
    assert error.square().mean() < 0.2 * y[30:].var()
    other = copy.deepcopy(kernel)
    other.load_state_dict(kernel.state_dict())
    assert torch.equal(other(x).to_dense(), kernel(x).to_dense())


def test_invalid_arguments_are_errors():
    with pytest.raises(ArgumentError, match="kernels is"):
        GPyTorchKernel([], TEXTS)
    made = GPyTorchKernel(text_kernel(0.5), TEXTS[:3])
    with pytest.raises(ArgumentError, match="row numbers from 0 to 2"):
        made(rows(0, 3)).to_dense()
    with pytest.raises(ArgumentError, match="X is '-1 to 3'; expected row numbers from 0 to 2"):
        GaussianProcessKernel(text_kernel(0.5), TEXTS[:3])(np.array([[0], [3], [-1]]))


def test_without_gpytorch_the_message_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "representer.kernels.gpytorch_kernel")
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    with pytest.raises(MissingExtraError, match=r"needs gpytorch: .*representer\[gp\]"):
        _ = kernels.GPyTorchKernel


# Exact kernels in scikit-learn's Gaussian processes.


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


# Landmarks of the Nyström method.


rng = np.random.default_rng(0)
X = [rng.normal(size=(n % 7, 3)) for n in range(30)]


def test_with_all_objects_as_landmarks_the_features_are_exact():
    kernel = StringKernel()
    features = Nystroem(kernel, 30).fit_transform(X)
    np.testing.assert_allclose(features @ features.T, kernel(X), atol=1e-9)


def test_the_seed_determines_the_landmarks():
    one, other = (Nystroem(Linear(), 3, random_state=7).fit(rng.normal(size=(9, 2))) for _ in "ab")
    np.testing.assert_array_equal(one.component_indices_, other.component_indices_)
    another = Nystroem(Linear(), 3, random_state=8).fit(rng.normal(size=(9, 2)))
    assert set(one.component_indices_) != set(another.component_indices_)


@pytest.mark.parametrize(("options", "X", "message"), [
    ({"n_components": 0}, X, "n_components is"), ({"n_components": 2.0}, X, "n_components is"),
    ({"block": 0}, X, r"block is .*; expected a positive integer or None"),
    ({"block": 2.0}, X, r"block is .*; expected a positive integer or None"),
    ({"kernel": StringKernel(base="delta")}, [], r"X is \[\]; expected at least one"),
    ({"kernel": RandomWalkKernel()}, [], r"X is \[\]; expected at least one"),
])  # fmt: skip
def test_landmarks_that_there_cannot_be_are_refused(options, X, message):
    with pytest.raises(ArgumentError, match=message):
        Nystroem(**{"kernel": StringKernel(), "n_components": 3} | options).fit(X).transform(X)


def test_small_eigenvalues_are_kept():
    """Only rounding errors are removed, not features of 1 % of the scale of others."""
    vectors = rng.normal(size=(12, 2)) * [1.0, 0.01]
    features = Nystroem(Linear(), 12).fit_transform(vectors)
    np.testing.assert_allclose(features @ features.T, vectors @ vectors.T, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("block", [1, 7, 30, 100])
def test_features_computed_in_blocks_have_the_same_bits_for_any_number_of_workers(block):
    whole = Nystroem(StringKernel(), 10, random_state=0).fit_transform(X)
    one = Nystroem(StringKernel(), 10, random_state=0, block=block).fit_transform(X)
    with joblib.parallel_config("threading", n_jobs=3):
        several = Nystroem(StringKernel(), 10, random_state=0, block=block).fit_transform(X)
    np.testing.assert_array_equal(one, several)
    np.testing.assert_allclose(one, whole, atol=1e-12)
