"""Recordings in an .npz file."""

from __future__ import annotations

import numpy as np
import pytest

from representer.data.signals import read_npz
from representer.errors import DataError


def test_channels_are_optional(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.ones((2, 3, 4)), y=[0, 1], subject=["a", "b"], fs=250)
    assert read_npz(tmp_path / "a.npz").channels == ("ch0", "ch1", "ch2")


def test_missing_keys_are_reported(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.ones((2, 3, 4)), label=[0, 1])
    expected = (
        r"a\.npz: there is no array y and no subject and no fs; the file has "
        r"X float64 \(2, 3, 4\), label int64 \(2,\)\. X, y.*--signals NAME, --labels NAME"
    )
    with pytest.raises(DataError, match=expected):
        read_npz(tmp_path / "a.npz")


def test_objects_are_not_unpickled(tmp_path):
    x = np.ones((2, 3, 4))
    who = np.asarray(["a", None], dtype=object)
    np.savez(tmp_path / "a.npz", X=x, y=[0, 1], subject=who, fs=250)
    with pytest.raises(
        DataError, match=r"the array subject holds objects\. Save it .*: plain arrays"
    ):
        read_npz(tmp_path / "a.npz")


def test_a_single_array_is_not_an_archive(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(DataError, match=r"a\.npz: cannot be read as \.npz"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize(("subject", "rate"), [("groups", "sfreq"), ("subjects", "sampling_rate")])
def test_subjects_and_rate_may_have_another_common_name(tmp_path, subject, rate):
    arrays = {"X": np.ones((4, 2, 8)), "y": [0, 1, 0, 1], subject: [1, 1, 2, 2], rate: 100.0}
    np.savez(tmp_path / "a.npz", **arrays)
    data = read_npz(tmp_path / "a.npz")
    assert (data.subjects.tolist(), data.sampling_rate) == (["1", "1", "2", "2"], 100.0)
