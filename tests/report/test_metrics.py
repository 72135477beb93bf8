"""Accuracy, its interval, the paired difference, and the scores per class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2
from sklearn.metrics import accuracy_score, f1_score, log_loss

from representer.report.metrics import (
    UNSEEN_ALONE,
    accuracy_interval,
    calibration,
    calibration_error_by_chance,
    classification_metrics,
    difference_of_squares,
    effective_count,
    paired_difference,
    perplexity_difference,
    regression_metrics,
    rmse_difference,
    wilson_interval,
)
from representer.report.page import Column, Predictions, figures_of
from representer.storage.atomic import as_json


def test_the_effective_number_of_groups_of_unequal_sizes_is_smaller_for_their_variance():
    groups = np.repeat(np.arange(24), [3, 10] * 12)
    assert effective_count(groups) == pytest.approx(156**2 / (12 * 109))
    assert effective_count(groups, 2) == pytest.approx(1308**2 / (12 * 10_081))
    assert effective_count(np.repeat(np.arange(8), 5), 2) == pytest.approx(8)


def test_the_wilson_interval_is_the_textbook_one():
    low, high = wilson_interval(8, 10)
    assert (low, high) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)


def test_nothing_tried_is_nothing_known():
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_the_metrics_agree_with_scikit_learn():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 200)
    probabilities = rng.dirichlet(np.ones(3), 200)
    metrics = classification_metrics(truth, probabilities, ["a", "b", "c"])
    predicted = probabilities.argmax(1)
    assert metrics["accuracy"] == pytest.approx(accuracy_score(truth, predicted))
    assert metrics["macro_f1"] == pytest.approx(f1_score(truth, predicted, average="macro"))
    assert metrics["loss"] == pytest.approx(log_loss(truth, probabilities))
    assert metrics["per_class"][1]["support"] == (truth == 1).sum()


def test_rows_of_the_confusion_matrix_are_the_true_classes():
    probabilities = np.eye(2)[[1, 1, 0]]
    metrics = classification_metrics(np.array([0, 1, 0]), probabilities, ["a", "b"])
    assert metrics["confusion"] == [[1, 1], [0, 1]]


def test_the_metrics_of_thousands_of_classes_can_be_read_again():
    """A matrix of 2,600 classes has more bytes than are read of metrics.json."""
    classes, shift = np.arange(2600), np.eye(2600, dtype=np.float32)
    metrics = classification_metrics(classes, np.roll(shift, 1, axis=1), [f"c{k}" for k in classes])
    assert "confusion" not in metrics
    assert len(metrics["confusions"]) == 12
    assert metrics["confusions"][0] == {"truth": "c0", "predicted": "c1", "count": 1, "support": 1}
    assert len(as_json(metrics)) < 2**20


def test_macro_f1_counts_classes_that_are_predicted_alone_as_scikit_learn_does():
    truth, predicted = np.array([0, 0, 1, 1]), np.array([0, 2, 1, 1])
    metrics = classification_metrics(truth, np.eye(4)[predicted], ["a", "b", "c", "d"])
    assert metrics["macro_f1"] == pytest.approx(f1_score(truth, predicted, average="macro"))
    assert metrics["macro_f1"] == pytest.approx((2 / 3 + 1) / 3)


def test_a_class_without_documents_does_not_count_in_macro_f1():
    metrics = classification_metrics(np.array([0, 0]), np.eye(2)[[0, 0]], ["a", "b"])
    assert metrics["macro_f1"] == 1.0
    assert metrics["per_class"][1] == {
        "label": "b", "precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0
    }  # fmt: skip


def test_a_certain_mistake_has_a_finite_loss():
    metrics = classification_metrics(np.array([1]), np.array([[1.0, 0.0]]), ["a", "b"])
    assert np.isfinite(metrics["loss"])


def pair(n: int, gains: int, losses: int) -> tuple[np.ndarray, np.ndarray]:
    places = np.arange(n)
    return places < gains, (places >= gains) & (places < gains + losses)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 600), st.integers(0, 40), st.integers(0, 40))
def test_the_interval_of_a_difference_excludes_0_exactly_if_mcnemars_exact_test_rejects(n, b, c):
    gains, losses = min(b, n), min(c, n - min(b, n))
    difference, low, high = paired_difference(*pair(n, gains, losses))
    assert difference == (gains - losses) / n
    assert -1 <= low <= difference <= high <= 1
    p = binomtest(gains, gains + losses).pvalue if gains + losses else 1.0
    assert (low > 0 or high < 0) == (p <= 0.05)
    back = paired_difference(*pair(n, losses, gains))
    np.testing.assert_allclose((-back[2], -back[1]), (low, high), atol=1e-8)


def test_rows_of_a_group_that_are_all_alike_count_once():
    groups, better = np.repeat(np.arange(8), 20), np.arange(8) < 6
    right, other = better[groups], np.zeros(160, dtype=bool)
    assert paired_difference(right, other)[1] > 0.6
    assert paired_difference(right, other, groups)[1] > 0  # six groups of eight: p = 0.03
    assert paired_difference(right, np.arange(160) >= 140, groups)[1] <= 0  # but not six to one
    assert paired_difference(right[:100], other[:100], groups[:100])[1] == 0  # five groups
    (low, high), independent = accuracy_interval(right, 160, groups)
    assert independent == pytest.approx(8, rel=0.15)
    assert low < 0.4
    assert high > 0.93
    assert accuracy_interval(right, 160)[1] == 160


@pytest.mark.parametrize("count", [6, 30])
def test_models_on_groups_differ_as_rarely_as_the_interval_says(count):
    rng, told, left_out = np.random.default_rng(count), 0, 0
    groups = np.repeat(np.arange(count), 3 + 7 * (np.arange(count) % 2))
    for _ in range(250):
        ours, theirs = (
            np.where(rng.random(len(groups)) < 0.8, (rng.random(count) < 0.75)[groups],
                     rng.random(len(groups)) < 0.75) for _ in "ab"
        )  # fmt: skip
        _, low, high = paired_difference(ours, theirs, groups)
        told += low > 0 or high < 0
        low, high = accuracy_interval(ours, len(groups), groups)[0]
        left_out += not low <= 0.75 <= high
    assert told <= 0.06 * 250
    assert left_out <= 0.08 * 250


@pytest.mark.parametrize(("n", "gains", "losses"), [(100, 10, 0), (44, 7, 21), (12, 9, 1)])
def test_the_bounds_of_a_difference_are_tangos(n, gains, losses):
    """They deviate by 1.96 standard deviations of the most likely model with such a difference."""
    _, low, high = paired_difference(*pair(n, gains, losses))
    for delta, sign in ((low, 1), (high, -1)):
        lost = np.linspace(max(0, -delta), (1 - delta) / 2, 200_001)[1:-1]
        with np.errstate(divide="ignore"):
            log = gains * np.log(lost + delta) + losses * np.log(lost)
            log += (n - gains - losses) * np.log1p(-2 * lost - delta)
        best = lost[log.argmax()]
        deviation = (gains - losses - n * delta) / np.sqrt(n * (2 * best + delta - delta**2))
        assert deviation == pytest.approx(1.96 * sign, abs=1e-3)


def test_the_calibration_error_is_the_mean_gap_of_the_bins():
    right = np.array([True, False, True, True])
    found = calibration(right, np.array([0.61, 0.65, 0.95, 1.0]))
    assert found["bins"] == [
        {"confidence": pytest.approx(0.63), "accuracy": 0.5, "count": 2},
        {"confidence": pytest.approx(0.975), "accuracy": 1.0, "count": 2},
    ]
    assert found["error"] == pytest.approx((2 * 0.13 + 2 * 0.025) / 4)
    assert found["binning"] == "15 bins of equal width"


def test_calibrated_probabilities_have_a_small_error_and_sharper_ones_a_larger_one():
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(20_000, 3))
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    truth = (rng.random((20_000, 1)) > chances.cumsum(1)).sum(1)
    # the error of a bin is binomial: at most 0.01 on average for 20,000 predictions in 15 bins
    assert classification_metrics(truth, chances, ["a", "b", "c"])["calibration"]["error"] < 0.01
    sharp = chances**3 / (chances**3).sum(1, keepdims=True)
    assert classification_metrics(truth, sharp, ["a", "b", "c"])["calibration"]["error"] > 0.1


def test_exact_probabilities_rarely_exceed_the_calibration_error_by_chance():
    rng, exceeded = np.random.default_rng(1), 0
    for _ in range(400):
        chances = rng.uniform(0.3, 1, size=80)
        found = calibration(rng.random(80) < chances, chances)
        exceeded += found["error"] > calibration_error_by_chance(found["bins"])
    assert 5 <= exceeded <= 40  # 20 expected; within a bin, exact probabilities vary, too


def test_the_interval_of_a_difference_of_perplexities_covers_it_where_lines_are_alike():
    """Of 300 pairs of models whose losses differ by 0.1 and, line by line, by chance."""
    rng, lines, found = np.random.default_rng(0), np.repeat(np.arange(100), 10), []
    for _ in range(300):
        worse = rng.normal(-4, 1, 1000)
        better = worse + 0.1 + rng.normal(0, 0.3, 100)[lines] + rng.normal(0, 0.3, 1000)
        whole = perplexity_difference(better, worse, lines)
        assert whole[0] == pytest.approx(np.exp(-better.mean()) - np.exp(-worse.mean()))
        alone = perplexity_difference(better, worse, np.zeros(1000, int))  # as if independent
        truth = np.exp(-worse.mean()) * np.expm1(-0.1)
        found.append([low <= truth <= high for _, low, high in (whole, alone)])
    by_line, by_token = np.mean(found, axis=0)
    assert 0.91 <= by_line <= 0.985  # 0.95 within three standard errors of 300 pairs
    assert by_token < 0.8


# Errors of answers in numbers, and their intervals.


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
