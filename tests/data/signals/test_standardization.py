"""Standardization to mean 0 and standard deviation 1, without leakage."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from representer.data.signals import Standardization, recordings
from representer.errors import ArgumentError
from representer.storage.files import from_values


def made(seed: int = 0, scale: float = 5.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(3, scale, (6, 2, 50)) * np.arange(1, 7)[:, None, None]
    return recordings(x, ["a", "b"] * 3, ["s", "s", "s", "t", "t", "t"], 10)


def moments(signals, axis):
    wide = signals.astype(np.float64)
    return wide.mean(axis), wide.std(axis)


def test_by_subject_channels_are_standardized_and_windows_differ_in_power():
    found = Standardization("subject").apply(made())
    for subject in ("s", "t"):
        mean, deviation = moments(found.signals[found.subjects == subject], (0, 2))
        assert np.allclose(mean, 0, atol=1e-6)
        assert np.allclose(deviation, 1, atol=1e-6)
    assert found.signals[0].std() < 0.8 * found.signals[2].std()  # as before: power may tell


def test_statistics_by_subject_do_not_use_other_subjects():
    given = made()
    alone = Standardization("subject").apply(given.take(given.subjects == "t"))
    together = Standardization("subject").apply(given)
    assert np.array_equal(alone.signals, together.signals[given.subjects == "t"])


def test_by_window_all_windows_have_equal_power():
    mean, deviation = moments(Standardization("window").apply(made()).signals, 2)
    assert np.allclose(mean, 0, atol=1e-6)
    assert np.allclose(deviation, 1, atol=1e-6)


def test_by_training_the_moments_of_training_are_used():
    training, later = made(0), made(1, scale=20.0)
    found = Standardization.fit("training", training)
    mean, deviation = moments(found.apply(training).signals, (0, 2))
    assert np.allclose(mean, 0, atol=1e-6)
    assert np.allclose(deviation, 1, atol=1e-6)
    mean, deviation = moments(training.signals, (0, 2))
    wanted = (later.signals - mean[:, None]) / deviation[:, None]
    assert np.allclose(found.apply(later).signals, wanted, atol=1e-4)
    again = from_values(Standardization, json.loads(json.dumps(asdict(found))))
    assert np.array_equal(again.apply(later).signals, found.apply(later).signals)


def test_none_changes_nothing():
    given = made()
    assert Standardization.fit("none", given).apply(given) is given


@pytest.mark.parametrize("kind", ["subject", "window", "training"])
@pytest.mark.parametrize("level", [0.0, 12345.678])
def test_a_constant_channel_becomes_zero(kind, level):
    given = made()
    given.signals[:, 1] = level
    found = Standardization.fit(kind, given).apply(given)
    assert not found.signals[:, 1].any()
    assert np.isfinite(found.signals).all()


def test_a_channel_far_from_zero_that_varies_is_not_constant():
    given = made()
    given.signals[:] = 1000 + given.signals / np.abs(given.signals).max()  # 1e-3 of the mean
    standard = Standardization("training", (1000.0, 1000.0), (0.5, 0.5)).apply(given)
    np.testing.assert_allclose(standard.signals, (given.signals - 1000) / 0.5, atol=1e-6)


def test_a_small_unit_is_not_mistaken_for_a_constant():
    given = made()
    given.signals[:] *= 1e-9  # volts, where microvolts are meant
    found = Standardization("subject").apply(given)
    assert np.allclose(found.signals, Standardization("subject").apply(made()).signals, atol=1e-4)


def test_another_number_of_channels_is_rejected():
    found = Standardization.fit("training", made())
    with pytest.raises(ArgumentError, match=r"channels is .* the 2 channels of training"):
        found.apply(made().in_order(("ch1",)))


def test_an_unknown_kind_is_rejected():
    with pytest.raises(ArgumentError, match="kind is 'batch'; expected one of subject, window"):
        Standardization("batch")
