"""Recordings of one file or of a folder of files."""

from __future__ import annotations

import numpy as np
import pytest

from representer.data.signals import read_recordings, synthetic_recordings, write_npz
from representer.errors import DataError

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


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rate": 200.0}, r"sampling rate of subject s2 is 200 Hz, and that of s1_raw\.fif 100 Hz"),
        (
            {"channels": ("Fz", "Pz")},
            r"channels differ from those of s1_raw\.fif; Cz, Pz are in only one",
        ),
    ],
)
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
