"""Deviations of an ensemble: calibrated on one part, they hold on another."""

from __future__ import annotations

import numpy as np
import pytest

from representer.estimators.calibration import Calibration, calibrate
from representer.report.metrics import Z, coverage, likelihood

RNG = np.random.default_rng(0)


def made(scale: float, noise: float, count: int = 4000):
    """Answers whose errors have the variance scale · v + noise."""
    variances = RNG.gamma(1.0, size=(count, 1))
    truth = RNG.normal(size=(count, 1))
    errors = RNG.normal(size=(count, 1)) * np.sqrt(scale * variances + noise)
    return truth + errors, variances, truth


@pytest.mark.parametrize(("scale", "noise"), [(4.0, 0.2), (0.5, 1.0), (0.0, 2.0), (16.0, 0.5)])
def test_scale_and_noise_are_found_again(scale, noise):
    found = calibrate(*made(scale, noise))
    assert found.noises[0] == pytest.approx(noise, rel=0.5)
    assert scale / 2 <= found.scales[0] <= 2 * scale + 0.0625
    answers, variances, truth = made(scale, noise)
    shares = coverage(answers, found.deviations(variances), truth)
    assert shares == {str(level): pytest.approx(level, abs=0.03) for level in Z}


def test_members_that_agree_leave_the_noise_alone():
    answers, _, truth = made(0.0, 1.0)
    found = calibrate(answers, np.zeros_like(answers), truth)
    assert found.scales == (0.0,)
    errors = ((answers - truth) ** 2).mean()
    assert found.noises[0] == pytest.approx(errors, rel=0.1)


def test_each_target_has_its_own_and_missing_values_do_not_count():
    (a, v, t), (b, w, u) = made(1.0, 0.1), made(1.0, 10.0)
    t[::2] = np.nan
    found = calibrate(np.hstack([a, b]), np.hstack([v, w]), np.hstack([t, u]))
    assert found.noises[1] > 20 * found.noises[0]
    nothing = calibrate(a, v, np.full_like(t, np.nan))
    assert nothing == Calibration((1.0,), (0.0,))


def test_the_likelihood_is_that_of_the_normal_distribution():
    one = np.array([1.0])
    assert likelihood(one, 2 * one, 0 * one) == pytest.approx(
        np.log(2) + 1 / 8 + np.log(2 * np.pi) / 2
    )
