"""The same recording in the formats that MNE reads gives the same windows."""

from __future__ import annotations

import os

import numpy as np
import pytest

from representer.data.signals import arrays, read_mne, read_recordings
from representer.errors import DataError

mne = pytest.importorskip("mne")
edfio = pytest.importorskip("edfio")
scipy_io = pytest.importorskip("scipy.io")

RATE, CHANNELS, MARKS = 100.0, ("Fz", "Cz"), ((0.5, 1.0, "rest"), (2.0, 1.2, "task"))
SIGNALS = np.stack([np.arange(600.0), 600 - np.arange(600.0)])  # in microvolts


def write_fif(path):
    raw = mne.io.RawArray(SIGNALS * 1e-6, mne.create_info(list(CHANNELS), RATE, "eeg"))
    raw.set_annotations(mne.Annotations(*zip(*MARKS, strict=True))).save(path)


def write_bdf(path):
    channels = [
        edfio.BdfSignal(one, RATE, label=name, physical_dimension="uV")
        for one, name in zip(SIGNALS, CHANNELS, strict=True)
    ]
    marks = [edfio.EdfAnnotation(*one) for one in MARKS]
    edfio.Bdf(channels, annotations=marks).write(path)


def write_vhdr(path):
    listed = "".join(f"Ch{k}={name},,1,µV\n" for k, name in enumerate(CHANNELS, 1))
    path.write_text(
        "Brain Vision Data Exchange Header File Version 1.0\n[Common Infos]\nCodepage=UTF-8\n"
        f"DataFile={path.stem}.eeg\nMarkerFile={path.stem}.vmrk\nDataFormat=BINARY\n"
        "DataOrientation=MULTIPLEXED\nNumberOfChannels=2\nSamplingInterval=10000\n"
        f"[Binary Infos]\nBinaryFormat=IEEE_FLOAT_32\n[Channel Infos]\n{listed}",
        encoding="utf-8",
    )
    SIGNALS.T.astype("<f4").tofile(path.with_suffix(".eeg"))
    marks = "".join(
        f"Mk{k}=Comment,{name},{round(at * RATE) + 1},{round(lasts * RATE)},0\n"
        for k, (at, lasts, name) in enumerate(MARKS, 1)
    )
    path.with_suffix(".vmrk").write_text(
        f"Brain Vision Data Exchange Marker File, Version 1.0\n[Common Infos]\nCodepage=UTF-8\n"
        f"DataFile={path.stem}.eeg\n[Marker Infos]\n{marks}"
    )


def eeglab(signals, trials, events, **fields):
    kinds = [("latency", float), ("type", object), ("duration", float), ("epoch", float)]
    return {
        "trials": trials, "nbchan": 2, "pnts": signals.shape[1], "srate": RATE, "xmin": 0.0,
        "xmax": (signals.shape[1] - 1) / RATE, "data": signals, "epoch": [], "setname": "",
        "event": np.array(events, kinds), "icawinv": [], "icaweights": [], "icasphere": [],
        "chanlocs": np.array([(name,) for name in CHANNELS], [("labels", object)]), **fields,
    }  # fmt: skip


def write_set(path):
    events = [(at * RATE + 1, name, lasts * RATE, 1) for at, lasts, name in MARKS]
    scipy_io.savemat(path, {"EEG": eeglab(SIGNALS, 1, events)}, appendmat=False)


def write_trials(path):
    """Write the windows as trials of a file of EEGLAB."""
    starts = [round(at * RATE) for at, _, _ in MARKS]
    trials = np.stack([SIGNALS[:, at : at + 100] for at in starts], axis=2)
    names = [name for _, _, name in MARKS]
    events = [(100 * k + 1, name, 0, k + 1) for k, name in enumerate(names)]
    epochs = np.array(
        [(name, 0.0) for name in names], [("eventtype", object), ("eventlatency", float)]
    )
    scipy_io.savemat(path, {"EEG": eeglab(trials, 2, events, epoch=epochs)}, appendmat=False)


@pytest.mark.parametrize(("name", "write"), [
    ("s1_raw.fif", write_fif), ("s1.bdf", write_bdf), ("s1.vhdr", write_vhdr),
    ("s1.set", write_set), ("s1.set", write_trials),
])  # fmt: skip
def test_windows_are_those_of_the_recording(tmp_path, name, write):
    with mne.use_log_level("error"):
        write(tmp_path / name)
    for read in (read_mne(tmp_path / name), read_recordings(tmp_path)):
        assert (read.sampling_rate, read.channels, set(read.subjects)) == (RATE, CHANNELS, {"s1"})
        assert [read.classes[label].split("/")[-1] for label in read.labels] == ["rest", "task"]
        expected = np.stack([SIGNALS[:, round(at * RATE) :][:, :100] for at, _, _ in MARKS])
        np.testing.assert_allclose(read.signals * 1e6, expected, atol=1e-3)  # 24 bits of 600


def vhdr_of(folder, data="s1.eeg", marker="s1.vmrk", channels="2"):
    write_vhdr(folder / "s1.vhdr")
    text = (folder / "s1.vhdr").read_text(encoding="utf-8")
    text = text.replace("DataFile=s1.eeg", f"datafile : {data}").replace("s1.vmrk", marker)
    text = text.replace("NumberOfChannels=2", f"NumberOfChannels={channels}")
    (folder / "s1.vhdr").write_text(text, encoding="utf-8")
    return folder / "s1.vhdr"


