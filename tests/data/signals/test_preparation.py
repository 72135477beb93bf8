"""Resampling preserves durations, frequencies and phases; splitting preserves samples."""

from __future__ import annotations

import numpy as np
import pytest

from representer.data.signals import cut, recordings, resampled
from representer.errors import ArgumentError, DataError


def waves(rate: float, *, seconds: float = 2.0, hz: float = 7.0, offset: float = 0.0):
    t = np.arange(round(seconds * rate)) / rate
    channels = [np.sin(2 * np.pi * hz * t), np.cos(2 * np.pi * hz * t)]
    x = np.asarray([channels, channels]) + offset
    return recordings(x, ["a", "b"], ["s", "t"], rate)


@pytest.mark.parametrize(("before", "after"), [(500, 125), (100, 256), (256, 200), (128, 250.5)])
def test_resampling_preserves_oscillations(before, after):
    found, wanted = resampled(waves(before), after), waves(after)
    assert found.sampling_rate == after
    assert found.seconds == pytest.approx(2.0, abs=1 / after)
    inside = slice(int(0.3 * after), int(1.7 * after))  # the ends are filtered with what is not
    assert np.abs(found.signals - wanted.signals)[:, :, inside].max() < 0.01


def test_frequencies_above_the_new_nyquist_rate_are_removed():
    found = resampled(waves(500, hz=60), 100)  # as it is, it would look like 40 Hz
    assert np.abs(found.signals[:, :, 30:170]).max() < 0.01


def test_an_offset_causes_no_artifacts_at_the_ends():
    found = resampled(waves(200, offset=1000.0), 100)
    assert np.abs(found.signals - 1000).max() < 1.5


def test_resampling_to_the_same_rate_changes_nothing():
    given = waves(100)
    assert resampled(given, 100.0) is given


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 100 * 2**0.5])
def test_unsupported_rates_are_rejected(rate):
    with pytest.raises(ArgumentError, match="sampling_rate is"):
        resampled(waves(100), rate)


def test_pieces_are_in_temporal_order_and_keep_label_and_subject():
    x = np.arange(2 * 3 * 7).reshape(2, 3, 7)
    found = cut(recordings(x, ["a", "b"], ["s", "t"], 10), 0.3)
    assert found.signals.shape == (4, 3, 3)
    assert found.signals[:2].tolist() == [x[0, :, :3].tolist(), x[0, :, 3:6].tolist()]
    assert found.signals[3].tolist() == x[1, :, 3:6].tolist()
    assert found.labels.tolist() == [0, 0, 1, 1]
    assert found.subjects.tolist() == ["s", "s", "t", "t"]


def test_a_window_of_exactly_the_length_is_not_split():
    given = waves(100, seconds=2.0)
    assert np.array_equal(cut(given, 2.0).signals, given.signals)


def test_a_recording_shorter_than_a_window_is_reported_with_file_and_subject():
    expected = r"a\.npz: window 0 of subject s, like all windows, has 2 s and is shorter than"
    with pytest.raises(DataError, match=expected):
        cut(waves(100), 3, file="a.npz")


@pytest.mark.parametrize("seconds", [0, -1, 0.001, float("nan"), float("inf")])
def test_a_window_has_at_least_one_sample(seconds):
    with pytest.raises(ArgumentError, match=r"seconds is .*at least one sample, 0\.01 s"):
        cut(waves(100), seconds)
