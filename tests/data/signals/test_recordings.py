"""Recordings: reading, preparation, standardization, augmentation."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import numpy as np
import pytest
import torch

from representer.data.signals import (
    Standardization,
    augmented,
    cut,
    read_recordings,
    recordings,
    resampled,
    synthetic_recordings,
    write_npz,
)
from representer.errors import ArgumentError, DataError
from representer.storage.atomic import from_values

# Recordings from arrays, and errors for inconsistent ones.


X = np.arange(24, dtype=np.int16).reshape(4, 2, 3)
Y, WHO = np.asarray(["rest", "task", "rest", "task"]), np.asarray([7, 7, 8, 8])


def make(**changes):
    arguments = {"signals": X, "labels": Y, "subjects": WHO, "sampling_rate": 100} | changes
    return recordings(*arguments.values(), file="a.npz")


def test_windows_are_selected_by_index_or_mask():
    made = make()
    assert made.take([2, 0]).signals[:, 0, 0].tolist() == [12, 0]
    of_8 = made.take(made.subjects == "8")
    assert (len(of_8), of_8.labels.tolist(), of_8.classes) == (2, [0, 1], ("rest", "task"))


def test_channels_are_in_the_requested_order():
    made = make(channels=["Fz", "Cz"]).in_order(("Cz", "Fz"))
    assert made.channels == ("Cz", "Fz")
    assert made.signals[0, :, 0].tolist() == [3, 0]
    assert make(channels=["Fz", "Cz"]).in_order(("Cz",)).signals.shape == (4, 1, 3)


def test_a_missing_channel_is_reported():
    with pytest.raises(
        DataError, match=r"b\.npz: the channels Pz are missing; the file has ch0, ch1"
    ):
        make().in_order(("ch0", "Pz"), file="b.npz")


def test_subjects_of_one_class_are_listed():
    assert make().one_class_subjects() == []
    assert make(labels=[0, 0, 0, 1]).one_class_subjects() == ["7"]


@pytest.mark.parametrize(("changes", "message"), [
    ({"signals": X[0]}, r"X is int16 of shape \(2, 3\); expected numbers \(windows"),
    ({"signals": X[:, 0]}, r".*of one channel are X\[:, None\]"),
    ({"signals": X.swapaxes(1, 2)}, r"X has 3 channels of 2 samples; .*Swap the axes of X"),
    ({"labels": [4, 2, 7, 9]}, "all labels differ: .* and 1 more; expected"),
    ({"signals": X.astype(str)}, "X is <U.* expected numbers"),
    ({"signals": X[:0]}, r"X is int16 of shape \(0, 2, 3\); expected numbers"),
    ({"labels": Y[:3]}, r"y has shape \(3,\); expected one entry per window, \(4,\)"),
    ({"subjects": WHO[:, None]}, r"subject has shape \(4, 1\)"),
    ({"labels": ["a"] * 4}, "all labels are 'a'; expected at least two classes"),
    ({"sampling_rate": 0}, "fs is 0; expected the sampling rate"),
    ({"sampling_rate": float("nan")}, "fs is nan"),
    ({"sampling_rate": "fast"}, "fs is 'fast'"),
    ({"sampling_rate": [100, 200]}, r"fs is \[100, 200\]"),
    ({"channels": ["a"]}, "there are 1 channel names for 2 channels"),
    ({"channels": ["a", "a"]}, "the channel a occurs 2 times"),
])  # fmt: skip
def test_invalid_arrays_are_rejected_with_the_file(changes, message):
    with pytest.raises(DataError, match=rf"a\.npz: {message}"):
        make(**changes)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_not_finite_are_reported_with_window_subject_and_channel(value):
    broken = X.astype(float)
    broken[2, 1, 0] = broken[3, 0, 0] = value
    expected = "window 2 of subject 8 has samples that are not finite, in channel Cz; 2 windows"
    with pytest.raises(DataError, match=expected):
        make(signals=broken, channels=["Fz", "Cz"])


# Recordings of one file or of a folder of files.


mne = pytest.importorskip("mne")

MARKS = [(0.0, 1.0, "rest"), (1.0, 1.0, "task")]


def save(path, marks=MARKS, channels=("Fz", "Cz"), rate=100.0):
    info = mne.create_info(list(channels), rate, "eeg")
    data = np.stack([np.full(int(3 * rate), ord(name[0]) * 1e-6) for name in channels])
    raw = mne.io.RawArray(data, info, verbose="error")
    raw.set_annotations(mne.Annotations(*zip(*marks, strict=True)))
    raw.save(path, verbose="error")


def test_the_suffix_selects_the_reader_of_arrays(tmp_path):
    drawn = synthetic_recordings(subjects=2, windows=4)
    write_npz(tmp_path / "a.npz", drawn)
    assert np.array_equal(read_recordings(tmp_path / "a.npz").signals, drawn.signals)


def test_the_files_of_a_folder_are_joined(tmp_path):
    save(tmp_path / "s1_raw.fif")
    save(tmp_path / "s2_raw.fif", channels=("Cz", "Fz"))
    read = read_recordings(tmp_path)
    assert read.subjects.tolist() == ["s1", "s1", "s2", "s2"]
    assert (read.classes, read.channels) == (("rest", "task"), ("Fz", "Cz"))
    microvolts = read.signals[:, :, 0] * 1e6
    np.testing.assert_allclose(microvolts, [[70, 67]] * 4, rtol=1e-6)  # F and C, in float32


def test_windows_are_cut_to_the_shortest_of_all_files(tmp_path):
    save(tmp_path / "s1_raw.fif")
    save(tmp_path / "s2_raw.fif", marks=[(0.0, 0.5, "rest"), (1.0, 0.5, "task")])
    assert read_recordings(tmp_path).signals.shape == (4, 2, 50)


def test_files_of_one_class_each_are_joined(tmp_path):
    save(tmp_path / "s1_raw.fif", MARKS[:1])
    save(tmp_path / "s2_raw.fif", MARKS[1:])
    assert read_recordings(tmp_path).one_class_subjects() == ["s1", "s2"]


@pytest.mark.parametrize(("changed", "said"), [
    ({"rate": 200.0}, r"sampling rate of subject s2 is 200 Hz, and that of s1_raw\.fif 100 Hz"),
    (
        {"channels": ("Fz", "Pz")},
        r"channels differ from those of s1_raw\.fif; Cz, Pz are in only one",
    ),
])  # fmt: skip
def test_inconsistent_files_are_rejected(tmp_path, changed, said):
    save(tmp_path / "s1_raw.fif")
    save(tmp_path / "s2_raw.fif", **changed)
    with pytest.raises(DataError, match=rf"s2_raw\.fif: .*{said}"):
        read_recordings(tmp_path)


def test_unsupported_folders_and_files_are_rejected(tmp_path):
    with pytest.raises(
        DataError, match=r"no \.fif, .* or \.set file, and no recordings\.csv.*fs in Hz"
    ):
        read_recordings(tmp_path)
    with pytest.raises(DataError, match=r"the suffix is '\.gdf'; expected \.csv.*X \(windows"):
        read_recordings(tmp_path / "a.gdf")


# Resampling preserves durations, frequencies and phases; splitting preserves samples.


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


def test_a_rate_may_be_below_one_hertz():
    found = resampled(waves(2, seconds=40, hz=0.05), 0.5)
    assert (found.sampling_rate, found.signals.shape[-1]) == (0.5, 20)


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


def test_a_recording_shorter_than_a_window_is_reported_with_file_and_subject():
    expected = r"a\.npz: window 0 of subject s, like all windows, has 2 s and is shorter than"
    with pytest.raises(DataError, match=expected):
        cut(waves(100), 3, file="a.npz")


@pytest.mark.parametrize("seconds", [0, -1, 0.001, float("nan"), float("inf")])
def test_a_window_has_at_least_one_sample(seconds):
    with pytest.raises(ArgumentError, match=r"seconds is .*at least one sample, 0\.01 s"):
        cut(waves(100), seconds)


# Standardization to mean 0 and standard deviation 1, without leakage.


def made(seed: int = 0, scale: float = 5.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(3, scale, (6, 2, 50)) * np.arange(1, 7)[:, None, None]
    return recordings(x, ["a", "b"] * 3, ["s", "s", "s", "t", "t", "t"], 10)


def moments(signals, axis):
    wide = signals.astype(np.float64)
    return wide.mean(axis), wide.std(axis)


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


# Augmentation of training windows.


def windows():
    torch.manual_seed(0)
    return torch.randn(200, 3, 50, dtype=torch.float64)


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(sys.modules["representer.data.signals.recordings"], "NOISE", 0.0)


def turn(before, after):
    """Return the circular shift of all windows in samples."""
    fits = [k for k in range(50) if torch.allclose(after.abs(), before.roll(k, 2).abs())]
    assert len(fits) == 1
    return fits[0]


def test_windows_are_shifted_and_randomly_negated(quiet, monkeypatch):
    monkeypatch.setattr(sys.modules["representer.data.signals.recordings"], "GAIN", 0.0)
    before = windows()
    after = augmented(before)
    ratio = after / before.roll(turn(before, after), 2)
    torch.testing.assert_close(ratio, ratio[:, :1, :1].expand_as(ratio))  # one sign a window
    assert 60 < int((ratio[:, 0, 0] > 0).sum()) < 140  # five deviations about a half


def test_shifts_differ_between_batches(quiet, monkeypatch):
    monkeypatch.setattr(sys.modules["representer.data.signals.recordings"], "GAIN", 0.0)
    before = windows()
    assert len({turn(before, augmented(before)) for _ in range(8)}) > 3


def test_noise_is_added():
    after = augmented(torch.zeros(200, 3, 50))
    assert float(after.std()) == pytest.approx(0.3, abs=0.01)
    assert after.dtype == torch.float32
