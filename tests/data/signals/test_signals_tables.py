"""Recordings that a table lists: columns, sampling rates, windows, and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from representer.data.signals import read_recordings, resampled
from representer.errors import ArgumentError, DataError

LISTED = "file,label,subject\nA_rest.csv,rest,A\nA_task.csv,task,A\nB_rest.csv,rest,B\n"
FILES = ("A_rest", "A_task", "B_rest")


def samples(
    path: Path, count: int = 500, rate: float = 100, times=None, seed: int = 0
) -> np.ndarray:
    """Write two channels and their times, and return the channels."""
    signals = np.random.default_rng(seed).normal(size=(2, count)).round(4)
    times = np.arange(count) / rate if times is None else times
    rows = [f"{t},{a},{b}" for t, a, b in zip(times, *signals.tolist(), strict=True)]
    path.write_text("\n".join(["time,Fz,Cz", *rows]) + "\n")
    return signals


@pytest.fixture
def folder(tmp_path) -> Path:
    for seed, name in enumerate(FILES):
        samples(tmp_path / f"{name}.csv", 500 + 30 * seed, seed=seed)
    (tmp_path / "recordings.csv").write_text(LISTED)
    return tmp_path


def test_recordings_are_cut_into_windows_without_overlap_or_remainder(folder):
    whole = samples(folder / "A_task.csv", 530, seed=1)
    read = read_recordings(folder / "recordings.csv", window_seconds=2.0)
    assert (read.signals.shape, read.sampling_rate) == ((6, 2, 200), 100.0)
    np.testing.assert_allclose(read.signals[3], whole[:, 200:400], rtol=1e-6)  # float32
    assert read.channels == ("Fz", "Cz")
    assert read.classes == ("rest", "task")
    assert read.labels.tolist() == [0, 0, 1, 1, 0, 0]
    assert read.subjects.tolist() == ["A"] * 4 + ["B"] * 2
    assert read.notes == (
        "columns: file 'file', label 'label', subject 'subject'; channels: 'Fz', 'Cz'; 100 Hz by "
        "the times in s; 3 recordings, 6 windows of 2 s",
    )


def test_whole_recordings_are_resampled_before_they_are_cut(folder):
    samples(folder / "A_task.csv", 1000, rate=200, seed=1)
    with pytest.raises(DataError, match=r"A_task\.csv: .* A is 200 Hz, .*with --resample HZ"):
        read_recordings(folder, window_seconds=2.0)
    read = read_recordings(folder, sampling_rate=50, window_seconds=2.0)
    assert (read.signals.shape, read.sampling_rate) == ((6, 2, 100), 50.0)
    whole = resampled(read_recordings(folder, sampling_rate=100), 50).signals
    joined = np.concatenate([*read.signals[:2]], axis=1)
    np.testing.assert_allclose(joined, whole[0, :, :200], atol=1e-6)  # rounding of float32
    assert "100 Hz by the times in s and 200 Hz by the times in s; resampled to 50" in read.notes[0]


@pytest.mark.parametrize(
    ("times", "rate"),
    [
        (np.arange(500) / 256, 256),
        (np.floor(1000 * np.arange(500) / 256) / 1000 + 1.7e9, 256),  # rounded, since 1970
        (np.floor(1000 * np.arange(500) / 256), 256),  # milliseconds
        (np.arange(500) * 4 + np.arange(500) // 100 * 5000, 250),  # interrupted
        (np.arange(500) / 31.25, 31.2),
    ],
)
def test_the_times_give_the_sampling_rate(folder, times, rate):
    for name in FILES:
        samples(folder / f"{name}.csv", times=times.tolist())
    assert read_recordings(folder).sampling_rate == rate


def test_a_rate_by_the_times_near_that_of_the_first_recording_is_taken_as_that(folder):
    samples(folder / "A_task.csv", rate=99)  # samples were lost
    read = read_recordings(folder, window_seconds=2.0)
    assert read.sampling_rate == 100
    assert "99 Hz by the times in s, taken as 100 Hz" in read.notes[0]
    (folder / "recordings.csv").write_text("file,label,subject,fs\nA_rest.csv,rest,A,100\n"
                                           "A_task.csv,task,A,99\n")  # fmt: skip
    with pytest.raises(DataError, match="A is 99 Hz"):  # the user says that they differ
        read_recordings(folder)


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        (range(500), "1 apart, which is 1 Hz if in s or 1000 Hz if in ms"),  # numbers of samples
        (np.arange(500) / 10, r"0\.1 apart, which is 10 Hz if in s or 1e\+04 Hz if in ms"),
        (np.arange(500) * 1e6, r"1e\+06 apart, which is 1e-06 Hz if in s or 0\.001 Hz if in ms"),
        (np.zeros(500), "the table has no column of increasing times"),
        (["10:00:01.004"] * 500, "the table has no column of increasing times"),
    ],
)
def test_times_of_an_unclear_unit_are_refused_and_a_given_rate_comes_first(folder, times, problem):
    for name in FILES:
        samples(folder / f"{name}.csv", times=list(times))
    with pytest.raises(
        DataError, match=rf"A_rest\.csv: .*{problem}\. Add a column fs .*recordings"
    ):
        read_recordings(folder)
    lines = zip(LISTED.split(), ("fs", "62.5", "62.5", "62.5"), strict=True)
    (folder / "recordings.csv").write_text("\n".join(map(",".join, lines)))
    read = read_recordings(folder)
    assert (read.sampling_rate, read.channels) == (62.5, ("Fz", "Cz"))


def test_columns_are_found_by_position_and_classes_are_optional(folder):
    (folder / "recordings.csv").write_text(
        "person,state,rec\nA,rest,A_rest.csv\nB,task,B_rest.csv\n"
    )
    with pytest.raises(
        DataError, match=r"recordings\.csv, line 2, column 'state': there is no file"
    ):
        read_recordings(folder)
    (folder / "recordings.csv").write_text("rec,state,who\nA_rest.csv,rest,A\nB_rest.csv,task,B\n")
    assert read_recordings(folder).classes == ("rest", "task")
    (folder / "recordings.csv").write_text("file,subject\nA_rest.csv,A\nB_rest.csv,B\n")
    assert read_recordings(folder, is_labeled=False).classes == ("unknown",)
    (folder / "b.csv").write_text("file,label,subject\nA_rest.csv,,A\nB_rest.csv,,B\n")
    read = read_recordings(folder / "b.csv", is_labeled=False, sampling_rate=100)
    assert read.signals.shape == (2, 2, 500)
    assert "resampled" not in read.notes[0]
    with pytest.raises(DataError, match="no column is left for the label"):
        read_recordings(folder)


def test_a_table_of_samples_may_lack_a_header(folder):
    for name in FILES:
        path = folder / f"{name}.csv"
        path.write_text("".join(f"{line.partition(',')[2]}\n" for line in
                                path.read_text().splitlines()[1:]))  # fmt: skip
    (folder / "recordings.csv").write_text(LISTED.replace(".csv,", ".csv,100,").replace(
        "file,", "file,fs,"))  # fmt: skip
    read = read_recordings(folder)
    assert (read.channels, read.signals.shape) == (("1", "2"), (3, 2, 500))


@pytest.mark.parametrize(("listed", "message"), [
    ("../other.csv,rest,C", r"line 5, column 'file': the file '\.\./other\.csv' is not in "),
    ("/dev/null,rest,C", r"line 5, column 'file': there is no file '/dev/null'"),
    ("C.csv,rest,C", r"line 5, column 'file': there is no file 'C\.csv'; expected a path from"),
    ("A_rest.csv,,A", r"line 5, column 'label': the cell is empty; expected the label"),
    ("A_rest.csv,rest,", r"line 5, column 'subject': the cell is empty"),
    ("./A_rest.csv,task,B", r"line 5: \./A_rest\.csv is listed on line 2, too"),
])  # fmt: skip
def test_mistakes_of_the_list_are_named(folder, listed, message):
    (folder.parent / "other.csv").write_bytes((folder / "A_rest.csv").read_bytes())
    (folder / "recordings.csv").write_text(f"{LISTED}{listed}\n")
    with pytest.raises(DataError, match=rf"recordings\.csv, {message}"):
        read_recordings(folder)


def test_mistakes_of_the_samples_are_named(folder):
    path = folder / "A_task.csv"
    good = path.read_text()
    for cell in ("", "nan", "off"):
        path.write_text(good + f"9.9,1.5,{cell}\n")
        with pytest.raises(
            DataError, match=rf"A_task\.csv, line 532, column 'Cz': '{cell}' is not a finite number"
        ):
            read_recordings(folder)
    path.write_text(good.replace("Cz", "Pz"))
    with pytest.raises(
        DataError, match=r"A_task\.csv: .* channels differ .*Cz, Pz are in only one"
    ):
        read_recordings(folder)
    path.write_text(good)
    with pytest.raises(DataError, match=r"A_rest\.csv: .* 5 s and is shorter than a window of 6 s"):
        read_recordings(folder, window_seconds=6)
    (folder / "recordings.csv").write_text(LISTED.replace("subject", "subject,fs").replace(
        "A\n", "A,-1\n").replace("B\n", "B,\n"))  # fmt: skip
    with pytest.raises(
        DataError, match="column 'fs': the sampling rate is '-1'; expected a positive"
    ):
        read_recordings(folder)
    (folder / "recordings.csv").write_text(LISTED)
    with pytest.raises(ArgumentError, match="seconds"):
        read_recordings(folder, window_seconds=1e-9)
