"""Errors of answers in numbers, and their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from representer.report.metrics import (
    UNSEEN_ALONE,
    classification_metrics,
    difference_of_squares,
    regression_metrics,
    rmse_difference,
)
from representer.report.page import Column, Predictions, figures_of

TRUTH = np.array([1.0, 2.0, 3.0, 4.0])


def test_the_figures_are_those_of_their_definitions():
    found = regression_metrics(TRUTH, TRUTH + np.array([1, -1, 2, 0]))
    assert found["count"] == 4
    assert found["rmse"] == pytest.approx((6 / 4) ** 0.5)
    assert found["mae"] == 1.0
    assert found["r2"] == pytest.approx(1 - 6 / 5)
    low, high = found["rmse_interval"]
    # the squares 1, 1, 4, 0 have a variance of 4/3 of their mean² and a skewness of 8/9; ten of 8
    varied = 4 / 3 * (1 + 2 * (8 / 9) ** 2 / 4)
    freedom = 8 / ((4 * varied + 10 * 8) / 14)
    assert low == pytest.approx((freedom * 1.5 / chi2.ppf(0.975, freedom)) ** 0.5)
    unseen = UNSEEN_ALONE * 4 / 4  # squares as large as the largest, 4, of four
    assert high == pytest.approx((freedom * 1.5 / chi2.ppf(0.025, freedom) + unseen) ** 0.5)


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
    assert held / 100 >= 0.88


@pytest.mark.parametrize("count", [3, 12, 50])
def test_heavy_tails_do_not_leave_the_interval_more_often_than_it_says(count):
    errors = np.random.default_rng(count).laplace(scale=0.5**0.5, size=(400, count))
    found = [regression_metrics(np.zeros(count), one)["rmse_interval"] for one in errors]
    assert sum(not low <= 1 <= high for low, high in found) <= 0.06 * 400


@pytest.mark.parametrize("count", [6, 12, 24])
def test_errors_of_different_shapes_are_told_apart_as_rarely_as_the_interval_says(count):
    rng, told = np.random.default_rng(count), 0
    for errors in rng.standard_normal((400, count)):
        _, low, high = rmse_difference(np.zeros(count), errors, np.ones(count))
        told += low > 0 or high < 0
    assert told <= 0.06 * 400


@pytest.mark.parametrize(("count", "share", "size"), [(100, 0.1, 3), (50, 0.05, 4), (100, 0.05, 4)])
def test_rare_large_errors_are_told_from_others_as_rarely_as_the_interval_says(count, share, size):
    rng, told, left_out = np.random.default_rng(count), 0, 0
    for _ in range(800):
        errors = rng.standard_normal((2, count))
        large = np.where(rng.random(count) < share, size, 1)
        errors[1] *= large / (1 - share + share * size**2) ** 0.5
        _, low, high = rmse_difference(np.zeros(count), *errors)
        told += low > 0 or high < 0
        low, high = regression_metrics(np.zeros(count), errors[1])["rmse_interval"]
        left_out += not low <= 1 <= high
    assert told <= 0.06 * 800
    assert left_out <= 0.06 * 800


def test_errors_that_are_clearly_larger_are_found_to_be():
    rng = np.random.default_rng(0)
    differences = [
        rmse_difference(np.zeros(100), errors, 1.6 * errors + 0.3 * rng.standard_normal(100))
        for errors in rng.standard_normal((50, 100))
    ]
    assert sum(high < 0 for _, _, high in differences) >= 48


@pytest.mark.parametrize("count", [6, 30])
def test_models_on_groups_of_like_errors_differ_as_rarely_as_the_interval_says(count):
    rng, told, left_out = np.random.default_rng(count), 0, 0
    groups = np.repeat(np.arange(count), 3 + 7 * (np.arange(count) % 2))
    truth = np.zeros(len(groups))
    for errors in rng.standard_normal((250, 2, count)):
        pair = errors[:, groups] + 0.3 * rng.standard_normal((2, len(groups)))
        _, low, high = rmse_difference(truth, *pair, groups)
        told += low > 0 or high < 0
        low, high = regression_metrics(truth, pair[0], groups=groups)["rmse_interval"]
        left_out += not low <= 1.09**0.5 <= high
    assert told <= 0.06 * 250
    assert left_out <= 0.08 * 250


def test_rows_of_few_groups_tell_nothing():
    groups, errors = np.repeat(np.arange(5), 40), np.random.default_rng(0).standard_normal(200)
    assert rmse_difference(np.zeros(200), errors, 3 * errors)[2] < 0
    assert rmse_difference(np.zeros(200), errors, 3 * errors, groups)[2] == 0
    alone = rmse_difference(np.zeros(200), errors, 3 * errors, np.zeros(200))
    assert np.isfinite(alone).all()
    assert alone[2] >= 0


def test_the_side_of_the_larger_errors_is_wider():
    squares = np.array([1.0, 1, 1, 1, 1, 1, 1, 1, 1, 30])
    low, high = difference_of_squares(squares, np.ones(10))
    center = (squares - 1).mean()
    assert high - center > 1.2 * (center - low)
    assert difference_of_squares(np.ones(10), squares) == pytest.approx((-high, -low))


def test_copies_do_not_narrow_the_interval():
    truth, errors = np.arange(8.0), np.array([1.0, -2, 1, 3, -1, 2, -1, 1])
    alone = figures_of(Column("", truth, []), Predictions(truth + errors))
    copied = figures_of(
        Column("", np.tile(truth, 9), []), Predictions(np.tile(truth + errors, 9)),
        np.tile(np.arange(8), 9),
    )  # fmt: skip
    assert (copied["count"], copied["independent"]) == (72, 8)
    assert copied["rmse_interval"] == pytest.approx(alone["rmse_interval"], rel=0.05)
    names, chances = ["a", "b"], np.eye(2)[[0, 0, 1, 1, 1, 1]]
    once = classification_metrics(np.array([0, 0, 1, 1, 1, 0]), chances, names)
    figures = figures_of(
        Column("", np.tile([0, 0, 1, 1, 1, 0], 9), names),
        Predictions(np.tile([0, 0, 1, 1, 1, 1], 9), np.tile(chances, (9, 1))),
        np.tile(np.arange(6), 9),
    )
    assert figures["accuracy_interval"] == pytest.approx(once["accuracy_interval"])


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
