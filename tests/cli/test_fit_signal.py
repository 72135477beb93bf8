"""``fit signal`` and what follows: evaluate, predict, report, and what is refused."""

from __future__ import annotations

import html
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from cli.conftest import SIGNAL, rows_of
from representer import estimators
from representer.cli.main import entry_point
from representer.data.signals import Standardization, resampled, synthetic_recordings, write_npz
from representer.options.signal import SignalConfig
from representer.tasks.signal.data import prepare
from undrawn import undrawn


@pytest.fixture(scope="session", params=["both", "kernel"])
def joint(signal_file, request):
    out = signal_file.parent / request.param
    if out.exists():  # in a random order, parameters take turns
        return out
    words = ["--folds", "2", "--answer", request.param]
    with undrawn():
        assert (
            entry_point(["fit", "signal", str(signal_file), "--out", str(out), *SIGNAL, *words])
            == 0
        )
    return out


def written(folder, **changes):
    """Write arrays that may not fit, and return the file."""
    x = np.random.default_rng(0).normal(size=(12, 2, 60))
    arrays = {"X": x, "y": np.arange(12) % 2, "subject": np.arange(12) // 4, "fs": 50} | changes
    path = folder / "bad.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def probabilities(text: str) -> np.ndarray:
    return np.asarray([[float(row["probability_apart"])] for row in rows_of(text)])


def test_subjects_are_counted_once_in_the_mean_and_beside_the_baseline(signal_run):
    metrics = json.loads((signal_run / "metrics.json").read_text())
    assert list(metrics["by_subject"]) == [f"subject {k}" for k in range(4)]
    accuracies = list(metrics["by_subject"].values())
    assert metrics["mean"] == pytest.approx(np.mean(accuracies))
    assert metrics["deviation"] == pytest.approx(np.std(accuracies, ddof=1))
    assert metrics["test"]["count"] == 40
    baseline, chance = metrics["baselines"]
    assert chance["name"] == "majority class"
    assert baseline["by_subject"].keys() == metrics["by_subject"].keys()
    counts = [baseline["difference"][name] for name in ("better", "worse", "equal")]
    assert sum(counts) == 4
    assert metrics["verdict"].startswith(f"On 4 test subjects, {metrics['model']} is ")
    assert metrics["standing"]["baseline"] == baseline["name"]


def test_kernel_and_network_predict_together_and_their_shares_are_reported(joint, run, signal_file):
    metrics = json.loads((joint / "metrics.json").read_text())
    names = ["kernel", "network"] if joint.name == "both" else ["kernel"]
    assert list(metrics["parts"]) == names
    assert sum(part["share"] for part in metrics["parts"].values()) == pytest.approx(1)
    assert metrics["seconds"] == pytest.approx(
        sum(part["seconds"] for part in metrics["parts"].values())
    )
    assert metrics["model"].startswith("kernel")
    # power does not tell the classes of the synthetic recordings apart, coupling does
    assert metrics["mean"] > 0.8
    assert metrics["baselines"][0]["mean"] < metrics["mean"]
    model = estimators.load(joint)
    assert model.answer == joint.name
    page = (joint / "report.html").read_text(encoding="utf-8")
    assert metrics["model"] in page
    halves = [f"{name} alone" for name in names] if joint.name == "both" else []
    assert [row["name"] for row in metrics["alone"]] == halves
    assert all(f"{row['name']}</td>" in page for row in metrics["alone"])
    assert all(row["by_subject"].keys() == metrics["by_subject"].keys() for row in metrics["alone"])
    assert ("Learning curves" in page) == (joint.name == "both")
    assert ("Frequency bands" in page) == (joint.name == "both")
    rows = rows_of(run("predict", joint, signal_file).out)
    assert len(rows) == 40


def test_bands_and_channels_are_explained_by_name(joint, run, signal_file, recordings, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(joint, out)
    words = ["--limit", "3", "--top", "4", "--report", "--by", "feature"]
    outcome = run("explain", out, signal_file, *words)
    assert outcome.code == 0, outcome.err
    for entry in json.loads((out / "explanations.json").read_text()):
        parts = [part["contribution"] for part in entry["contributions"]]
        total = entry["constant"] + sum(parts) + entry["others"]["contribution"]
        assert total == pytest.approx(entry["score"], abs=1e-6)
        for one in entry["contributions"]:
            assert one["what"] in outcome.out
            if one["kernel"]:
                ((*channels,),) = one["places"]
                names = [recordings.channels[channel] for channel in channels]
                assert one["what"].endswith(f" Hz, {' and '.join(names)}")


def test_only_a_network_predicts_a_stream(joint, run, signal_file):
    outcome = run("predict", joint, signal_file, "--stream")
    if joint.name == "kernel":
        assert outcome.code == 2
        assert "expected a model with a network, since a kernel compares whole" in outcome.error
        return
    assert "the network alone predicts the stream" in outcome.err
    network = estimators.load(joint).part("network")
    signals = Standardization("subject").apply(
        synthetic_recordings(subjects=4, windows=10)
    ).signals  # fmt: skip
    streamed = probabilities(outcome.out)[5::6, 0]
    np.testing.assert_allclose(streamed, network.predict_proba(signals)[:, 0], atol=2e-6)


def test_the_report_has_bars_test_confusion_and_folds(signal_run):
    page = (signal_run / "report.html").read_text(encoding="utf-8")
    for part in (
        "Accuracy on each subject", "Wilcoxon", "Confusion", "Folds", "early stopping on",
        "log band power", "Learning curves", "standardization", '<table class="matrix">',
    ):  # fmt: skip
        assert part in page
    assert "<script" not in page


def test_evaluate_on_a_fold_gives_the_figures_of_the_fold(run, signal_run, recordings, tmp_path):
    metrics = json.loads((signal_run / "metrics.json").read_text())
    path = tmp_path / "one.npz"
    write_npz(path, recordings.take(recordings.subjects == "subject 2"))
    fold = next((signal_run / "folds").glob("002-*"))
    outcome = run("evaluate", fold, path)
    found = json.loads(outcome.out.splitlines()[-1])
    assert found["by_subject"] == {"subject 2": metrics["by_subject"]["subject 2"]}
    assert "the model was trained on" not in outcome.err
    assert "the model was trained on subject 2; only" in run("evaluate", signal_run, path).err


def test_a_stream_ends_with_the_prediction_for_the_window(run, signal_run, signal_file):
    whole = probabilities(run("predict", signal_run, signal_file).out)
    outcome = run("predict", signal_run, signal_file, "--stream")
    rows = rows_of(outcome.out)
    assert [float(row["second"]) for row in rows[:6]] == [0.25, 0.4, 0.55, 0.7, 0.85, 1.0]
    assert np.allclose(probabilities(outcome.out)[5::6], whole, atol=2e-6)
    assert "240 steps of 15 samples, 150 ms of the signal each: p50 " in outcome.err
    assert "a live stream needs these statistics in advance" in outcome.err


def test_channels_in_another_order_are_reordered_by_name(
    run, signal_run, signal_file, recordings, tmp_path
):
    path = tmp_path / "turned.npz"
    write_npz(path, recordings.in_order(("ch2", "ch0", "ch3", "ch1")))
    assert run("predict", signal_run, path).out == run("predict", signal_run, signal_file).out


def test_channels_that_the_model_lacks_are_left_out_with_a_notice(
    run, signal_run, signal_file, recordings, tmp_path
):
    more = replace(
        recordings,
        signals=np.concatenate([recordings.signals[:, :1], recordings.signals], axis=1),
        channels=("EOG", *recordings.channels),
    )
    write_npz(tmp_path / "more.npz", more)
    outcome = run("predict", signal_run, tmp_path / "more.npz")
    assert outcome.out == run("predict", signal_run, signal_file).out
    assert "more.npz: the channels EOG are unknown to the model and ignored" in outcome.err


def test_a_missing_channel_is_reported(run, signal_run, recordings, tmp_path):
    write_npz(tmp_path / "few.npz", recordings.in_order(("ch0", "ch1", "ch3")))
    outcome = run("predict", signal_run, tmp_path / "few.npz")
    assert outcome.code == 2
    assert "few.npz: the channels ch2 are missing" in outcome.error


def test_another_sampling_rate_is_resampled_with_a_notice(
    run, signal_run, signal_file, recordings, tmp_path
):
    write_npz(tmp_path / "fast.npz", resampled(recordings, 200))
    outcome = run("predict", signal_run, tmp_path / "fast.npz")
    assert "fast.npz: resampled from 200 Hz to 100 Hz" in outcome.err
    ours = probabilities(run("predict", signal_run, signal_file).out)
    assert np.abs(probabilities(outcome.out) - ours).max() < 0.05


def test_longer_windows_are_cut_and_shorter_ones_told(run, signal_run, recordings, tmp_path):
    longer = replace(
        recordings, signals=np.concatenate([recordings.signals, recordings.signals], axis=2)
    )
    write_npz(tmp_path / "long.npz", longer)
    outcome = run("predict", signal_run, tmp_path / "long.npz")
    assert "long.npz: 40 windows of 2 s are cut into 80 of 1 s" in outcome.err
    assert len(rows_of(outcome.out)) == 80
    write_npz(tmp_path / "short.npz", replace(recordings, signals=recordings.signals[:, :, :90]))
    outcome = run("predict", signal_run, tmp_path / "short.npz")
    assert "short.npz: window 0 of subject subject 0, like all windows, has 0." in (outcome.error)


def test_predict_needs_no_classes_and_evaluate_knows_its_own(
    run, signal_run, signal_file, recordings, tmp_path
):
    path = tmp_path / "bare.npz"
    np.savez(path, X=recordings.signals, subject=recordings.subjects, fs=100)
    assert run("predict", signal_run, path).out == run("predict", signal_run, signal_file).out
    assert "bare.npz: there is no array y;" in run("evaluate", signal_run, path).error
    write_npz(path, replace(recordings, classes=("apart", "together")))
    error = run("evaluate", signal_run, path).error
    assert "bare.npz: the label 'together' is not one of the 2 classes: 'apart', 'in step'" in error


def test_a_class_that_evaluate_does_not_find_keeps_the_numbers_of_the_others(
    run, signal_run, recordings, tmp_path
):
    renamed = replace(recordings, classes=("in step", "apart"))  # all labels are turned round
    write_npz(tmp_path / "turned.npz", renamed)
    write_npz(tmp_path / "given.npz", recordings)
    ours, turned = (
        json.loads(run("evaluate", signal_run, tmp_path / name).out.splitlines()[-1])
        for name in ("given.npz", "turned.npz")
    )
    assert ours["accuracy"] == pytest.approx(1 - turned["accuracy"])
    for subject, accuracy in ours["by_subject"].items():
        assert turned["by_subject"][subject] == pytest.approx(1 - accuracy)


@pytest.mark.parametrize(("changes", "words", "message"), [
    ({"y": None, "fs": None}, [], "bad.npz: there is no array y and no fs"),
    ({"X": np.full((12, 2, 60), np.nan)}, [],
     "bad.npz: window 0 of subject 0 has samples that are not finite, in channel ch0"),
    ({}, ["--window-seconds", "2"],
     "bad.npz: window 0 of subject 0, like all windows, has 1.2 s and is shorter than"),
    ({}, ["--stride", "61"],
     "bad.npz: window 0 of subject 0 has 60 samples, fewer than the 61 of one step"),
    ({"subject": np.arange(12) // 6}, [],
     "bad.npz: there are 1 subjects besides the test subjects; expected at least 2"),
    ({"y": np.asarray([0] * 8 + [1] * 4)}, [],
     "bad.npz: the training subjects of fold '0' have no window of"),
    ({}, ["--test-subjects", "0,nobody"],
     "bad.npz: there is no subject nobody; the subjects are 0,"),
    ({}, ["--folds", "9"], "--folds is 9; expected 0, or 2 to 3, the number of subjects"),
    ({}, ["--cell", "rmk-lstm"], "Did you mean 'rkm-lstm'?"),
    ({}, ["--cell", "torch-lstm"], "The cell 'torch-lstm' has no such option."),
    ({}, ["--resample", "0.00001"], "expected a ratio of integers up to 10,000 times 50 Hz"),
])  # fmt: skip
def test_bad_input_is_reported_before_anything_is_written(run, tmp_path, changes, words, message):
    out = tmp_path / "run"
    outcome = run("fit", "signal", written(tmp_path, **changes), "--out", out, *words)
    assert outcome.code == 2
    assert message in outcome.error
    assert not out.exists()


def test_a_subject_of_one_class_is_reported_with_the_file(run, tmp_path):
    y = np.asarray([0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 0, 1, 0, 1])
    x = np.random.default_rng(0).normal(size=(16, 2, 60))
    path = written(tmp_path, X=x, y=y, subject=np.arange(16) // 4)
    outcome = run("fit", "signal", path, "--out", tmp_path / "run", *SIGNAL, "--epochs", "1",
                  "--folds", "2", "--baselines", "none")  # fmt: skip
    assert outcome.code == 0
    assert "bad.npz: subject 2 has windows of one class; their accuracies" in outcome.err
    details = json.loads((tmp_path / "run" / "details.json").read_text())
    assert details["data"]["one_class_subjects"] == ["2"]
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["chance"] == 10 / 16  # of always predicting class 1


def test_an_uninterrupted_run_has_a_report_and_predictions(run, signal_file, tmp_path):
    out = tmp_path / "run"
    words = ["--valid-fraction", "0", "--folds", "2", "--baselines", "all", "--epochs", "1"]
    outcome = run("fit", "signal", signal_file, "--out", out, *SIGNAL, *words)
    assert outcome.code == 0, outcome.err
    assert "trained on 4 subjects, no early stopping" in outcome.err
    page = (out / "report.html").read_text()
    assert "<td>none</td>" in page
    assert "trained on all subjects. It is not tested" in page
    baselines = json.loads((out / "metrics.json").read_text())["baselines"]
    names = ["log band power", "cross-spectral matrices"]
    shown = [*(f"{name} + logistic regression" for name in names), "majority class"]
    assert [one["name"] for one in baselines] == shown
    page = html.unescape(page)
    assert all(f'<td title="{one["description"]}">{one["name"]}</td>' in page for one in baselines)
    assert run("predict", out, signal_file).code == 0


@pytest.mark.parametrize(
    ("classes", "standardize", "is_told"),
    [((0, 1, 0), "subject", True), ((0, 1, 0), "window", False), ((0, 1, 2), "subject", False)],
)
def test_where_all_subjects_have_one_class_standardizing_by_subject_is_warned_of(
    tmp_path, capsys, classes, standardize, is_told
):
    y = np.repeat([k % 2 for k in classes], 4)
    y[8:] = [0, 1, 0, 1] if classes[2] == 2 else y[8:]  # the last subject has both
    prepare(SignalConfig(data=str(written(tmp_path, y=y)), standardize=standardize, stride=10))
    told = "removes the differences between such subjects" in capsys.readouterr().err
    assert told is is_told


def test_an_estimator_saved_in_python_predicts_files(run, recordings, signal_file, tmp_path):
    labels = np.asarray(recordings.classes)[recordings.labels]
    model = estimators.SignalClassifier(
        sampling_rate=100, hidden_size=3, stride=20, epochs=1, random_state=0, verbose=0
    ).fit(recordings.signals, labels)
    model.save(tmp_path / "saved")
    rows = rows_of(run("predict", tmp_path / "saved", signal_file).out)
    assert [row["prediction"] for row in rows] == model.predict(recordings.signals).tolist()


def test_arrays_of_other_names_are_read_as_in_training(run, tmp_path):
    x, y = np.random.default_rng(0).normal(size=(12, 2, 60)), np.arange(12) % 2
    names = {"X": None, "y": None, "eeg": x, "state": y, "trial": np.arange(12)}
    path, out = written(tmp_path, **names), tmp_path / "run"
    error = run("fit", "signal", path, "--out", out, *SIGNAL).error
    assert "bad.npz: there is no array X and no y; the file has " in error
    assert "eeg float64 (12, 2, 60), state int64 (12,), trial int64 (12,)" in error
    assert "--signals NAME, --labels NAME" in error
    words = ["--signals", "eeg", "--labels", "state"]
    small = [
        *SIGNAL, "--epochs", "1", "--folds", "2", "--valid-fraction", "0", "--baselines", "none",
    ]  # fmt: skip
    assert run("fit", "signal", path, "--out", out, *small, *words).code == 0
    assert json.loads((out / "details.json").read_text())["data"]["classes"] == {"0": 6, "1": 6}
    found = run("predict", out, path)
    assert len(rows_of(found.out)) == 12
    usual = written(tmp_path, X=x, y=y)
    assert "there is no array eeg;" in run("predict", out, usual).error
    again = run("predict", out, usual, "--signals", "X", "--labels", "y")
    assert again.out == found.out
    missing = run("fit", "signal", usual, "--out", tmp_path / "b", "--labels", "stage").error
    assert "there is no array stage;" in missing
    other = run("fit", "signal", tmp_path / "a.edf", "--labels", "stage").error
    assert "--labels is 'stage'; expected nothing, since only .npz and .mat files" in other


def test_recordings_of_tables_are_trained_on_and_used(run, tmp_path):
    """The classes differ in power; the recordings in length."""
    rng, listed = np.random.default_rng(0), ["file,state,subject"]
    for k, subject in enumerate("ABC"):
        for gain, state in ((1, "rest"), (3, "task")):
            lines = [f"{t / 50},{a:.3f},{b:.3f}" for t, (a, b) in
                     enumerate(gain * rng.normal(size=(350 + 10 * k, 2)))]  # fmt: skip
            (tmp_path / f"{subject}-{state}.csv").write_text("\n".join(["time,Fz,Cz", *lines]))
            listed.append(f"{subject}-{state}.csv,{state},{subject}")
    data, out = tmp_path / "recordings.csv", tmp_path / "run"
    data.write_text("\n".join(listed))
    words = ["--window-seconds", "2", "--resample", "25", "--answer", "kernel"]
    outcome = run("fit", "signal", data, "--out", out, *SIGNAL, *words, "--baselines", "none")
    assert outcome.code == 0, outcome.err
    made = "50 Hz by the times in s; resampled to 25 Hz; 6 recordings, 18 windows of 2 s"
    assert made in outcome.err
    assert json.loads((out / "metrics.json").read_text())["mean"] > 0.9
    data.write_text("\n".join(",".join(line.split(",")[::2]) for line in listed))
    outcome = run("predict", out, tmp_path)
    assert made in outcome.err
    rows = rows_of(outcome.out)
    assert [row["subject"] for row in rows] == [*"AAAAAABBBBBBCCCCCC"]
    data.write_text("\n".join(listed))
    wrong = [row["prediction"] != ("rest", "task")[k // 3 % 2] for k, row in enumerate(rows)]
    evaluated = json.loads(run("evaluate", out, data).out)
    assert evaluated["accuracy"] == pytest.approx(1 - sum(wrong) / 18)
    assert run("explain", out, data, "--limit", "1").out.startswith("window 0: ")
    refused = run("fit", "signal", data, "--events", "go").error
    assert "--events is 'go'; expected nothing, since only recordings such as .edf files" in refused


def test_recordings_without_events_have_one_label_a_file(run, tmp_path):
    """The classes differ in power; the recordings in length, in rate, and in what is marked."""
    mne = pytest.importorskip("mne")
    rng, listed = np.random.default_rng(0), ["file,label,subject"]
    for k, subject in enumerate("ABC"):
        for gain, state in ((1, "rest"), (3, "task")):
            name, rate = f"{subject}-{state}_raw.fif", (50.0, 25.0)[k % 2]
            signals = 1e-5 * gain * rng.normal(size=(2, round((7 + k / 5) * rate)))
            raw = mne.io.RawArray(
                signals, mne.create_info(["Fz", "Cz"], rate, "eeg"), verbose="error"
            )
            marked = mne.Annotations([0.5], [1.0], ["go"])
            raw.set_annotations(marked if subject == "C" else None)
            raw.save(tmp_path / name, verbose="error")
            listed.append(f"{name},{state},{subject}")
    data, out = tmp_path / "recordings.csv", tmp_path / "run"
    data.write_text("\n".join(listed))
    refused = run("fit", "signal", data, "--window-seconds", "2", "--out", out).error
    assert "Resample them to one rate with --resample HZ." in refused
    words = ["--window-seconds", "2", "--resample", "25", "--answer", "kernel"]
    outcome = run("fit", "signal", data, "--out", out, *SIGNAL, *words, "--baselines", "none")
    assert outcome.code == 0, outcome.err
    assert "resampled to 25 Hz; 6 recordings, 18 windows of 2 s" in outcome.err
    evaluated = json.loads(run("evaluate", out, tmp_path).out)
    assert (evaluated["count"], evaluated["accuracy"] > 0.8) == (18, True)
    (tmp_path / "new").mkdir()
    for name in ("A-task_raw.fif", "C-task_raw.fif"):  # without and with an event
        shutil.copy(tmp_path / name, tmp_path / "new" / name)
        alone = run("predict", out, tmp_path / name)
        assert len(rows_of(alone.out)) == 3, alone.err
    assert len(rows_of(run("predict", out, tmp_path / "new").out)) == 6
    data.write_text("file\nA-task_raw.fif\n")
    assert len(rows_of(run("predict", out, data).out)) == 3
    refused = run("evaluate", out, tmp_path / "A-task_raw.fif").error
    assert "no event is marked in it" in refused
    assert "For one label a file, list the files in recordings.csv" in refused
    data.write_text("file,label,subject,fs\nA-task_raw.fif,task,A,30\n")
    assert "fs is 30 Hz; the file has 50 Hz" in run("evaluate", out, data).error


@pytest.mark.parametrize(("change", "message"), [
    ({"channels": ["ch0"] * 4}, "expected different names"),
    ({"samples": -1}, "expected 0 or more"), ({"channels": 4}, "channels"),
    ({"events": 3}, "events"), ({"more": 1}, "unknown key"),
])  # fmt: skip
def test_damaged_descriptions_of_recordings_are_reported(
    run, signal_run, signal_file, tmp_path, change, message
):
    out = tmp_path / "run"
    shutil.copytree(signal_run, out)
    (out / "manifest.json").unlink()
    described = json.loads((out / "model.json").read_text())
    described["reading"] |= change
    (out / "model.json").write_text(json.dumps(described))
    outcome = run("predict", out, signal_file)
    assert outcome.code == 2
    assert "model.json: cannot be used" in outcome.error
    assert message in outcome.error
