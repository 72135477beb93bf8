"""Exact kernels in GPyTorch."""

from __future__ import annotations

import copy
import sys

import gpytorch
import numpy as np
import pytest
import torch
from tests.kernels.test_learned_parameters import CASES, TEXTS, text_kernel

from representer import kernels
from representer.errors import ArgumentError, MissingExtraError
from representer.kernels import GPyTorchKernel, StringKernel
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


def test_kernels_are_summed_with_learned_weights():
    parts = [StringKernel(n, 0.5, base="delta").cosine() for n in (1, 2)]
    made = GPyTorchKernel(parts, TEXTS[:6], BOUNDS).double()
    made.weights = torch.tensor([0.3, 1.7])
    x = rows(*range(6))
    expected = 0.3 * parts[0](TEXTS[:6]) + 1.7 * parts[1](TEXTS[:6])
    np.testing.assert_allclose(made(x).to_dense().detach(), expected, rtol=1e-6)
    parameters = dict(made.named_parameters())

    def gram(*values: torch.Tensor) -> torch.Tensor:
        given = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(made, given, (x, x), {"diag": False}).to_dense()

    assert torch.autograd.gradcheck(gram, [*parameters.values()])


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


def test_without_gpytorch_the_message_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "representer.kernels.gpytorch_kernel")
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    with pytest.raises(MissingExtraError, match=r"needs gpytorch: .*representer\[gp\]"):
        _ = kernels.GPyTorchKernel
