"""Recordings that MNE reads: windows around events, formats, and sizes that files declare."""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from representer.data.signals import arrays, mne_files, read_mne, read_recordings
from representer.data.signals.mne_files import check_edf, check_fif, require_plausible
from representer.errors import DataError

mne = pytest.importorskip("mne")
edfio = pytest.importorskip("edfio")
scipy_io = pytest.importorskip("scipy.io")


# Windows around the events of .fif and .edf files.

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


# The same recording in the formats that MNE reads gives the same windows.

RATE, CHANNELS, TWO_MARKS = (
    100.0,
    ("Fz", "Cz"),
    ((0.5, 1.0, "rest"), (2.0, 1.2, "task")),
)
SIGNALS = np.stack([np.arange(600.0), 600 - np.arange(600.0)])  # in microvolts


def write_fif(path):
    raw = mne.io.RawArray(SIGNALS * 1e-6, mne.create_info(list(CHANNELS), RATE, "eeg"))
    raw.set_annotations(mne.Annotations(*zip(*TWO_MARKS, strict=True))).save(path)


def write_bdf(path):
    channels = [
        edfio.BdfSignal(one, RATE, label=name, physical_dimension="uV")
        for one, name in zip(SIGNALS, CHANNELS, strict=True)
    ]
    marks = [edfio.EdfAnnotation(*one) for one in TWO_MARKS]
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
        for k, (at, lasts, name) in enumerate(TWO_MARKS, 1)
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
    events = [(at * RATE + 1, name, lasts * RATE, 1) for at, lasts, name in TWO_MARKS]
    scipy_io.savemat(path, {"EEG": eeglab(SIGNALS, 1, events)}, appendmat=False)


def write_trials(path):
    """Write the windows as trials of a file of EEGLAB."""
    starts = [round(at * RATE) for at, _, _ in TWO_MARKS]
    trials = np.stack([SIGNALS[:, at : at + 100] for at in starts], axis=2)
    names = [name for _, _, name in TWO_MARKS]
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
        assert (read.sampling_rate, read.channels, set(read.subjects)) == (
            RATE,
            CHANNELS,
            {"s1"},
        )
        assert [read.classes[label].split("/")[-1] for label in read.labels] == ["rest", "task"]
        expected = np.stack([SIGNALS[:, round(at * RATE) :][:, :100] for at, _, _ in TWO_MARKS])
        np.testing.assert_allclose(read.signals * 1e6, expected, atol=1e-3)  # 24 bits of 600


def vhdr_of(folder, data="s1.eeg", marker="s1.vmrk", channels="2"):
    write_vhdr(folder / "s1.vhdr")
    text = (folder / "s1.vhdr").read_text(encoding="utf-8")
    text = text.replace("DataFile=s1.eeg", f"datafile : {data}").replace("s1.vmrk", marker)
    text = text.replace("NumberOfChannels=2", f"NumberOfChannels={channels}")
    (folder / "s1.vhdr").write_text(text, encoding="utf-8")
    return folder / "s1.vhdr"


def set_of(folder, fields, epochs=False):
    events = [(at * RATE + 1, name, lasts * RATE, 1) for at, lasts, name in TWO_MARKS]
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


# Sizes and links of FIF and EDF files are checked before MNE follows them.


def tag(kind: int, data: bytes = b"", *, following: int = 0, length: int | None = None) -> bytes:
    return struct.pack(">iIii", kind, 31, len(data) if length is None else length, following) + data


START = tag(100, bytes(20)) + tag(101, struct.pack(">i", -1))


