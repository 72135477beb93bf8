"""The baseline of signals, paired tests and results."""

from __future__ import annotations

import statistics
from dataclasses import fields
from itertools import product

import numpy as np
import pytest
from scipy.stats import rankdata, ttest_1samp, wilcoxon
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from representer.data.signals import Recordings, default_couplings, recordings, synthetic_recordings
from representer.data.signals.recordings import KINDS
from representer.data.splits import Fold
from representer.errors import ArgumentError, DataError
from representer.estimators.targets import Classes
from representer.kernels import CrossSpectralKernel
from representer.options import signal as signal_options
from representer.options.signal import DEMO, TASK, SignalConfig, SignalParameters
from representer.report.metrics import paired_over_subjects
from representer.report.page import Predictions
from representer.tasks.objects import Data
from representer.tasks.signal.data import (
    VIEWS,
    final_fold,
    folds_of,
    prepare,
    spectral_baseline,
    windows_of,
)
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


@pytest.mark.parametrize(("gains", "relation", "advice"), [
    ((0.1, 0.12, 0.08, 0.11, 0.1, 0.09), "ahead of", ""),
    ((0.1, -0.1, 0.05, -0.02, 0.1, -0.1), "level with", ""),
    ((-0.1, -0.12, -0.08, -0.11, -0.1, -0.1), "behind", ": use band power instead"),
    ((0.1, 0.12, 0.08, 0.11, 0.1), "too few to tell", "; it takes 6"),
])  # fmt: skip
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


# Folds: every subject is tested once, stands on one side, and every class can be learned.


NAMES = [f"s{k}" for k in range(10)]


def made(classes=lambda subject: ("a", "b"), subjects=tuple(NAMES)):
    """Two windows of each subject."""
    labels = [label for k in range(len(subjects)) for label in classes(k)]
    who = np.repeat(subjects, 2)
    return recordings(np.ones((len(who), 1, 4)), labels, who, 10)


def test_leaving_one_out_tests_each_subject_once():
    assert [fold.test for fold in folds_of(made(), 0.2, 0)] == [(name,) for name in NAMES]


def test_leaving_groups_out_tests_each_subject_once():
    folds = folds_of(made(), 0.2, 0, count=3)
    assert sorted(name for fold in folds for name in fold.test) == NAMES
    assert sorted(len(fold.test) for fold in folds) == [3, 3, 4]


def test_the_model_that_is_kept_tests_nobody():
    assert final_fold(made(), 0.2, 0).test == ()


@pytest.mark.parametrize(("share", "count"), [(0.01, 1), (0.2, 2), (0.5, 4), (0.99, 8)])
def test_a_share_of_the_training_subjects_says_when_to_stop(share, count):
    for fold in folds_of(made(), share, 0):
        assert len(fold.valid) == count


def test_who_stops_changes_from_fold_to_fold_and_with_the_seed_alone():
    first, again, other = (folds_of(made(), 0.2, seed) for seed in (0, 0, 1))
    assert first == again
    assert len({fold.valid for fold in first}) > 3
    assert [fold.valid for fold in first] != [fold.valid for fold in other]


def test_of_a_fraction_of_0_all_others_are_trained_on():
    of = made()
    for folds in (folds_of(of, 0, 0), folds_of(of, 0, 0, count=3), [final_fold(of, 0, 0)]):
        for fold in folds:
            assert fold.valid == ()
            assert sorted((*fold.train, *fold.test)) == NAMES
    assert [f.test for f in folds_of(of, 0, 0, count=3)] == [
        f.test for f in folds_of(of, 0.2, 0, count=3)
    ]
    assert folds_of(made(subjects=("s", "t")), 0, 0)[0].train == ("t",)
    with pytest.raises(DataError, match=r"expected at least 1\. One is .* Sessions of"):
        folds_of(made(subjects=("s",)), 0, 0)


def test_no_validation_subject_is_the_last_one_of_a_class():
    of = made(lambda subject: ("a", "b") if subject in (0, 1) else ("a", "a"))
    for seed in range(20):
        for fold in folds_of(of, 0.5, seed):
            assert set(fold.train) & {"s0", "s1"}


def test_three_subjects_are_needed():
    assert folds_of(made(subjects=("s", "t", "u")), 0.2, 0)[0].test == ("s",)
    with pytest.raises(DataError, match="there are 1 subjects besides the test subjects; exp"):
        folds_of(made(subjects=("s", "t")), 0.2, 0)


@pytest.mark.parametrize("count", [1, 11])
def test_more_groups_than_subjects_are_refused(count):
    with pytest.raises(ArgumentError, match=f"folds is {count}; expected 0, or 2 to 10"):
        folds_of(made(), 0.2, 0, count=count)


@pytest.mark.parametrize("sides", [
    (("s", "t"), ("s",), ("u",)), (("s", "t"), ("v",), ("t",)), (("s",), ("v",), ("u", "v")),
])  # fmt: skip
def test_a_subject_on_two_sides_is_refused(sides):
    with pytest.raises(ArgumentError, match=r"group is '\w'; expected a group in one part only"):
        Fold("planted", *sides)


def test_training_without_anybody_is_refused():
    with pytest.raises(ArgumentError, match="expected at least one group in fold 'empty'"):
        Fold("empty", (), ("s",), ("u",))


# The options of ``fit signal``: ranges, and the choices of the rooms that take them.


def test_names_of_subjects_are_read_between_commas():
    assert SignalConfig(test_subjects="a, b b,c,").tested == ["a", "b b", "c"]
    assert SignalConfig().tested == []


def test_standardization_is_one_of_those_of_the_data():
    assert signal_options.STANDARDIZE == KINDS


def test_every_parameter_of_the_estimator_but_the_rate_of_the_data_is_an_option():
    options = {one.name: one for one in fields(SignalConfig)}
    own = {"standardize", "valid_fraction", "epochs", "batch_size", "patience", "monitor"}
    left_out = {
        "random_state", "n_jobs", "callbacks", "verbose", "warm_start", "sampling_rate",
        "conformal", "conformal_by", "calibration",
    }  # fmt: skip
    for one in fields(SignalParameters):
        assert (one.name in options) == (one.name not in left_out), one.name
        if one.name in options and one.name not in own:
            assert options[one.name].default == one.default
            assert options[one.name].metadata.items() >= one.metadata.items()  # and its group


def test_the_demo_has_defaults_of_its_own():
    plain = {field.name: field.default for field in fields(SignalConfig)} | {"jobs": 0}
    assert TASK.defaults(SignalConfig()) == plain
    assert TASK.defaults(SignalConfig(demo=True)) == plain | DEMO


def test_windows_that_two_subjects_share_are_left_out_of_the_second(tmp_path, capsys):
    signals = np.random.default_rng(0).normal(size=(12, 2, 64))
    signals[[5, 9]] = signals[[1, 8]]  # of another subject, and of the same
    path = tmp_path / "shared.npz"
    subjects = np.repeat(["a", "b", "c"], 4)
    np.savez(path, X=signals, y=np.arange(12) % 2, subject=subjects, fs=64.0)
    made = prepare(SignalConfig(data=str(path))).recordings
    assert "1 of 12 windows equal those of another subject" in capsys.readouterr().err
    assert made.subjects.tolist() == ["a"] * 4 + ["b"] * 3 + ["c"] * 4
