"""The baselines for signals learn from spectra, and nothing of the test subjects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from representer.data.signals import default_couplings, recordings, synthetic_recordings
from representer.kernels import CrossSpectralKernel
from representer.tasks.signal.baselines import VIEWS, spectral_baseline
from representer.tasks.signal.data import folds_of


def loud(subjects: int = 4, windows: int = 12):
    """Class b has ten times the amplitude at 10 Hz, in the second of two channels."""
    rng = np.random.default_rng(0)
    count = subjects * windows
    x = rng.normal(size=(count, 2, 200))
    labels = np.arange(count) % 2
    x[:, 1] += 2 * labels[:, None] * np.sin(2 * np.pi * 10 * np.arange(200) / 100)
    return recordings(x, np.where(labels, "b", "a"), np.arange(count) // windows, 100)


@pytest.mark.parametrize("kind", ["subject", "window", "training", "none"])
def test_power_is_learned(kind):
    of = loud()
    found = spectral_baseline(of, folds_of(of, 0.2, 0), kind)
    assert len(found.predictions) == len(of)
    assert (found.predictions == of.labels).mean() > 0.95
    assert "8 to 13" in found.description
    assert found.name == "log band power + logistic regression"


def test_power_is_that_of_standardized_logarithms():
    of = loud()
    (fold, *_) = folds = folds_of(of, 0.2, 0)
    features = CrossSpectralKernel(100.0).read(of.signals).views["power"].astype(float)
    rows = fold.parts(of.subjects)
    train = np.concatenate([rows["train"], rows["valid"]])
    peer = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, tol=1e-8))
    expected = peer.fit(features[train], of.labels[train]).predict_proba(features[rows["test"]])
    found = spectral_baseline(of, folds, "none")
    np.testing.assert_allclose(found.probabilities[0][rows["test"]], expected, atol=1e-3)


def test_matrices_find_what_phases_alone_tell():
    of = synthetic_recordings(default_couplings(), subjects=8, windows=40, seed=3)
    found = spectral_baseline(of, folds_of(of, 0.2, 0), "subject", "matrix")
    assert (found.predictions == of.labels).mean() > 0.9
    assert VIEWS == {"none": (), "simple": ("power",), "all": ("power", "matrix")}
    rows = np.concatenate([np.flatnonzero(of.labels == k)[::20] for k in (0, 1)])
    few = of.take(np.sort(rows))  # fewer windows than features
    assert len(spectral_baseline(few, folds_of(few, 0, 0), "subject", "matrix").predictions) == 16


def test_where_phases_alone_tell_it_is_at_chance():
    of = synthetic_recordings(default_couplings(), subjects=8, windows=40, seed=3)
    found = spectral_baseline(of, folds_of(of, 0.2, 0), "subject")
    assert 0.4 < (found.predictions == of.labels).mean() < 0.6


def test_labels_of_the_test_subject_change_nothing():
    of = loud()
    (fold, *_) = folds_of(of, 0.2, 0)
    labels = of.labels.copy()
    labels[of.subjects == fold.test[0]] = 0
    (ours,) = spectral_baseline(of, [fold], "subject").probabilities
    (others,) = spectral_baseline(replace(of, labels=labels), [fold], "subject").probabilities
    assert np.array_equal(ours, others)
