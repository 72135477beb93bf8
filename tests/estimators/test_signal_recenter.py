"""``recenter="subject"``: features standardized by the windows of each subject."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from both_halves import assert_sums
from representer.errors import ArgumentError
from representer.estimators import SignalClassifier, load
from representer.kernels.cross_spectral_kernel import SHRINKAGE, CrossSpectralKernel

KERNEL: dict[str, Any] = {"sampling_rate": 50.0, "answer": "kernel", "random_state": 0,
                          "verbose": 0, "n_jobs": 1}  # fmt: skip


def recorded(
    subjects: range, windows: int = 24, ones: int = 2
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return noise whose power at 10 Hz tells the class, and much more the subject.

    One window of `ones` is of class 1.
    """
    time, X, y, groups = np.arange(100) / 50, [], [], []
    for subject in subjects:
        rng = np.random.default_rng(subject)
        gain, strength = np.exp(rng.normal(size=(2, 1))), np.exp(rng.normal())
        for row in range(windows):
            label = int(row % ones == 0)
            wave = strength * (1 + 0.6 * label) * np.sin(2 * np.pi * 10 * time + rng.uniform(0, 6))
            X.append(gain * (wave + 0.3 * rng.normal(size=(2, 100))))
            y.append(label)
            groups.append(f"s{subject}")
    return np.array(X), np.array(y), np.array(groups)


TRAIN, TEST = recorded(range(8)), recorded(range(20, 26))


@pytest.fixture(scope="module")
def fitted() -> SignalClassifier:
    X, y, groups = TRAIN
    return SignalClassifier(recenter="subject", **KERNEL).fit(X, y, groups=groups)


def test_subjects_that_differ_in_power_are_told_apart_by_their_windows(fitted):
    X, y, groups = TEST
    plain = SignalClassifier(**KERNEL).fit(TRAIN[0], TRAIN[1], groups=TRAIN[2])
    assert fitted.score(X, y, groups=groups) > plain.score(X, y) + 0.1


def test_windows_of_an_unknown_subject_are_those_of_one(fitted):
    X, _, groups = TEST
    one = groups == "s20"
    alone = fitted.predict_proba(X[one])
    np.testing.assert_allclose(alone, fitted.predict_proba(X, groups=groups)[one], atol=1e-12)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(fitted.predict_proba(X)[one], alone, atol=1e-3)


def test_a_window_is_explained_beside_the_others_of_its_subject(fitted):
    X, _, groups = TEST
    chances = fitted.predict_proba(X[:30], groups=groups[:30])
    for row, own in enumerate(fitted.explain(X[:30], groups=groups[:30])):
        assert_sums(own, abs=1e-6)
        assert own.prediction == chances[row].argmax()


def test_a_stream_of_few_windows_of_one_class_loses_little(fitted):
    X, y, groups = recorded(range(20, 26), windows=30, ones=10)
    plain = SignalClassifier(**KERNEL).fit(TRAIN[0], TRAIN[1], groups=TRAIN[2])
    assert fitted.score(X, y, groups=groups) >= plain.score(X, y) - 0.01


def test_a_saved_model_recenters(fitted, tmp_path):
    X, _, groups = TEST
    fitted.save(tmp_path / "run")
    again = load(tmp_path / "run").predict_proba(X, groups=groups)  # type: ignore[call-arg]
    np.testing.assert_allclose(again, fitted.predict_proba(X, groups=groups), atol=1e-9)


def test_training_needs_the_subjects():
    with pytest.raises(ArgumentError, match="groups"):
        SignalClassifier(recenter="subject", **KERNEL).fit(TRAIN[0], TRAIN[1])
    with pytest.raises(ArgumentError, match="windows of one class only"):
        SignalClassifier(recenter="subject", **KERNEL).fit(TRAIN[0], TRAIN[1], groups=TRAIN[1])
    with pytest.raises(ArgumentError, match="recenter"):
        SignalClassifier(recenter="window", **KERNEL).fit(TRAIN[0], TRAIN[1])


def test_moments_of_few_windows_are_shrunk_towards_the_common_ones():
    X, _, _ = TRAIN
    kernel = CrossSpectralKernel(50.0, views=("power",)).fit(X)
    spectra = kernel.read(X[:1])
    subjects = np.array(["a"])
    moments = spectra.moments_of(subjects, np.ones(1))
    own = type(spectra)(spectra.shape, spectra.views, subjects, moments)
    plain, moved = kernel.transform(spectra), kernel.transform(own)
    share = 1 / (1 + SHRINKAGE)
    np.testing.assert_allclose(moved, plain * (1 - share) / (1 - share) ** 0.5, atol=1e-9)
