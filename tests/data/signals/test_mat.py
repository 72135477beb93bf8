"""Recordings in a MATLAB file."""

from __future__ import annotations

import numpy as np
import pytest

from representer.data.signals import read_mat, synthetic_recordings
from representer.errors import DataError

scipy_io = pytest.importorskip("scipy.io")


def written(path, **changed):
    arrays = {"X": np.ones((3, 2, 4)), "y": [0, 1, 0], "subject": [1, 1, 2], "fs": 100.0, **changed}
    scipy_io.savemat(path, {k: v for k, v in arrays.items() if v is not None})
    return path


def test_arrays_are_read(tmp_path):
    drawn = synthetic_recordings(subjects=2, windows=4)
    path = written(
        tmp_path / "a.mat", X=drawn.signals,
        y=np.asarray(drawn.classes, dtype=object)[drawn.labels], subject=drawn.subjects,
        fs=drawn.sampling_rate, channels=np.asarray(drawn.channels, dtype=object),
    )  # fmt: skip
    read = read_mat(path)
    assert np.array_equal(read.signals, drawn.signals)
    assert np.array_equal(read.labels, drawn.labels)
    assert read.subjects.tolist() == drawn.subjects.tolist()
    assert (read.classes, read.channels) == (drawn.classes, drawn.channels)
    assert read.sampling_rate == 100


def test_names_can_be_numbers_and_columns(tmp_path):
    path = written(tmp_path / "a.mat", y=[[0], [1], [0]], subject=[[1], [1], [2]])
    read = read_mat(path)
    assert (read.classes, read.subjects.tolist()) == (("0", "1"), ["1", "1", "2"])
    assert read.channels == ("ch0", "ch1")


@pytest.mark.parametrize("shape", [(3, 1, 4), (1, 2, 4), (1, 1, 4)])
def test_a_single_channel_or_window_keeps_its_axis(tmp_path, shape):
    path = written(tmp_path / "a.mat", X=np.ones(shape), y=None, subject=[1] * shape[0])
    assert read_mat(path, is_labeled=False).signals.shape == shape


def test_padding_of_char_rows_is_dropped(tmp_path):
    path = written(tmp_path / "a.mat", channels=np.asarray(["Fz ", "FC1"]))
    assert read_mat(path).channels == ("Fz", "FC1")


def test_missing_arrays_are_reported(tmp_path):
    path = written(tmp_path / "a.mat", y=None, fs=None)
    with pytest.raises(
        DataError, match=r"a\.mat: there is no array y and no fs; the file has X, subje"
    ):
        read_mat(path)


def test_invalid_matlab_files_are_rejected(tmp_path):
    (tmp_path / "a.mat").write_text("no arrays")
    with pytest.raises(
        DataError, match=r"a\.mat: cannot be read as a MATLAB file: it has no MATLAB header"
    ):
        read_mat(tmp_path / "a.mat")


def test_version_7_3_is_rejected_with_the_fix(tmp_path):
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124, b" ") + b"\x00\x02IM"
    (tmp_path / "a.mat").write_bytes(head + b"\x00" * 512)
    with pytest.raises(
        DataError, match=r"a\.mat: MATLAB files of version 7\.3 are not supported\. Save it with"
    ):
        read_mat(tmp_path / "a.mat")