def set_of(folder, fields, epochs=False):
    events = [(at * RATE + 1, name, lasts * RATE, 1) for at, lasts, name in MARKS]
    content = eeglab(SIGNALS, 2 if epochs else 1, events) | fields
    scipy_io.savemat(folder / "s1.set", {"EEG": content}, appendmat=False)
    return folder / "s1.set"


@pytest.fixture
def other(tmp_path):
    """Return samples in another folder."""
    (tmp_path / "other").mkdir()
    (tmp_path / "data").mkdir()
    for name in ("o.eeg", "o.vmrk", "o.fdt"):
        SIGNALS.T.astype("<f4").tofile(tmp_path / "other" / name)
    return tmp_path / "other"


@pytest.mark.parametrize("is_absolute", [False, True])
@pytest.mark.parametrize("field", ["data", "marker", "set", "epochs"])
def test_a_file_of_another_folder_is_never_read(other, field, is_absolute):
    folder, named = other.parent / "data", str(other) if is_absolute else "../other"
    if field in ("data", "marker"):
        path = vhdr_of(folder, **{field: f"{named}/o.{'eeg' if field == 'data' else 'vmrk'}"})
    else:
        path = set_of(folder, {"data": f"{named}/o.fdt"}, epochs=field == "epochs")
    with pytest.raises(DataError, match=r"s1\.(vhdr|set): it names the file .* in another folder"):
        read_mne(path)


@pytest.mark.parametrize("suffix", [".eeg", ".vmrk", ".fdt"])
@pytest.mark.parametrize("what", ["link", "pipe", "device"])
def test_links_out_of_the_folder_and_special_files_are_never_read(other, suffix, what):
    folder = other.parent / "data"
    path = set_of(folder, {"data": "s1.fdt"}) if suffix == ".fdt" else vhdr_of(folder)
    beside = path.with_suffix(suffix)
    beside.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(beside)
    else:
        beside.symlink_to(other / f"o{suffix}" if what == "link" else "/dev/zero")
    expected = "is not a regular file" if what == "pipe" else "in another folder"
    with pytest.raises(DataError, match=expected):
        read_mne(path)


def test_samples_beside_a_file_of_eeglab_are_read(tmp_path):
    SIGNALS.T.astype("<f4").tofile(tmp_path / "s1.fdt")
    read = read_mne(set_of(tmp_path, {"data": "s1.fdt"}))
    np.testing.assert_allclose(read.signals[0] * 1e6, SIGNALS[:, 50:150], atol=1e-3)


@pytest.mark.parametrize(("fields", "problem"), [
    ({"nbchan": 1e9, "chanlocs": []}, "1,000,000,000 channels are declared"),
    ({"pnts": 1e12, "data": "s1.fdt"}, "2,000,000,000,000 samples are declared"),
    ({"trials": 1e9, "event": [], "epoch": []}, "samples are declared"),
])  # fmt: skip
def test_sizes_that_a_file_of_eeglab_declares_are_checked(tmp_path, fields, problem):
    with pytest.raises(DataError, match=problem):
        read_mne(set_of(tmp_path, fields))


def test_a_file_of_eeglab_that_is_compressed_too_far_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "most_bytes", lambda size: 100_000)
    fields = {"icaweights": np.zeros((100, 1000))}
    scipy_io.savemat(tmp_path / "s1.set", {"EEG": eeglab(SIGNALS, 1, []) | fields},
                     appendmat=False, do_compression=True)  # fmt: skip
    with pytest.raises(DataError, match="compressed too far"):
        read_mne(tmp_path / "s1.set")


def test_the_header_of_brainvision_is_short_and_declares_few_channels(tmp_path):
    with pytest.raises(DataError, match="999,999,999 channels are declared; at most 10,000"):
        read_mne(vhdr_of(tmp_path, channels="999999999"))
    with (tmp_path / "s1.vhdr").open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match="the header has more than"):
        read_mne(tmp_path / "s1.vhdr")


def test_files_of_several_rates_are_resampled_to_the_one_that_is_named(tmp_path):
    for name, rate in (("s1", 100.0), ("s2", 50.0)):
        raw = mne.io.RawArray(np.ones((1, 600)), mne.create_info(["Fz"], rate, "eeg"))
        raw.set_annotations(mne.Annotations([1.0, 3.0], [2.0, 2.0], ["rest", "task"]))
        raw.save(tmp_path / f"{name}_raw.fif", verbose="error")
    with pytest.raises(DataError, match="Resample them to one rate with --resample HZ"):
        read_recordings(tmp_path)
    read = read_recordings(tmp_path, sampling_rate=50.0)
    assert (read.sampling_rate, read.signals.shape, read.seconds) == (50.0, (4, 1, 100), 2.0)


def test_a_recording_without_events_is_whole_but_for_its_bad_segments(tmp_path):
    raw = mne.io.RawArray(SIGNALS[:1], mne.create_info(["Fz"], RATE, "eeg"))
    path = tmp_path / "s1_raw.fif"
    raw.set_annotations(mne.Annotations([1.0], [0.5], ["BAD_move"])).save(path, verbose="error")
    with pytest.raises(DataError, match="list the files in recordings"):
        read_recordings(path)
    read = read_recordings(path, is_labeled=False)
    np.testing.assert_array_equal(read.signals[0, 0], [*range(100), *range(150, 600)])
    read = read_recordings(path, is_labeled=False, sampling_rate=50.0, window_seconds=1.0)
    assert (read.signals.shape, read.subjects.tolist()) == ((5, 1, 50), ["s1"] * 5)
