"""Networks and a Gaussian process answering together: the parts and the mixture's moments."""

from __future__ import annotations

import numpy as np
import pytest

from representer.estimators.mixture import gp_weights, mixture

RNG = np.random.default_rng(0)
TRUTH = RNG.normal(size=(40, 2))
GP, NETWORKS = TRUTH + RNG.normal(size=(2, 40, 2)) * [[[0.5, 1.0]], [[1.0, 0.5]]]


def test_the_part_is_that_of_the_least_squares():
    parts = gp_weights(GP, NETWORKS, TRUTH)
    grid = np.linspace(0, 1, 1001)[:, None, None]
    errors = ((grid * GP + (1 - grid) * NETWORKS - TRUTH) ** 2).sum(1)
    np.testing.assert_allclose(parts, grid[errors.argmin(0), 0, 0], atol=1e-3)  # of the grid
    assert parts[0] > 0.5 > parts[1]


def test_the_part_lies_between_0_and_1():
    assert gp_weights(TRUTH, NETWORKS, TRUTH) == pytest.approx((1.0, 1.0))
    assert gp_weights(NETWORKS + 1, NETWORKS, TRUTH - 9) == (0.0, 0.0)
    assert gp_weights(NETWORKS - 1, NETWORKS, TRUTH - 9) == (1.0, 1.0)


def test_where_nothing_tells_them_apart_the_networks_answer():
    assert gp_weights(NETWORKS, NETWORKS, TRUTH) == (0.0, 0.0)
    unknown = np.where(np.arange(2) == 1, np.nan, TRUTH)
    parts = gp_weights(GP, NETWORKS, unknown)
    assert parts == (gp_weights(GP, NETWORKS, TRUTH)[0], 0.0)


def test_missing_values_say_nothing():
    some = np.where(np.arange(40)[:, None] < 30, TRUTH, np.nan)
    found = gp_weights(GP, NETWORKS, some)
    np.testing.assert_allclose(found, gp_weights(GP[:30], NETWORKS[:30], TRUTH[:30]))


def test_mean_and_variance_are_those_of_draws_from_the_mixture():
    answers, variances = mixture((0.3,), (np.array([[1.0]]), np.array([[0.5]])),
                                 (np.array([[3.0]]), np.array([[0.2]])))  # fmt: skip
    of_gp = RNG.random(400_000) < 0.3
    draws = np.where(of_gp, 1 + RNG.normal(size=400_000) * 0.5**0.5,
                     3 + RNG.normal(size=400_000) * 0.2**0.5)  # fmt: skip
    # 4e5 draws of deviation 1.1: mean within 0.002, variance within 0.004, at one deviation
    assert answers[0, 0] == pytest.approx(draws.mean(), abs=0.01)
    assert variances[0, 0] == pytest.approx(draws.var(), abs=0.02)


@pytest.mark.parametrize(("parts", "wanted"), [((1.0, 1.0), GP), ((0.0, 0.0), NETWORKS)])
def test_a_mixture_of_one_part_is_that_part(parts, wanted):
    ones = np.ones_like(TRUTH)
    answers, variances = mixture(parts, (GP, ones), (NETWORKS, ones))
    np.testing.assert_allclose(answers, wanted, rtol=1e-12)
    np.testing.assert_allclose(variances, ones, rtol=1e-12)
