"""``fit signal --recenter subject``: a subject's windows are read together by every command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from representer.data.signals import Recordings, write_npz
from representer.errors import ArgumentError
from representer.estimators import SignalClassifier
from representer.options.signal import SignalConfig, SignalReading, Streaming
from representer.report.page import Predictions
from representer.storage.run import RunFolder, UnsavedRun
from representer.tasks.signal.data import final_fold, windows_of, windows_to_fit
from representer.tasks.signal.flow import FLOW

CONFIG = SignalConfig(answer="kernel", recenter="subject", standardize="training", jobs=1)


def drawn(subjects: range) -> Recordings:
    """Return noise whose power at 10 Hz tells the class, and more the subject."""
    time, rows = np.arange(100) / 50, []
    for subject in subjects:
        rng = np.random.default_rng(subject)
        strength = np.exp(rng.normal())
        for row in range(12):
            wave = strength * (1 + 0.8 * (row % 2)) * np.sin(20 * np.pi * time + rng.uniform(0, 6))
            rows.append((wave + 0.3 * rng.normal(size=(2, 100)), row % 2, f"s{subject}"))
    signals, labels, names = (list(part) for part in zip(*rows, strict=True))
    return Recordings(
        signals=np.array(signals, np.float32), labels=np.array(labels), subjects=np.array(names),
        classes=("low", "high"), sampling_rate=50.0, channels=("a", "b"),
    )  # fmt: skip


def chances_of(predictions: Predictions) -> np.ndarray:
    assert predictions.probabilities is not None
    return predictions.probabilities


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, known = tmp_path_factory.mktemp("recenter"), drawn(range(6))
    sources: dict[str, Any] = {"all": windows_to_fit(known, CONFIG)}
    data = FLOW.fold_data(CONFIG, sources, final_fold(known, 0.2, 0))
    FLOW.train(RunFolder(folder), CONFIG, data, is_silent=True, is_tested=False)
    return folder


def test_the_task_predicts_each_subject_by_its_windows(run):
    estimator, new = SignalClassifier.load(run), drawn(range(20, 23))
    windows = windows_of(new, "new")
    (own,) = FLOW._checked(run, estimator, windows)
    chances = estimator.predict_proba(new.signals, groups=new.subjects)
    np.testing.assert_allclose(chances_of(own), chances, atol=1e-9)
    (mixed,) = estimator.predictions([*new.signals])
    assert np.abs(chances_of(mixed) - chances).max() > 0.01


def test_a_few_windows_are_explained_beside_the_others_of_their_subject(run):
    estimator, new = SignalClassifier.load(run), drawn(range(20, 22))
    windows = windows_of(new, "new")
    chances = estimator.predict_proba(new.signals, groups=new.subjects)
    entries = FLOW.entries(run, estimator, windows.subset([3, 14]), 4)
    names = ["low", "high"]
    assert [one["prediction"].split()[0] for one in entries] == [
        names[chances[row].argmax()] for row in (3, 14)
    ]
    (few,) = FLOW._checked(run, estimator, windows.subset([3, 14]))
    np.testing.assert_allclose(chances_of(few), chances[[3, 14]], atol=1e-9)


def test_windows_of_a_stream_know_those_before_them_alone(run, tmp_path):
    estimator, new = SignalClassifier.load(run), drawn(range(20, 22))
    write_npz(tmp_path / "new.npz", new)
    streaming = Streaming(stream=True)
    FLOW.predict(run, tmp_path / "new.npz", tmp_path / "p.csv", SignalReading(), streaming)
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert len(lines) == 1 + len(new)
    rows = new.subjects == "s21"
    for last in (1, 7, 12):
        chance = float(lines[12 + last].split(",")[-1])
        expected = estimator.predict_proba(new.signals[rows][:last])[-1, 1]
        assert chance == pytest.approx(expected, abs=1e-5)


def test_subjects_of_one_class_each_are_refused():
    known = drawn(range(4))
    known = replace(known, labels=np.repeat([0, 1, 0, 1], 12))
    sources: dict[str, Any] = {"all": windows_to_fit(known, CONFIG)}
    data = FLOW.fold_data(CONFIG, sources, final_fold(known, 0, 0))
    with pytest.raises(ArgumentError, match="windows of one class only"):
        FLOW.train(UnsavedRun(), CONFIG, data, is_silent=True, is_tested=False)
