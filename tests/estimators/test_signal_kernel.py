"""`SignalClassifier` with an exact kernel: its choice by subjects, contributions, saving."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from both_halves import assert_sums
from representer import estimators
from representer.data.signals import synthetic_recordings
from representer.errors import ArgumentError
from representer.estimators import SignalClassifier, signal
from representer.estimators.kernel_machine import KernelMachine, compressed, select
from representer.estimators.targets import Classes, splits_of
from representer.kernels import CrossSpectralKernel

RATE, SAMPLES = 100, 85
SMALL = {
    "sampling_rate": RATE, "hidden_size": 4, "stride": 10, "filter_length": 20, "random_state": 0,
    "verbose": 0, "epochs": 2,
}  # fmt: skip
ANSWERS = ("both", "kernel", "network")


def windows(count: int, classes: int = 2, seed: int = 0):
    """Return noisy oscillations of 3 channels, whose power on one of them tells the class."""
    rng, time = np.random.default_rng(seed), np.arange(SAMPLES) / RATE
    labels = np.arange(count) % classes
    phases = rng.uniform(0, 2 * np.pi, size=count)
    waves = np.sin(2 * np.pi * 10 * time + phases[:, None])
    x = rng.normal(size=(count, 3, SAMPLES))
    for row, label in enumerate(labels):
        x[row, label] += waves[row]
    return x, np.array(["left", "middle", "right"])[labels]


X, Y = windows(60, 3)
GROUPS = np.arange(60) // 12


@pytest.fixture(scope="session", params=ANSWERS)
def fitted(request) -> SignalClassifier:
    return SignalClassifier(**SMALL, answer=request.param).fit(X, Y, groups=GROUPS)


def test_contributions_of_bands_and_filters_sum_to_the_score_of_both_parts(fitted):
    x, _ = windows(100, 3, seed=1)
    for explanation, chances in zip(fitted.explain(x), fitted.predict_proba(x), strict=True):
        assert_sums(explanation, abs=1e-6)
        logs = np.log(chances)
        assert explanation.score == pytest.approx(logs.max() - logs.mean(), abs=1e-5)
    parts = {c.part for c in explanation.contributions}
    weights = {"kernel": fitted.pool_.kernel, "network": fitted.pool_.network}
    assert parts == {part for part, weight in weights.items() if weight > 0}


def test_several_targets_have_kernels_of_their_own_and_the_first_is_explained():
    signs = np.arange(60) % 2  # of the coupling of two channels, whose power says nothing
    wave = 3 * np.sin(2 * np.pi * 20 * np.arange(SAMPLES) / RATE)
    x = X.copy()
    x[:, 0] += wave
    x[:, 1] += np.where(signs, 1, -1)[:, None] * wave
    model = SignalClassifier(**SMALL).fit(x, np.stack([Y, signs.astype(str)], axis=1))
    first, second = (target.machine.kernel.views for target in model.targets_)
    assert set(first) != set(second)
    for one, chances in zip(model.explain(x[:9]), model.predict_proba(x[:9])[0], strict=True):
        logs = np.log(chances)
        assert one.score == pytest.approx(logs.max() - logs.mean(), abs=1e-5)
        assert_sums(one, abs=1e-6)


def test_the_power_of_the_channel_that_tells_the_class_contributes_most():
    model = SignalClassifier(**SMALL, answer="kernel").fit(X, Y)
    x, labels = windows(30, 3, seed=1)
    assert model.score(x, labels) > 0.9
    largest = [one.contributions[0] for one in model.explain(x)]
    assert {c.part for c in largest} == {"kernel"}
    # the channel of the class, or the lack of power in another
    assert all(c.what.startswith("8 to 13 Hz, channel") for c in largest)
    assert all(c.what == f"8 to 13 Hz, channel {c.where[0]}" for c in largest if len(c.where) == 1)
    assert np.mean([c.where == (row % 3,) for row, c in enumerate(largest)]) > 0.5


def test_a_saved_estimator_of_both_parts_comes_back(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    loaded = estimators.load(tmp_path / "run")
    assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert loaded.explain(X[:2]) == fitted.explain(X[:2])
    assert loaded.share_ == fitted.share_
    assert loaded.answer == fitted.answer
    names = {path.suffix for path in (tmp_path / "run").iterdir()}
    assert names <= {".json", ".jsonl", ".safetensors", ""}
    if fitted.answer != "network":
        assert loaded.kernel_.views == fitted.kernel_.views


def test_lags_between_channels_are_found_by_the_matrix_and_not_by_power():
    drawn = synthetic_recordings(subjects=4, windows=40)
    options = SMALL | {"sampling_rate": drawn.sampling_rate, "answer": "kernel"}
    is_train = drawn.subjects != "subject 3"
    model = SignalClassifier(**options).fit(
        drawn.signals[is_train], drawn.labels[is_train], groups=drawn.subjects[is_train]
    )
    assert "matrix" in model.kernel_.views
    assert model.score(drawn.signals[~is_train], drawn.labels[~is_train]) > 0.9
    explanation = model.explain(drawn.signals[~is_train])[0]
    assert_sums(explanation, abs=1e-6)
    best = explanation.contributions[0]
    assert len(best.where) == 2
    assert best.what.endswith(f"Hz, channels {best.where[0]} and {best.where[1]}")


def test_subjects_choose_the_kernel_and_its_penalty():
    """The windows of a subject share a power that tells its class, but for no other subject."""
    rng = np.random.default_rng(0)
    gains = rng.uniform(0.2, 5, size=(20, 20))
    groups = rng.permutation(np.repeat(np.arange(20), 8))
    labels = groups % 2
    x = rng.normal(size=(160, 20, SAMPLES)) * gains[groups][:, :, None]
    target = Classes((0, 1))
    kernels = [CrossSpectralKernel(RATE, views=("power",))]
    found = {}
    for name, given in (("subjects", groups), ("rows", None)):
        chosen = select(
            kernels, target, (x, labels), (x[:0], labels[:0]),
            splits_of(target, labels, given).folds(), (0.1, 1.0, 10.0, 100.0, 1000.0),
        )  # fmt: skip
        found[name] = chosen
    assert found["rows"].penalty >= 100 > found["subjects"].penalty
    assert found["subjects"].loss > 0.65 > found["rows"].loss
    model = SignalClassifier(**SMALL, answer="kernel", standardize="none")
    assert model.fit(x, labels, groups=groups).machine_.penalty < 100


def test_scores_out_of_fold_are_those_of_machines_of_the_other_subjects():
    values, target = Classes.find(Y).encode(Y), Classes.find(Y)
    copies = np.where(np.arange(60) % 6, np.arange(60), -1)  # ten of them, in several groups
    for rows, tested in (apart := splits_of(target, values, GROUPS, copies).folds()):
        assert not {*copies[rows]} & {*copies[tested]}
    assert sorted(np.concatenate([tested for _, tested in apart]).tolist()) == list(range(60))
    splits = splits_of(target, values, GROUPS).folds()
    assert sorted(np.concatenate([tested for _, tested in splits]).tolist()) == list(range(60))
    assert all(not {*GROUPS[rows]} & {*GROUPS[tested]} for rows, tested in splits)
    kernel = CrossSpectralKernel(RATE)
    chosen = select([kernel], target, (X, values), (X[:0], values[:0]), splits, (1.0,))
    features = kernel.transform(X)
    for rows, tested in splits:
        peer = LogisticRegression(C=1.0, max_iter=1000, tol=1e-8).fit(features[rows], values[rows])
        expected = peer.predict_proba(features[tested])
        np.testing.assert_allclose(target.probabilities(chosen.scores)[tested], expected, atol=1e-4)


@pytest.mark.parametrize(
    ("values", "groups", "count"),
    [
        ([0, 1] * 10, None, 5),
        ([0, 0, 0, 1, 1], None, 2),
        ([0, 0, 0, 1], None, 0),
        ([0, 1] * 10, np.arange(20) // 2 % 3, 3),
        ([0, 0, 1, 1], [0, 0, 1, 1], 0),  # a subject of each class
        ([0, 1] * 10, np.zeros(20), 0),
    ],
)
def test_parts_of_the_cross_validation_can_be_fitted_to(values, groups, count):
    groups = None if groups is None else np.asarray(groups)
    assert len(splits_of(Classes((0, 1)), np.asarray(values), groups).folds()) == count


def test_more_features_than_windows_are_compressed_without_a_loss():
    target, values = Classes.find(Y), Classes.find(Y).encode(Y)
    kernel = CrossSpectralKernel(RATE).fit(X[:30])
    features = kernel.transform(X[:30])
    rows, basis = compressed(kernel, features)
    assert rows.shape[1] <= 30 < features.shape[1]
    np.testing.assert_allclose(rows @ basis, features, atol=1e-9)
    np.testing.assert_allclose(rows @ rows.T, features @ features.T, atol=1e-9)
    machine = KernelMachine.fit(CrossSpectralKernel(RATE), target, X[:30], values[:30], 3.0)
    peer = LogisticRegression(C=3.0, max_iter=5000, tol=1e-9).fit(features, values[:30])
    expected = peer.predict_proba(kernel.transform(X))
    np.testing.assert_allclose(target.probabilities(machine.scores(X)), expected, atol=1e-4)
    assert compressed(kernel, features[:, :20])[1] is None


def test_without_validation_all_windows_are_fitted_to_and_both_parts_predict():
    model = SignalClassifier(**SMALL, valid_fraction=0).fit(X, Y, groups=GROUPS)
    assert 0.5 <= model.share_["kernel"] < 1
    alone = SignalClassifier(**SMALL, valid_fraction=0, answer="kernel").fit(X, Y, groups=GROUPS)
    assert np.array_equal(model.part("kernel").predict_proba(X), alone.predict_proba(X))
    np.testing.assert_allclose(
        alone.kernel_.means_, CrossSpectralKernel(RATE, views=alone.kernel_.views)
        .fit(np.asarray(alone.inputs_.encode(X))).means_, rtol=1e-5  # windows of float32
    )  # fmt: skip
    ungrouped = SignalClassifier(**SMALL, valid_fraction=0).fit(X, Y)
    assert ungrouped.score(*windows(30, 3, seed=1)) > 0.8


def test_groups_of_another_length_are_refused():
    with pytest.raises(ValueError, match="X has 60 rows and groups has 59"):
        SignalClassifier(**SMALL, valid_fraction=0).fit(X, Y, groups=GROUPS[1:])


def test_too_many_entries_of_matrices_leave_power_alone(monkeypatch):
    monkeypatch.setattr(signal, "_MOST_VALUES", 60 * 5 * 9 - 1)
    model = SignalClassifier(**SMALL, answer="kernel").fit(X, Y)
    assert model.kernel_.views == ("power",)
    monkeypatch.setattr(signal, "_MOST_VALUES", 0)  # does not matter to a fitted one
    assert model.predict(X).shape == (60,)


def test_a_run_without_a_network_cannot_start_a_training(tmp_path):
    SignalClassifier(**SMALL, answer="kernel").fit(X, Y).save(tmp_path / "run")
    with pytest.raises(ArgumentError, match="expected a run with a network"):
        SignalClassifier(**SMALL, warm_start=str(tmp_path / "run")).fit(X, Y)


def test_channels_with_names_are_named():
    model = SignalClassifier(**SMALL, answer="kernel").fit(X, Y)
    model.inputs_ = signal.SignalInputs(model.inputs_.standardization, 3, ("Fz", "Cz", "Pz"))
    shown = {c.where: c.what.partition(", ")[2] for c in model.explain(X[:1])[0].contributions}
    assert shown[(1,)] == "Cz"
    assert shown.get((0, 2), "Fz and Pz") == "Fz and Pz"
    with pytest.raises(ValueError, match="2 names of 3 channels"):
        signal.SignalInputs(model.inputs_.standardization, 3, ("Fz", "Cz"))


def test_what_an_event_evokes_is_told_by_the_waveform():
    """Both classes have the same spectrum: one is the other turned over."""
    rng, bump = np.random.default_rng(0), np.exp(-(((np.arange(100) - 40) / 8) ** 2))
    y = rng.permutation(np.repeat([0, 1], 40))
    X = rng.normal(size=(80, 2, 100))
    X[:, 1] += 1.5 * np.where(y == 1, 1, -1)[:, None] * bump
    model = SignalClassifier(sampling_rate=100, answer="kernel", random_state=0, verbose=0)
    model.fit(X[:60], y[:60])
    assert "waveform" in model.kernel_.views
    assert model.score(X[60:], y[60:]) > 0.9
    for one in model.explain(X[60:]):
        assert_sums(one, abs=1e-6)
    best = model.explain(X[60:61])[0].contributions[0]
    assert best.what.startswith("waveform, 0.")
    assert best.what.endswith(" s, channel 1")


def test_few_subjects_do_not_choose_what_is_compared():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2, 100)), np.arange(60) % 2
    X[:, 1, 30:50] += np.where(y == 1, 2, -2)[:, None]  # told by the waveform
    options = {"sampling_rate": 100, "answer": "kernel", "random_state": 0, "verbose": 0}
    for subjects, has_waveform in ((5, False), (6, True)):
        model = SignalClassifier(**options, valid_fraction=0)
        model.fit(X, y, groups=np.arange(60) // 2 % subjects)
        assert ("waveform" in model.kernel_.views) == has_waveform
