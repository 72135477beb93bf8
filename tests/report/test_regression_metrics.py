"""Errors of answers in numbers, and their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from representer.report.metrics import regression_metrics, rmse_difference

TRUTH = np.array([1.0, 2.0, 3.0, 4.0])


def test_the_figures_are_those_of_their_definitions():
    found = regression_metrics(TRUTH, TRUTH + np.array([1, -1, 2, 0]))
    assert found["count"] == 4
    assert found["rmse"] == pytest.approx((6 / 4) ** 0.5)
    assert found["mae"] == 1.0
    assert found["r2"] == pytest.approx(1 - 6 / 5)
    low, high = found["rmse_interval"]
    # the squares 1, 1, 4, 0 vary less than those of normal errors: 4 degrees of freedom
    assert low == pytest.approx((6 / 11.1433) ** 0.5, rel=1e-4)
    assert high == pytest.approx((6 / 0.484419) ** 0.5, rel=1e-4)


def test_the_mean_has_no_r2_and_one_value_has_none():
    assert regression_metrics(TRUTH, np.full(4, 2.5))["r2"] == pytest.approx(0)
    assert regression_metrics(np.ones(3), np.ones(3))["r2"] is None


def test_an_interval_holds_the_error_of_the_population_as_often_as_it_says():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(100):
        errors = rng.normal(size=100)
        low, high = regression_metrics(np.zeros(100), errors)["rmse_interval"]
        held += low <= 1 <= high
    assert 0.88 <= held / 100 <= 0.99


@pytest.mark.parametrize("count", [3, 12, 50])
def test_equally_good_models_differ_as_rarely_as_the_interval_says(count):
    rng, told, left_out = np.random.default_rng(count), 0, 0
    for errors in rng.standard_normal((400, 2, count)):
        _, low, high = rmse_difference(np.zeros(count), *errors)
        told += low > 0 or high < 0
        low, high = regression_metrics(np.zeros(count), errors[0])["rmse_interval"]
        left_out += not low <= 1 <= high
    assert told <= 0.06 * 400
    assert left_out <= 0.08 * 400  # 5 % and three standard errors of 400 draws


@pytest.mark.parametrize("count", [1, 2, 5])
def test_fewer_than_six_examples_tell_nothing(count):
    worse = np.array([4.0, 5.0, 4.0, 5.0, 6.0])[:count]
    difference, low, high = rmse_difference(np.zeros(count), 0 * worse, worse)
    assert difference == pytest.approx(-((worse**2).mean() ** 0.5))
    assert low < difference < 0 <= high


def test_a_difference_is_that_of_pairs():
    rng = np.random.default_rng(0)
    truth, noise = rng.normal(size=300), rng.normal(size=300)
    ours, theirs = truth + noise, truth + 1.1 * noise
    difference, low, high = rmse_difference(truth, ours, theirs)
    assert low < difference < high < 0  # certain, though each interval alone is wide
    assert difference == pytest.approx(-0.1 * (noise**2).mean() ** 0.5)
    assert rmse_difference(truth, ours, ours) == (0, 0, 0)
    assert rmse_difference(truth, theirs, ours)[0] == pytest.approx(-difference)
