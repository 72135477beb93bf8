"""Band powers: they find what is in a band, learn from it, and nothing of the test subjects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from representer.data.signals import default_couplings, recordings, synthetic_recordings
from representer.errors import ArgumentError
from representer.tasks.signal.signal_baseline import BANDS, band_power_baseline, log_band_powers
from representer.tasks.signal.signal_folds import folds_of


def loud(subjects: int = 4, windows: int = 12):
    """Class b has ten times the amplitude at 10 Hz, in the second of two channels."""
    rng = np.random.default_rng(0)
    count = subjects * windows
    x = rng.normal(size=(count, 2, 200))
    labels = np.arange(count) % 2
    x[:, 1] += 2 * labels[:, None] * np.sin(2 * np.pi * 10 * np.arange(200) / 100)
    return recordings(x, np.where(labels, "b", "a"), np.arange(count) // windows, 100)


@pytest.mark.parametrize(
    ("hz", "band"), [(2, "delta"), (6, "theta"), (10, "alpha"), (20, "beta"), (40, "gamma")]
)
def test_an_oscillation_is_in_its_band_and_channel(hz, band):
    t = np.arange(400) / 200
    x = np.stack([np.zeros_like(t), 3 * np.sin(2 * np.pi * hz * t)])[None]
    features, names = log_band_powers(x, 200)
    assert names == tuple(BANDS)
    found = features.reshape(len(BANDS), 2)  # band by band, then channel by channel
    assert np.unravel_index(found.argmax(), found.shape) == (names.index(band), 1)
    assert np.isfinite(found).all()


def test_the_unit_of_the_signal_moves_all_powers_alike():
    x = np.random.default_rng(0).normal(size=(3, 2, 200))
    volts, _ = log_band_powers(1e-6 * x, 100)
    microvolts, _ = log_band_powers(x, 100)
    assert np.allclose(volts + 12, microvolts, atol=1e-6)


def test_bands_that_windows_cannot_tell_are_left_out():
    x = np.random.default_rng(0).normal(size=(1, 1, 50))
    assert log_band_powers(x, 100)[1] == ("delta", "theta", "alpha", "beta", "gamma")
    assert log_band_powers(x[:, :, :20], 100)[1] == ("theta", "alpha", "beta", "gamma")
    assert log_band_powers(x, 40)[1] == ("delta", "theta", "alpha", "beta")
    with pytest.raises(ArgumentError, match=r"signals is 'windows of 0\.02 s at 200 Hz'; expected"):
        log_band_powers(x[:, :, :4], 200)


@pytest.mark.parametrize("kind", ["subject", "window", "training", "none"])
def test_power_is_learned(kind):
    of = loud()
    found = band_power_baseline(of, folds_of(of, 0.2, 0), kind)
    assert found.rows.tolist() == list(range(len(of)))
    assert (found.probabilities.argmax(axis=1) == of.labels).mean() > 0.95
    assert "alpha" in found.description


def test_where_phases_alone_tell_it_is_at_chance():
    of = synthetic_recordings(default_couplings(), subjects=8, windows=40, seed=3)
    found = band_power_baseline(of, folds_of(of, 0.2, 0), "subject")
    assert 0.4 < (found.probabilities.argmax(axis=1) == of.labels).mean() < 0.6


def test_labels_of_the_test_subject_change_nothing():
    of = loud()
    (fold, *_) = folds_of(of, 0.2, 0)
    labels = of.labels.copy()
    labels[of.subjects == fold.test[0]] = 0
    ours = band_power_baseline(of, [fold], "subject").probabilities
    assert np.array_equal(
        ours, band_power_baseline(replace(of, labels=labels), [fold], "subject").probabilities
    )
