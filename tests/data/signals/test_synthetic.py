"""Synthetic recordings: only the planted coupling distinguishes the classes."""

from __future__ import annotations

import numpy as np
import pytest

from representer.data.signals import Coupling, synthetic_recordings
from representer.errors import ArgumentError

LAGS = (0.0, 50.0, -70.0)
COUPLINGS = (Coupling("apart", 10.0, 0.0, (0.0,) * 3), Coupling("coupled", 10.0, 0.8, LAGS))


@pytest.fixture(scope="session")
def drawn():
    return synthetic_recordings(COUPLINGS, subjects=4, windows=400, noise=0.1, seed=1)


def analytic(signals: np.ndarray) -> np.ndarray:
    """Return the complex amplitude of every window and channel at 10 Hz."""
    time = np.arange(signals.shape[-1]) / 100.0
    return (signals * np.exp(-2j * np.pi * 10.0 * time)).mean(-1)


def test_the_power_is_concentrated_at_the_planted_frequency(drawn):
    power = np.square(np.abs(np.fft.rfft(drawn.signals))).mean((0, 1))
    assert power[1:].argmax() + 1 == 10  # windows of a second: bins of 1 Hz
    assert power[8:13].sum() > 0.9 * power.sum()


def test_the_lags_are_the_planted_ones_and_the_uncoupled_class_has_none(drawn):
    z = analytic(drawn.signals)
    cross = (z * z[:, :1].conj()) / (np.abs(z) * np.abs(z[:, :1]))
    coupled, apart = cross[drawn.labels == 1].mean(0), cross[drawn.labels == 0].mean(0)
    # 800 windows: the mean direction is known to about 2 degrees
    assert np.rad2deg(np.angle(coupled)) == pytest.approx(-np.asarray(LAGS), abs=5)
    assert (np.abs(coupled[1:]) > 0.5).all()
    assert (np.abs(apart[1:]) < 0.15).all()  # 4 standard errors of 800 random directions


def test_the_power_of_the_channels_does_not_depend_on_the_class(drawn):
    """For each subject, since gains differ between subjects."""
    power = np.square(drawn.signals).mean(-1)
    for subject in np.unique(drawn.subjects):
        mine = power[drawn.subjects == subject]
        classes = drawn.labels[drawn.subjects == subject]
        first, second = (mine[classes == label] for label in (0, 1))
        error = np.sqrt(first.var(0) / len(first) + second.var(0) / len(second))
        assert (np.abs(first.mean(0) - second.mean(0)) < 4 * error).all()


def test_the_seed_determines_the_recordings():
    first, again, other = (synthetic_recordings(windows=2, seed=s).signals for s in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_without_bandwidth_it_is_a_pure_tone():
    drawn = synthetic_recordings(COUPLINGS, subjects=1, windows=2, bandwidth=0.0, noise=0.0)
    power = np.square(np.abs(np.fft.rfft(drawn.signals)))
    assert power[..., 10] == pytest.approx(power.sum(-1), rel=1e-5)


@pytest.mark.parametrize(("couplings", "options", "message"), [
    (COUPLINGS[:1], {}, "two or more with the same number of lags"),
    ((COUPLINGS[0], Coupling("b", 10.0, 0.5, (0.0,))), {}, "the same number of lags"),
    ((Coupling("a", 10.0, 0.5, ()),) * 2, {}, "a lag for each channel"),
    ((COUPLINGS[0], Coupling("b", 10.0, 1.5, LAGS)), {}, r"couplings\[1\].strength is 1.5"),
    ((COUPLINGS[0], Coupling("b", 50.0, 1.0, LAGS)), {}, "half the sampling rate, 50 Hz"),
    (COUPLINGS, {"subjects": 0}, "subjects is 0; expected a positive integer"),
    (COUPLINGS, {"windows": 2.5}, "windows is 2.5; expected a positive integer"),
    (COUPLINGS, {"seconds": 0.01}, "at least two samples, 0.02 s"),
])  # fmt: skip
def test_invalid_arguments_are_rejected(couplings, options, message):
    with pytest.raises(ArgumentError, match=message):
        synthetic_recordings(couplings, **options)
