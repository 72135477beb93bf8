"""Weights of kernels by the marginal likelihood of a Gaussian process."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from representer.kernels.subtree_kernel import JITTER, _loss, block_weights

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(40, 3)) for _ in range(2)]
X = [x - x.mean(0) for x in X]  # as the targets, which are centered
BLOCKS = [x @ x.T for x in X]
Y = np.stack([X[0] @ [1.0, 2, 3] + 0.3 * RNG.normal(size=40), X[0][:, 0] - 1], axis=1)
Y = (Y - Y.mean(0)) / Y.std(0)


def test_the_loss_is_the_negative_logarithm_of_the_marginal_likelihood():
    logs = np.log([0.7, 1e-30, 0.2])
    loss, _ = _loss(logs, BLOCKS, Y)
    covariance = 0.7 * BLOCKS[0] + (0.2 + JITTER) * np.eye(40)
    peers = [multivariate_normal(cov=covariance).logpdf(y) for y in Y.T]
    constant = Y.size * np.log(2 * np.pi) / 2
    assert loss == pytest.approx(-np.sum(peers) - constant, rel=1e-9)


def test_the_kernel_that_explains_the_targets_gets_the_weight():
    weights, noise = block_weights(BLOCKS, Y[:, :1])
    assert weights[0] > 100 * weights[1]
    assert noise == pytest.approx(0.09 / np.var(X[0] @ [1.0, 2, 3]), rel=0.5)


def test_scale_and_offset_of_the_targets_have_no_influence():
    weights, noise = block_weights(BLOCKS, Y)
    again, same = block_weights(BLOCKS, 9 + 100 * Y)
    np.testing.assert_allclose(again, weights, rtol=1e-3)
    assert same == pytest.approx(noise, rel=1e-3)


def test_targets_that_are_constant_leave_all_weights_equal():
    weights, noise = block_weights(BLOCKS, np.ones((40, 1)))
    assert (weights.tolist(), noise) == ([0.5, 0.5], 1.0)
