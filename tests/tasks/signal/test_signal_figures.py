"""The baseline of signals, paired tests and results."""

from __future__ import annotations

import statistics
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import rankdata, ttest_1samp, wilcoxon
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from representer.data.signals import Recordings, default_couplings, recordings, synthetic_recordings
from representer.errors import ArgumentError
from representer.estimators.targets import Classes
from representer.kernels import CrossSpectralKernel
from representer.report.metrics import paired_over_subjects
from representer.report.page import Predictions
from representer.tasks.objects import Data
from representer.tasks.signal.baselines import VIEWS, spectral_baseline
from representer.tasks.signal.data import folds_of, windows_of
from representer.tasks.signal.flow import by_subject, standing_of

# The baselines for signals learn from spectra, and nothing of the test subjects.


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


# The test over subjects: against sums by hand, ties and all.


def paired(differences):
    ours = {f"s{k}": 0.5 + d for k, d in enumerate(differences)}
    return paired_over_subjects(ours, dict.fromkeys(ours, 0.5))


def by_hand(differences) -> float:
    """The share of all signs whose rank sum is at least as far from its middle."""
    ranks = rankdata(np.abs(differences).round(9))
    sums = [sum(r for r, s in zip(ranks, signs, strict=True) if s) for signs in
            product((0, 1), repeat=len(ranks))]  # fmt: skip
    middle = ranks.sum() / 2
    own = sum(r for r, d in zip(ranks, differences, strict=True) if d > 0)
    return float(np.mean([abs(s - middle) >= abs(own - middle) - 1e-9 for s in sums]))


@pytest.mark.parametrize(
    "differences",
    [[0.1, 0.2, 0.3, 0.4, 0.5], [0.1, -0.2, 0.3, -0.05, 0.25, 0.15], [0.1, 0.1, 0.1, -0.1],
     [0.02, -0.02, 0.04, 0.04, 0.06, -0.08, 0.1, 0.1]],
)  # fmt: skip
def test_few_subjects_are_tested_exactly_with_their_ties(differences):
    assert paired(differences)["p"] == pytest.approx(by_hand(differences), abs=1e-9)


def test_the_interval_is_that_of_students_t():
    drawn = np.random.default_rng(0).normal(0.02, 0.1, 36)
    found = ttest_1samp(drawn, 0).confidence_interval()
    np.testing.assert_allclose(paired(drawn)["interval"], [found.low, found.high], atol=1e-8)
    assert paired([0.3])["interval"] == [-1, 1]


def test_many_subjects_are_tested_as_scipy_does():
    drawn = np.random.default_rng(0).normal(0.02, 0.1, 36)
    wanted = wilcoxon(drawn, method="asymptotic").pvalue
    assert paired(drawn.tolist())["p"] == pytest.approx(wanted)


def test_a_level_subject_says_nothing():
    found = paired([0.0, 0.1, 0.2, 0.0, -0.3, 0.05])
    assert found["p"] == paired([0.1, 0.2, -0.3, 0.05])["p"]
    assert (found["better"], found["worse"], found["equal"]) == (3, 1, 2)
    assert found["mean"] == pytest.approx(0.05 / 6)


def test_without_a_difference_nothing_is_shown():
    assert paired([0.0, 0.0])["p"] == 1.0
    assert paired([0.0, 0.1])["p"] == 1.0 == by_hand([0.1])


def test_differences_that_differ_by_rounding_are_ties():
    ours = {"a": 0.3, "b": 0.4, "c": 0.6}
    theirs = {"a": 0.2, "b": 0.3, "c": 0.7}  # 0.1 in three roundings
    assert paired_over_subjects(ours, theirs)["p"] == by_hand([0.1, 0.1, -0.1])


def test_other_subjects_are_refused():
    with pytest.raises(ArgumentError, match=r"baseline is \['b'\]; expected the subjects a"):
        paired_over_subjects({"a": 1.0}, {"b": 1.0})


# Metrics of a signal run over its subjects.


SUBJECTS = ("b", "c", "a")  # in the order of the recordings


def recordings_of(subjects: tuple[str, ...]) -> Recordings:
    """Four windows of each subject, of alternating classes."""
    count = 4 * len(subjects)
    return Recordings(
        signals=np.zeros((count, 1, 2), dtype=np.float32), labels=np.tile([0, 1], count // 2),
        classes=("left", "right"), subjects=np.repeat(subjects, 4), sampling_rate=1.0,
        channels=("Cz",),
    )  # fmt: skip


def figures(subjects: tuple[str, ...], errors: list[int]) -> dict:
    recordings = recordings_of(subjects)
    predicted = recordings.labels.copy()
    predicted[errors] = 1 - predicted[errors]
    windows = windows_of(recordings, "made up")
    data = Data(Classes(("left", "right")), {"test": windows}, {}, [("all", windows)])
    return by_subject(data, Predictions(predicted))


def test_mean_and_sample_deviation_are_over_subjects():
    result = figures(SUBJECTS, errors=[4, 8, 9])  # one window of c, two windows of a
    accuracies = [1.0, 0.75, 0.5]
    assert list(result["by_subject"].items()) == list(zip(SUBJECTS, accuracies, strict=True))
    assert result["mean"] == pytest.approx(0.75)
    assert result["deviation"] == pytest.approx(statistics.stdev(accuracies))


def test_a_single_subject_has_no_deviation():
    assert figures(("a",), errors=[0])["deviation"] == 0.0


@pytest.mark.parametrize(
    ("gains", "relation", "advice"),
    [
        ((0.1, 0.12, 0.08, 0.11, 0.1, 0.09), "ahead of", ""),
        ((0.1, -0.1, 0.05, -0.02, 0.1, -0.1), "level with", ""),
        ((-0.1, -0.12, -0.08, -0.11, -0.1, -0.1), "behind", ": use band power instead"),
        ((0.1, 0.12, 0.08, 0.11, 0.1), "too few to tell", "; it takes 6"),
    ],
)
def test_the_verdict_is_by_the_interval_of_the_difference_over_subjects(gains, relation, advice):
    ours = {f"s{k}": 0.5 + gain for k, gain in enumerate(gains)}
    baseline = {
        "name": "band power", "difference": paired_over_subjects(ours, dict.fromkeys(ours, 0.5))
    }  # fmt: skip
    found = standing_of("kernel", [baseline], len(gains))
    assert found["standing"]["relation"] == relation
    start = f"On 6 test subjects, kernel is {relation} band power ("
    if len(gains) < 6:
        start = "On 5 test subjects, kernel is not told apart from band power (+10.2 points)"
    assert found["verdict"].startswith(start)
    better = sum(gain > 0 for gain in gains)
    assert (
        f"{advice}. It is ahead on {better} subjects, behind on {len(gains) - better}, level on 0"
        in (found["verdict"])
    )
    assert standing_of("kernel", [], 4) == {"standing": {}, "verdict": ""}