def written(path, content: bytes):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["a.fif", "a.fif.gz"])
@pytest.mark.parametrize(("content", "problem"), [
    (tag(101), "does not start like a FIF file"),
    (START + tag(3, b"ab", length=2**31 - 1), "declares 2,147,483,647 bytes, and 2 are left"),
    (START + tag(3, b"ab", length=-5), "declares -5 bytes"),
    (START + tag(3, b"ab", following=36), "links backwards"),
    (START + tag(118, b"../../etc/passwd"), "in another folder"),
    (START + tag(118, b"/dev/zero"), "in another folder"),
    (tag(100, bytes(20)) + tag(101, struct.pack(">i", 10**6)), "directory .* after the end"),
    (tag(100, bytes(20)) + tag(101, struct.pack(">i", 36)), "directory .* is damaged"),
    (
        tag(100, bytes(20)) + tag(101, struct.pack(">i", 56))
        + tag(102, struct.pack(">iIii", 3, 3, 4, 10**6)),
        "has an entry after the end",
    ),
])  # fmt: skip
def test_invalid_tags_are_rejected(tmp_path, name, content, problem):
    path = written(tmp_path / name, content)
    with pytest.raises(ValueError, match=problem):
        check_fif(path)


@pytest.mark.parametrize("name", ["a.fif", "a.fif.gz"])
def test_valid_tags_pass_and_a_cut_file_does_not(tmp_path, name):
    listed = tag(102, struct.pack(">iIii", 100, 31, 20, 0))
    valid = tag(100, bytes(20)) + tag(101, struct.pack(">i", 56)) + listed
    check_fif(written(tmp_path / name, valid))
    with pytest.raises(ValueError, match="directory of tags is damaged"):
        check_fif(written(tmp_path / name, valid[:-4]))
    check_fif(written(tmp_path / name, START + tag(108, bytes(3), following=-1)))


def test_a_recording_that_continues_itself_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"a\.fif continues itself"):
        check_fif(written(tmp_path / "a.fif", START + tag(118, b"a.fif")))
    written(tmp_path / "b.fif", START + tag(117, struct.pack(">i", 1)))
    with pytest.raises(ValueError, match=r"b-1\.fif continues itself"):
        check_fif(written(tmp_path / "b-1.fif", START + tag(118, b"b.fif")))


def test_the_parts_of_a_recording_are_checked_too(tmp_path):
    path = written(tmp_path / "a.fif", START + tag(118, b"a-1.fif"))
    check_fif(path)  # the part is missing, which MNE may allow
    os.mkfifo(tmp_path / "a-1.fif")
    with pytest.raises(DataError, match=r"a-1\.fif: is not a regular file"):
        check_fif(path)


def test_a_gz_file_that_expands_too_far_is_rejected(tmp_path):
    with pytest.raises(DataError, match="expands to more than"):
        check_fif(written(tmp_path / "a.fif.gz", START + tag(3, bytes(2 << 20))))


def edf(signals: str, samples: list[str], data: int) -> bytes:
    head = b"0".ljust(252) + signals.encode().ljust(4)
    fields = b"".join(field.encode().ljust(8) for field in samples)
    return head + b" " * (216 * len(samples)) + fields + b" " * (32 * len(samples)) + bytes(data)


@pytest.mark.parametrize(("content", "problem"), [
    (edf("2", ["4", "4"], 0)[:200], "header ends too early"),
    (edf("9999", ["4", "4"], 16), "declares 9999 signals"),
    (edf("0", [], 16), "declares 0 signals"),
    (edf("-1", ["4"], 16), "number of signals is '-1  '"),
    (edf("1", ["1_0"], 160), "number of samples is '1_0     '"),
    (edf("2", ["4", "99999999"], 160), "no complete data record"),
    (edf("2", ["0", "0"], 0), "no complete data record"),
])  # fmt: skip
def test_invalid_edf_headers_are_rejected(tmp_path, content, problem):
    path = tmp_path / "a.edf"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=problem):
        check_edf(path)


@pytest.mark.parametrize(("name", "size"), [("a.edf", 16), ("a.bdf", 24)])
def test_a_header_needs_the_bytes_of_one_record(tmp_path, name, size):
    path = tmp_path / name
    path.write_bytes(edf("2", ["4", "4"], size))
    check_edf(path)  # raises nothing
    path.write_bytes(edf("2", ["4", "4"], size - 1))
    with pytest.raises(ValueError, match="no complete data record"):
        check_edf(path)


def test_all_signals_are_counted_at_the_highest_rate():
    require_plausible(10_000_000 + 100 * 16, 16)
    with pytest.raises(ValueError, match="are declared in 16 bytes"):
        require_plausible(10_000_001 + 100 * 16, 16)
