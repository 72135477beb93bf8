"""Recordings from arrays, and errors for inconsistent ones."""

from __future__ import annotations

import numpy as np
import pytest

from representer.data.signals import recordings
from representer.errors import DataError

X = np.arange(24, dtype=np.int16).reshape(4, 2, 3)
Y, WHO = np.asarray(["rest", "task", "rest", "task"]), np.asarray([7, 7, 8, 8])


def make(**changes):
    arguments = {"signals": X, "labels": Y, "subjects": WHO, "sampling_rate": 100} | changes
    return recordings(*arguments.values(), file="a.npz")


def test_labels_become_indices_of_sorted_classes():
    made = make(labels=np.asarray([3, 1, 3, 1]))
    assert made.classes == ("1", "3")
    assert made.labels.tolist() == [1, 0, 1, 0]
    assert made.subjects.tolist() == ["7", "7", "8", "8"]
    assert made.signals.dtype == np.float32
    assert made.seconds == pytest.approx(0.03)


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
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
    ],
)
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
