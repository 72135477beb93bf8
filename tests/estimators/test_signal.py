"""The network of `SignalClassifier`: windows, standardization, contributions, saving."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from fitted_examples import RATE, SAMPLES, fitted, windows
from fitted_examples import SIGNAL as SMALL
from fitted_examples import WAVES as Y
from fitted_examples import WINDOWS as X
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from both_halves import assert_sums
from representer.data.signals import Standardization, recordings
from representer.data.splits import Splits
from representer.errors import ArgumentError, DataError, KindError
from representer.estimators import SignalClassifier
from representer.estimators.halves import Pool
from representer.estimators.targets import Classes


@pytest.fixture
def classifier() -> SignalClassifier:
    return fitted("SignalClassifier")


def test_flat_windows_get_a_note(classifier):
    windows = np.array(X[:3])
    windows[1] = 5.0
    with pytest.warns(UserWarning, match=r"1 of 3 windows have nothing .*: X\[1\]\."):
        classifier.predict(windows)


def test_it_learns_oscillations(classifier):
    assert classifier.score(*windows(seed=1)) > 0.9
    assert classifier.classes_.tolist() == ["alpha", "beta"]
    np.testing.assert_allclose(classifier.predict_proba(X[:5]).sum(1), 1)
    assert classifier.predict(list(X[:2])).tolist() == classifier.predict(X[:2]).tolist()


def test_standardization_is_learned_from_training_windows_alone(monkeypatch):
    counted, find = [], Pool.fit.__func__
    monkeypatch.setattr(
        Pool, "fit", classmethod(lambda cls, *own: counted.append(own[-1]) or find(cls, *own))
    )
    groups = np.repeat(["a", "b", "c", "d"], 10)
    shifted = X + 1000.0 * (groups == "d")[:, None, None]
    for seed in range(20):  # until the subject with the offset is held out
        if Splits(len(groups), (Y == "beta").astype(int), groups).held_out_groups(
            0.1, seed, names=list("abcd")
        ) == {"d"}:
            break
    model = SignalClassifier(**SMALL | {"random_state": seed}, epochs=1)
    model.fit(shifted, Y, groups=groups)
    np.testing.assert_allclose(model.inputs_.standardization.mean, 100, atol=3)
    own = recordings(X[:30], Y[:30], groups[:30], RATE)
    assert model.inputs_.standardization == Standardization.fit("training", own)
    assert counted == [1]  # group was held out, and is what the prior of the weights counts


def test_groups_of_many_mixtures_of_classes_are_not_nearly_all_held_out():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 4)
    labels, names = rng.integers(0, 5, 160), [*range(40)]
    chosen = Splits(len(groups), labels, groups).held_out_groups(0.1, 0, names=names)
    assert 4 <= len(chosen) <= 6  # of 25 different sets of classes
    assert {*labels[np.isin(groups, [*chosen])]} == {0, 1, 2, 3, 4}
    single = np.array([0] * 32 + [1] * 8)  # one class for each group
    of_rare = Splits(len(groups), np.repeat(single, 4), groups).held_out_groups(0.1, 0, names=names)
    assert {*single[[*of_rare]]} == {0, 1}


def test_a_group_that_alone_has_a_class_is_not_held_out():
    labels = np.array([0, 0, 0, 0, 1, 1])
    groups = np.array(["a", "a", "b", "b", "c", "c"])
    for seed in range(10):
        assert Splits(len(groups), labels, groups).held_out_groups(
            0.1, seed, names=["a", "b", "c"]
        ) < {"a", "b"}
    with pytest.raises(
        DataError, match=r"all examples of the class '(alpha|beta)' are in one group"
    ):
        SignalClassifier(**SMALL).fit(X, Y, groups=np.where(Y == "beta", "b", "a"))


@pytest.mark.parametrize("options", [
    {}, {"pooling": "last", "layer_norm": True, "cell": "rkm-lstm"}, {"pooling": "mean"},
    {"pooling": "max", "cell": "syncnet"}, {"pooling": "flatten", "cell": "gated-cnn"},
    {"pooling": "attention"}, {"pooling": "power", "num_layers": 2},
    {"filters": "dense", "num_layers": 2, "cell": "rkm-cifg"},
    {"standardize": "window", "cell": "gated-cnn", "filter_length": 7},
])  # fmt: skip
def test_contributions_of_filters_and_steps_sum_to_the_score(options):
    model = SignalClassifier(**SMALL | options, epochs=1).fit(X, Y)
    for explanation, chances in zip(model.explain(X[:2]), model.predict_proba(X[:2]), strict=True):
        assert_sums(explanation, abs=1e-9)
        powers = [c for c in explanation.contributions if c.what.startswith("power of")]
        assert len(powers) == (4 if model.pooling == "power" else 0)
        steps = [c for c in explanation.contributions if c not in powers]
        assert len(steps) == 4 * 8
        assert 2 * explanation.score == pytest.approx(abs(np.log(chances[0] / chances[1])), 1e-3)
        for c in explanation.contributions:
            assert c.what.endswith(f", {c.where[0] / RATE:.3f} to {c.where[1] / RATE:.3f} s")
        assert {c.where for c in powers} <= {(5, SAMPLES - 1)}
        where = {c.where for c in steps}
        length = model.filter_length
        later = length - 1 - length // 2 if model.cell == "syncnet" else 0
        ends = [14 + k * 10 + later for k in range(8)]
        assert where == {(max(5, end - length + 1), min(end, SAMPLES - 1)) for end in ends}
    name = steps[0].what
    assert ("Hz" in name) == (model.filters == "wavelet")


def test_a_window_contributes_only_where_its_samples_are(classifier):
    silent = (
        np.full((1, 3, SAMPLES), 0.0) + np.asarray(classifier.inputs_.standardization.mean)[:, None]
    )
    silent[:, :, 60:] = X[0, :, 60:]
    for c in classifier.explain(silent)[0].contributions:
        assert (abs(c.contribution) > 1e-5) <= (c.where[1] >= 60)


def test_a_cell_without_contributions_says_so():
    model = SignalClassifier(**SMALL, epochs=1, cell="lstm").fit(X, Y)
    with pytest.raises(KindError, match="sum over the steps"):
        model.explain(X[:1])


def test_training_of_a_flattened_network_starts_from_a_run(tmp_path):
    model = SignalClassifier(**SMALL, pooling="flatten", epochs=1).fit(X, Y)
    model.save(tmp_path / "run")
    warm = clone(model).set_params(warm_start=str(tmp_path / "run"), lr=1e-12).fit(X, Y)
    np.testing.assert_allclose(warm.predict_proba(X), model.predict_proba(X), 1e-5)
    with pytest.raises(ArgumentError, match="a run whose network has the sizes of the new one"):
        clone(warm).fit(X[:, :, :60], Y)


def changed(row, value):
    X_changed = list(X)
    X_changed[row] = value
    return X_changed


def with_nan(value):
    broken = X.copy()
    broken[5, 2, 7] = value
    return broken


@pytest.mark.parametrize(("bad", "message"), [
    (changed(3, np.zeros((4, SAMPLES))), r"X\[3\] has 4 channels, the others have 3"),
    (changed(0, np.zeros((3, 90))), r"X\[0\] has 90 samples, the others have 85"),
    (changed(2, [[1.0], [1.0, 2.0]]), r"X\[2\] has channels of unequal lengths"),
    (changed(1, np.zeros(SAMPLES)), r"X\[1\] is float64 of shape \(85,\)"),
    (changed(1, np.full((3, SAMPLES), "a")), r"X\[1\] is <U1 of shape"),
    (with_nan(np.nan), r"X\[5\] contains NaN in channel 2"),
    (with_nan(1e300), r"X\[5\] contains infinity in channel 2"),
    (X[:, :, :9], "windows of 9 samples, fewer than the stride, 10"),
    (X[0], r"X\[0\] is float64 of shape \(85,\); expected numbers \(C, T\)"),
    ("a file", "X is a str"),
    (X[:0], "X has 0 sample"),
])  # fmt: skip
def test_errors_name_the_row(bad, message):
    with pytest.raises(DataError, match=message):
        SignalClassifier(**SMALL).fit(bad, Y[: len(bad)])


def test_other_channels_than_in_training_are_refused(classifier):
    with pytest.raises(DataError, match="X has 2 channels; the model has 3"):
        classifier.predict(X[:, :2])


def test_parameters_are_checked_by_fit():
    with pytest.raises(ArgumentError, match="sampling_rate is None; expected the sampling rate"):
        SignalClassifier().fit(X, Y)
    with pytest.raises(ArgumentError, match="standardize is 'subject'; expected one of training"):
        SignalClassifier(**SMALL, standardize="subject").fit(X, Y)
    with pytest.raises(NotFittedError):
        SignalClassifier(**SMALL).predict(X)


def test_without_validation_all_windows_are_trained_on_to_the_last_epoch():
    whole = SignalClassifier(**SMALL, epochs=3, patience=1, valid_fraction=0).fit(X, Y)
    assert [row["epoch"] for row in whole.history_] == [1, 2, 3]
    assert all(row["valid_loss"] is None for row in whole.history_)
    np.testing.assert_allclose(
        whole.inputs_.standardization.mean, X.mean(axis=(0, 2)), rtol=1e-5
    )  # float32
    with pytest.raises(ArgumentError, match=r"valid_fraction is 1; expected a number in \[0, 1\)"):
        SignalClassifier(**SMALL, valid_fraction=1).fit(X, Y)


def test_augmentation_changes_training_alone():
    plain, changed = (SignalClassifier(**SMALL, epochs=1, augment=a).fit(X, Y) for a in (0, 1))
    assert plain.history_[0]["train_loss"] != changed.history_[0]["train_loss"]
    assert np.array_equal(changed.predict_proba(X), changed.predict_proba(X))


def test_more_channels_than_samples_are_noted_as_axes_that_may_be_swapped():
    X = np.random.default_rng(0).normal(size=(12, 30, 4))  # (N, T, C)
    model = SignalClassifier(sampling_rate=10, answer="kernel", verbose=0)
    with pytest.warns(UserWarning, match=r"X has 30 channels of 4 samples; it is \(N, C, T\)"):
        model._check_objects(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model._check_objects(X.transpose(0, 2, 1))


def test_classes_that_differ_in_case_alone_are_noted():
    with pytest.warns(UserWarning, match="The classes 'Pos' and 'pos' differ in case"):
        Classes.find(["Pos", "neg", "pos", "neg"])
