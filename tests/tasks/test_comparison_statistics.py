"""Intervals of scores and differences over repeated splits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from representer.tasks.comparison import METRICS, Result, paired_interval, score_interval

ACCURACY, RMSE = METRICS["accuracy"], METRICS["rmse"]
QUANTILE = 4.302652729911275  # of Student's t with 2 degrees of freedom, 97.5 %


def row(losses, train=30) -> dict[int, Result]:
    return {k: Result("row", list(map(float, own)), 1.0, train) for k, own in enumerate(losses)}


def test_the_interval_of_different_test_parts_is_that_of_nadeau_and_bengio():
    first = row([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [0, 0, 0, 1, 1]])  # 80, 100, 60 %
    found = score_interval(first, ACCURACY, has_fixed_test=False)
    half = QUANTILE * math.sqrt((1 / 3 + 5 / 30) * 400)  # s² = 400
    assert found == pytest.approx((80.0, 80 - half, 100.0))  # 80 + half is no accuracy
    assert 80 + half > 100
    second = row([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])  # 80, 60, 40 %
    found = paired_interval(first, second, ACCURACY, has_fixed_test=False)
    half = QUANTILE * math.sqrt((1 / 3 + 5 / 30) * 400)  # of the differences 0, 40, 20
    assert found == pytest.approx((20.0, 20 - half, 20 + half))


def test_one_test_part_adds_the_variance_of_its_examples():
    first, second = row([[0, 0, 0, 1]] * 3), row([[1, 0, 1, 1]] * 3)
    found = paired_interval(first, second, ACCURACY, has_fixed_test=True)
    differences = np.array([100, 0, 100, 0])  # of each example
    quantile = 3.182446305284263  # of Student's t with 3 degrees of freedom, of four examples
    half = quantile * math.sqrt(differences.var(ddof=1) / 4)
    assert found == pytest.approx((50.0, 50 - half, 50 + half))
    other = row([[1, 0, 1, 1], [0, 0, 1, 1], [1, 0, 0, 1]])
    found = paired_interval(first, other, ACCURACY, has_fixed_test=True)
    means = np.array([100, 0, 100, 0]) * [2 / 3, 1, 2 / 3, 1]  # over the splits
    spread = np.array([50, 25, 25]).var(ddof=1)
    rows = means.var(ddof=1) / 4
    half = math.sqrt(QUANTILE**2 * spread / 3 + quantile**2 * rows)
    assert found == pytest.approx((100 / 3, 100 / 3 - half, 100 / 3 + half))


@pytest.mark.parametrize(("gains", "is_told"), [(4, False), (5, False), (6, True)])
def test_on_one_test_part_a_difference_is_told_where_the_exact_test_tells_it(gains, is_told):
    """Of 40 examples; as of a single split, since the splits agree."""
    first, second = row([[0] * 40] * 5), row([[1] * gains + [0] * (40 - gains)] * 5)
    found = paired_interval(first, second, ACCURACY, has_fixed_test=True)
    assert found.mean == pytest.approx(2.5 * gains)
    assert (found.low > 0) == is_told
    errors = row([[4.0, 5.0, 6.0]] * 5), row([[1.0, 1.0, 1.0]] * 5)
    assert paired_interval(*errors, RMSE, has_fixed_test=True).low == 0  # of three examples


@pytest.mark.parametrize("has_fixed_test", [False, True])
def test_examples_of_a_group_that_are_all_alike_count_once(has_fixed_test):
    """Of 18 groups of ten examples, six of which the second model alone gets wrong."""
    names, wrong = [str(k // 10) for k in range(180)], [float(k // 10 < 7) for k in range(180)]
    alone = [row([losses] * 3, train=36) for losses in ([0] * 18, wrong[::10])]
    alike = [
        {k: replace(one, groups=names) for k, one in row([losses] * 3, train=360).items()}
        for losses in ([0] * 180, wrong)
    ]
    expected = paired_interval(*alone, ACCURACY, has_fixed_test=has_fixed_test)
    found = paired_interval(*alike, ACCURACY, has_fixed_test=has_fixed_test)
    assert found == pytest.approx(expected)
    few = [{k: replace(one, groups=["a", "b"] * 90) for k, one in own.items()} for own in alike]
    assert not paired_interval(*few, ACCURACY, has_fixed_test=has_fixed_test).low > 0
    numbers = [{k: replace(one, losses=[1 + loss for loss in one.losses]) for k, one in own.items()}
               for own in few]  # fmt: skip
    assert not paired_interval(*numbers, RMSE, has_fixed_test=has_fixed_test).high < 0


def test_the_influences_of_examples_are_those_of_the_score():
    rng = np.random.default_rng(0)
    losses = rng.exponential(2.0, size=(1, 4000))
    row_of_two = row(np.repeat(losses, 2, axis=0))
    low, high = score_interval(row_of_two, RMSE, has_fixed_test=True)[1:]
    drawn = rng.choice(losses[0], size=(2000, 4000)).mean(1) ** 0.5
    bounds = np.quantile(drawn, (0.025, 0.975))
    # a quantile of 2,000 draws is within 4 % of the width
    np.testing.assert_allclose([low, high], bounds, atol=0.04 * (high - low))


def test_differences_are_paired_over_the_splits_that_both_rows_have():
    first, second = row([[0, 1], [0, 0], [1, 1]]), row([[1, 1], [0, 1], [1, 1]])
    del second[1]
    found = paired_interval(first, second, ACCURACY, has_fixed_test=False)
    assert found.mean == 25.0


def test_a_single_split_has_no_interval():
    found = score_interval(row([[0, 1]]), ACCURACY, has_fixed_test=False)
    assert found.mean == 50.0
    assert math.isnan(found.low)
    assert math.isnan(found.high)


@pytest.mark.parametrize("name", METRICS)
def test_a_score_never_leaves_its_range_and_its_slope_is_its_derivative(name: str):
    metric = METRICS[name]
    for mean in (0.1, 0.5, 0.9):
        slope = (metric.score(mean + 1e-6) - metric.score(mean - 1e-6)) / 2e-6
        assert metric.slope(mean) == pytest.approx(slope, rel=1e-6)
        assert metric.is_loss == (slope > 0)
    low, high = score_interval(row([[0.0, 0.0], [1.0, 1.0]]), metric, has_fixed_test=False)[1:]
    assert metric.range[0] <= low < high <= metric.range[1]


def test_the_interval_covers_the_true_score_about_as_often_as_it_says():
    # Five test parts of 20 of 50 examples: their variance is σ²/20 (1 − 20/50), that of the mean
    # over the parts σ²/50 more than a fifth of it. The correction (1/5 + 20/30) gives just that.
    rng, covered = np.random.default_rng(0), []
    for _ in range(400):
        losses = (rng.random(50) < 0.3).astype(float)
        parts = row([losses[rng.permutation(50)[:20]] for _ in range(5)])
        _, low, high = score_interval(parts, ACCURACY, has_fixed_test=False)
        covered.append(low <= 70.0 <= high)
    # 1.1 % is the standard error of 400 draws at 95 %
    assert np.mean(covered) == pytest.approx(0.95, abs=3 * 0.011)


@pytest.mark.parametrize("n", [3, 24])
def test_splits_of_few_examples_are_told_apart_as_rarely_as_the_interval_says(n):
    rng, told = np.random.default_rng(n), 0
    tested = max(1, round(n / 5))
    for losses in rng.standard_normal((400, 2, n)) ** 2:
        parts = [rng.permutation(n)[:tested] for _ in range(5)]
        rows = [row([own[part] for part in parts], n - tested) for own in losses]
        _, low, high = paired_interval(*rows, RMSE, has_fixed_test=False)
        told += low > 0 or high < 0
    assert told <= 0.06 * 400
