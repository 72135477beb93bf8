"""The recipe of L19 Table 4: data sets, folds, recovery, table."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from representer.data.signals import Standardization, synthetic_recordings
from representer.estimators.signal import SignalInputs
from representer.tasks.recipe import Request
from representer_papers.rkm2019 import RECIPES, lfp
from representer_papers.rkm2019.lfp import (
    RATE,
    SIGNAL_SETS,
    _write_table,
    ensemble_accuracy,
)
from representer_papers.rkm2019.published import BASELINE, CELLS


@pytest.fixture
def root(tmp_path):
    """A folder with tiny files of the two EEGs."""
    rng = np.random.default_rng(0)
    (tmp_path / "eeg_mental_arithmetic").mkdir()
    np.savez(
        tmp_path / "eeg_mental_arithmetic" / "eegmat_250hz.npz",
        X=rng.integers(-100, 100, (6, 2, 1100)).astype(np.int16), uv_per_count=np.float32(0.1),
        fs=np.int32(250), channels=np.asarray(["Fp1", "Fp2"]),
        subject=np.asarray([0, 0, 1, 1, 2, 2]), state=np.asarray([0, 1] * 3),
    )  # fmt: skip
    (tmp_path / "eeg_uci_alcoholism").mkdir()
    np.savez(
        tmp_path / "eeg_uci_alcoholism" / "smni_cmi.npz",
        counts=rng.integers(-100, 100, (16, 2, 256)).astype(np.int16),
        offset_uv=np.ones((16, 2), dtype=np.float32), uv_per_count=np.float32(0.5),
        fs=np.int32(256), channels=np.asarray(["FP1", "FP2"]),
        subject=np.asarray([f"co{k % 8}" for k in range(16)]), alcoholic=np.asarray([0, 1] * 8),
        condition=np.asarray([0, 1, 2, 0, 1, 2, 0, 1] * 2),
        duplicate=np.asarray([False] * 15 + [True]),
    )  # fmt: skip
    return tmp_path


def request(root, **changed):
    options = {"out": root / "out", "seeds": (0,), "smoke": True, "command": "representer"}
    return Request(**{"data": root, **options, **changed})


def test_long_recordings_are_cut_to_two_seconds_of_microvolts(root):
    recordings = SIGNAL_SETS["arithmetic"].read(root)
    with np.load(root / "eeg_mental_arithmetic" / "eegmat_250hz.npz") as file:
        x = file["X"]
    assert recordings.signals.shape == (12, 2, 500)
    np.testing.assert_allclose(recordings.signals[3], x[1, :, 500:1000] * 0.1, rtol=1e-5)  # float32
    assert [recordings.classes[k] for k in recordings.labels[:4]] == [
        "rest", "rest", "arithmetic", "arithmetic",
    ]  # fmt: skip
    assert recordings.subjects.tolist()[::4] == ["subject 00", "subject 01", "subject 02"]


def test_recentering_makes_the_mean_covariance_of_every_subject_the_identity():
    recordings = synthetic_recordings(subjects=3, windows=40, seed=0)
    gains = 1.0 + np.arange(len(recordings))[:, None, None] / 50  # of windows, not of subjects
    recordings = replace(recordings, signals=gains * recordings.signals + 7.0)
    whitened = lfp.aligned(recordings)
    for subject in set(recordings.subjects.tolist()):
        windows = whitened.signals[recordings.subjects == subject].astype(np.float64)
        covariance = np.mean([np.cov(window, bias=True) for window in windows], axis=0)
        np.testing.assert_allclose(covariance, np.eye(len(covariance)), atol=1e-5)  # float32
    permuted = lfp.aligned(replace(recordings, labels=recordings.labels[::-1]))
    np.testing.assert_array_equal(permuted.signals, whitened.signals)


def test_a_direction_without_power_is_not_amplified():
    recordings = synthetic_recordings(subjects=1, windows=20, seed=0)
    referenced = recordings.signals - recordings.signals.mean(axis=1, keepdims=True)
    whitened = lfp.aligned(replace(recordings, signals=referenced)).signals
    assert np.abs(whitened.mean(axis=1)).max() < 1e-3 * np.abs(whitened).max()


def test_duplicate_trials_are_dropped(root):
    recordings = SIGNAL_SETS["alcoholism"].read(root)
    with np.load(root / "eeg_uci_alcoholism" / "smni_cmi.npz") as file:
        counts = file["counts"]
    assert len(recordings) == 15
    np.testing.assert_allclose(recordings.signals[2], 1 + counts[2] * 0.5, rtol=1e-6)
    assert [recordings.classes[k] for k in recordings.labels] == ["control", "alcoholic"] * 7 + [
        "control"
    ]
    condition = SIGNAL_SETS["condition"].read(root)
    assert [condition.classes[k] for k in condition.labels[:4]] == ["one", "match", "other", "one"]


def test_recordings_are_resampled_to_the_common_rate(root):
    recordings = SIGNAL_SETS["alcoholism"].recordings(root)
    assert (recordings.sampling_rate, recordings.signals.shape) == (RATE, (15, 2, 160))


def test_the_recipe_trains_and_writes_the_table(root):
    chosen = request(root, datasets=("alcoholism",), cells=("rkm-lstm", "cnn", BASELINE))
    page = RECIPES["rkm-lfp"].run(chosen)
    text = page.read_text()
    assert "| RKM-LSTM | 79.02 |" in text
    assert "8 subjects, 2 folds, seeds 0." in text
    found = json.loads((root / "out/alcoholism/rkm-lstm-seed0/metrics.json").read_text())
    assert sorted(found["by_subject"]) == [f"co{k}" for k in range(8)]
    shown = 100 * sum(found["by_subject"].values()) / 8
    assert f"| RKM-LSTM | 79.02 | {shown:.1f} |" in text
    assert "the cell with the highest accuracy, is" in text
    assert ElementTree.parse(root / "out/alcoholism.svg").getroot().tag.endswith("}svg")
    before = (root / "out/alcoholism/rkm-lstm-seed0/folds").stat().st_mtime_ns
    assert RECIPES["rkm-lfp"].run(chosen).read_text() == text  # nothing is run again
    assert (root / "out/alcoholism/rkm-lstm-seed0/folds").stat().st_mtime_ns == before


def test_an_ensemble_requires_predictions_of_all_seeds_for_the_same_windows():
    sure = {"subjects": ["a", "a", "b"], "labels": [0, 1, 1]}
    first = {"predictions": sure | {"probabilities": [[0.9, 0.1], [0.7, 0.3], [0.4, 0.6]]}}
    second = {"predictions": sure | {"probabilities": [[0.4, 0.6], [0.2, 0.8], [0.5, 0.5]]}}
    assert ensemble_accuracy({0: first, 1: second}) == {"a": 1.0, "b": 1.0}
    assert ensemble_accuracy({0: first}) is None
    assert ensemble_accuracy({0: first, 1: second, 2: {}}) is None
    fewer = {"predictions": {key: rows[:2] for key, rows in second["predictions"].items()}}
    assert ensemble_accuracy({0: first, 1: fewer}) is None
    others = {"predictions": second["predictions"] | {"subjects": ["a", "b", "b"]}}
    assert ensemble_accuracy({0: first, 1: others}) is None


def power_classifier(lags):
    """Return a classifier of the power at 10 Hz of the channels after phase alignment."""
    wave = torch.exp(-2j * math.pi * 0.1 * torch.arange(100, dtype=torch.float64))
    steps = torch.exp(1j * torch.deg2rad(torch.tensor(lags, dtype=torch.float64)))

    def classify(signals):
        at = torch.einsum("bct,t,c->b", signals.to(torch.complex128), wave, steps)
        return torch.stack((torch.zeros(len(at)).double(), at.abs().square() / 100 - 5), dim=1)

    return classify


def test_recovery_combines_the_models_of_all_folds():
    """Of two models, one is as much above the planted lags as the other is below them."""
    recordings = synthetic_recordings(subjects=2, windows=400)
    folds: Any = [SimpleNamespace(rows=np.arange(len(recordings))) for _ in range(2)]
    lags = (0.0, 80.0, 120.0, 160.0), (0.0, 0.0, 40.0, 80.0)
    inputs = SignalInputs(Standardization("none"), 4)
    models: Any = [SimpleNamespace(network_=power_classifier(own), inputs_=inputs) for own in lags]
    found = lfp.recovered(recordings, SimpleNamespace(standardize="subject"), models, folds)
    assert found["frequency"] == pytest.approx(10, abs=0.5)
    assert found["lags"] == pytest.approx([0, 40, 80, 120], abs=15)  # either alone is 40 off


def test_the_table_compares_memory_order_and_baseline(tmp_path, monkeypatch):
    """From results that are written by hand: five subjects, two seeds, all cells."""
    share = {row: 0.9 - 0.05 * k for k, row in enumerate((*CELLS, BASELINE))}
    for place, (row, accuracy) in enumerate(share.items()):
        for seed in (0, 1):
            folder = tmp_path / "condition" / f"{row}-seed{seed}"
            folder.mkdir(parents=True)
            level = accuracy + 0.002 * seed * (10 + place)
            by_subject = {f"s{k}": level + 0.003 * k * place for k in range(5)}
            (folder / "recipe.json").write_text(json.dumps({"row": row, "seed": seed}))
            metrics = {"classes": 3, "folds": 5, "by_subject": by_subject}
            (folder / "metrics.json").write_text(json.dumps(metrics))
    signals = SIGNAL_SETS["condition"]
    asked = Request(data=tmp_path, out=tmp_path, command="representer", table_only=True)
    chances, draw = [], lfp.figures.subjects_drawing
    monkeypatch.setattr(
        lfp.figures, "subjects_drawing", lambda *given: chances.append(given[-1]) or draw(*given),
    )  # fmt: skip
    text = _write_table(asked, [signals]).read_text()
    assert chances == [1 / 3]
    assert "| n-gram LSTM | 80.24 | 91.0 ± 1.4 |" in text  # 90 and 92
    assert "Spearman's rank correlation 1.00" in text
    # the rkm-lstm is the second row, the gated CNN the fifth, the CNN the sixth: 4.4 points a row,
    # and a tenth of a point for the seeds
    assert "the CNN (SyncNet) (+17.2 points" in text
    assert "the Gated CNN (+12.9 points" in text
    assert "the cell with the highest accuracy, is level with the baseline: +30.1 points" in text
    assert "higher on 5 subjects, lower on 0" in text  # five subjects cannot give p < 0.05
