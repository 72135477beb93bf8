"""Windows around the events of .fif and .edf files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from representer.data.signals import mne_files, read_mne
from representer.errors import DataError

mne = pytest.importorskip("mne")

RATE = 100.0


def raw_of(marks, *, seconds=6, channels=("Fz", "Cz"), subject=None, kinds=None):
    """Return a recording whose samples count up, in microvolts, with annotations."""
    info = mne.create_info(list(channels), RATE, kinds or "eeg")
    if subject:
        info["subject_info"] = {"his_id": subject}
    count = np.arange(seconds * RATE) * 1e-6
    data = np.stack([count + k for k in range(len(channels))])
    raw = mne.io.RawArray(data, info, verbose="error")
    onsets, lasts, names = zip(*marks, strict=True) if marks else ((), (), ())
    raw.set_annotations(mne.Annotations(onsets, lasts, names))
    return raw


def saved(path, raw):
    raw.save(path, verbose="error")
    return path


def names(read):
    return [read.classes[label] for label in read.labels]


MARKS = [(0.5, 1.0, "rest"), (2.0, 1.2, "task"), (4.0, 1.0, "rest")]


@pytest.mark.parametrize("name", ["EDGE boundary", "edge", "Bad segment"])
def test_a_boundary_is_not_an_event(tmp_path, name):
    raw = raw_of([*MARKS, (5.5, 0.0, name)])
    read = read_mne(saved(tmp_path / "s1_raw.fif", raw))
    assert (names(read), read.signals.shape) == (["rest", "task", "rest"], (3, 2, 100))


def test_start_and_length_can_be_set(tmp_path):
    path = saved(tmp_path / "s1_raw.fif", raw_of(MARKS))
    read = read_mne(path, events=["rest"], start=0.25, seconds=0.5)
    assert (names(read), read.signals.shape) == (["rest", "rest"], (2, 2, 50))
    np.testing.assert_allclose(read.signals[:, 0, 0] * 1e6, [75, 425], atol=1e-3)


def test_bad_segments_and_channels_are_dropped(tmp_path):
    raw = raw_of([*MARKS, (2.1, 0.2, "BAD_blink")], channels=("Fz", "Cz", "Pz", "ECG"),
                 kinds=["eeg", "eeg", "eeg", "ecg"])  # fmt: skip
    raw.info["bads"] = ["Cz"]
    read = read_mne(saved(tmp_path / "s1_raw.fif", raw))
    assert (names(read), read.channels) == (["rest", "rest"], ("Fz", "Pz"))


def test_epochs_are_used_unchanged(tmp_path):
    raw = raw_of(MARKS, subject="patient 7")
    events, numbers = mne.events_from_annotations(raw, verbose="error")
    epochs = mne.Epochs(raw, events, numbers, 0, 0.99, baseline=None, verbose="error")
    epochs.save(tmp_path / "any-epo.fif", verbose="error")
    read = read_mne(tmp_path / "any-epo.fif")
    assert (names(read), *set(read.subjects)) == (["rest", "task", "rest"], "patient 7")
    assert read.signals.shape == (3, 2, 100)
    assert names(read_mne(tmp_path / "any-epo.fif", events=["task"])) == ["task"]


@pytest.mark.parametrize(("marks", "options", "said"), [
    ([], {}, r"no event is marked in it\."),
    (MARKS, {"events": ["tsak"]}, r"the events tsak are not marked in it; the file has rest, task"),
    ([(1.0, 0.0, "rest")], {}, r"no duration, .*--event-seconds"),
    (MARKS, {"seconds": 60.0}, r"no window lies within the recording"),
])  # fmt: skip
def test_invalid_events_and_windows_are_rejected(tmp_path, marks, options, said):
    path = saved(tmp_path / "s1_raw.fif", raw_of(marks))
    with pytest.raises(DataError, match=rf"s1_raw\.fif: .*{said}"):
        read_mne(path, **options)


@pytest.mark.parametrize(("name", "known", "subject"), [
    ("S001R04.edf", None, "S001"), ("S001R08.edf", "X", "S001"), ("A01T.fif", "0", "A01"),
    ("SC4001E0-PSG.edf", "", "SC400"), ("SC4002E0-PSG.edf", "anonymous", "SC400"),
    ("sub-01_task-rest_raw.fif", "00", "sub-01"), ("chb01_03.edf", None, "chb01"),
    ("anna.edf", None, "anna"), ("S001R04.edf", "P7", "P7"),
])  # fmt: skip
def test_runs_of_one_person_are_one_subject_and_a_note_names_the_source(name, known, subject):
    found, notes = mne_files._subject({"subject_info": {"his_id": known}}, Path(name))
    assert found == subject
    assert bool(notes) == (known != "P7")
