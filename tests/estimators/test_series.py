"""Estimators of series: any lengths, gaps, one channel or many, exact explanations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from both_halves import assert_sums
from representer.errors import ArgumentError, DataError
from representer.estimators import SeriesClassifier, SeriesRegressor, load
from representer.estimators.series import SeriesInputs, filled, read_series

QUIET: dict[str, Any] = {"num_features": 700, "random_state": 0, "verbose": 0, "n_jobs": 1}
TINY = {"hidden_size": 6, "epochs": 2, "batch_size": 16}


def drawn(count: int = 40, channels: int = 2, seed: int = 0) -> tuple[list[np.ndarray], list[str]]:
    """Noise of 5 to 40 steps; the second channel of every other series is steep."""
    rng, series = np.random.default_rng(seed), []
    for row in range(count):
        one = rng.normal(size=(channels, int(rng.integers(5, 41))))
        one[-1] += (row % 2) * 3 * np.arange(one.shape[1]) % 7
        series.append(one)
    return series, ["steep" if row % 2 else "flat" for row in range(count)]


@pytest.fixture(scope="module", params=["kernel", "both"])
def fitted(request) -> SeriesClassifier:
    return SeriesClassifier(answer=request.param, **QUIET, **TINY).fit(*drawn())


def test_series_of_unequal_lengths_are_classified(fitted):
    X, y = drawn(seed=1)
    assert fitted.score(X, y) > 0.9
    assert clone(fitted).get_params() == fitted.get_params()


def test_contributions_sum_to_the_score_and_stand_at_single_steps(fitted):
    X, _ = drawn(100, seed=1)
    X[0] = X[0][:, :1]
    X[1][0, 2:4] = np.nan
    for one, own in zip(X, fitted.explain(X), strict=True):
        assert_sums(own, abs=1e-9)
        assert {part.where for part in own.contributions} == {(t,) for t in range(one.shape[1])}
        parts = {part.part for part in own.contributions}
        assert parts == {name for name, share in fitted.share_.items() if share}
        named = [part.what for part in own.contributions if part.part == "kernel"]
        assert all("channel" in what for what in named)


def test_steps_of_long_series_are_joined_in_spans(monkeypatch):
    monkeypatch.setattr("representer.estimators.series._MOST", 2000)
    X, y = drawn(20, channels=1)
    model = SeriesClassifier(**QUIET).fit(X, y)
    (own,) = model.explain(X[:1])
    spans = {part.where for part in own.contributions}
    assert len(own.contributions) <= 2000
    ends = sorted(t for span in spans for t in (span[0], span[-1]))
    assert (ends[0], ends[-1]) == (0, X[0].shape[1] - 1)
    assert_sums(own, abs=1e-9)


def test_values_are_read_where_series_differ_in_time_only():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1, 24))
    X[::2, 0, 4] += 4
    X[1::2, 0, 16] += 4
    y = ["early", "late"] * 30
    model = SeriesClassifier(**QUIET).fit(X[:40], y[:40])
    assert model.machine_.kernel.views[-1] == "values"
    assert model.score(X[40:], y[40:]) > 0.9
    for one in model.explain(X[40:]):
        assert_sums(one, abs=1e-9)
        assert "value" in {part.what for part in one.contributions}


def test_the_picture_has_the_contribution_of_each_step(fitted):
    X, _ = drawn(2)
    (own,) = fitted.explain(X[:1])
    details = fitted.explanation_details(X[0], own)
    assert details["shown"] == list(range(X[0].shape[1]))
    assert sum(details["by_step"]) == pytest.approx(own.score - own.baseline)
    assert details["series"].keys() == {"0", "1"}


def test_a_saved_estimator_predicts_the_same(fitted, tmp_path):
    X, _ = drawn(8, seed=2)
    fitted.save(tmp_path / "run")
    np.testing.assert_array_equal(load(tmp_path / "run").predict_proba(X), fitted.predict_proba(X))


def test_all_forms_of_the_same_series_are_the_same():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(6, 12))
    forms = [table, table[:, None], list(table), [list(one) for one in table],
             [one[None] for one in table]]  # fmt: skip
    padded = np.concatenate([table, np.full((6, 5), np.nan)], axis=1)
    for form in [*forms, padded]:
        for one, row in zip(read_series(form), table, strict=True):
            np.testing.assert_array_equal(one, row[None])


def test_gaps_are_interpolated_and_flat_or_missing_channels_are_0():
    nan = np.nan
    np.testing.assert_array_equal(filled(np.array([[nan, 1, nan, 3, nan]])), [[1, 1, 2, 3, 3]])
    one = np.array([[1.0, nan, 3.0], [nan] * 3, [2.0] * 3])
    for kind in ("training", "series", "none"):
        (x,) = SeriesInputs.learn(kind, [one]).encode([one])
        assert np.isfinite(x).all()
        assert (x[1] == 0).all()
        assert (x[2] == (2 if kind == "none" else 0)).all()


def test_a_regressor_learns_the_level_of_series():
    rng = np.random.default_rng(0)
    y = rng.normal(size=60)
    X = y[:, None] + 0.1 * rng.normal(size=(60, 30))
    model = SeriesRegressor(**QUIET).fit(X[:40], y[:40])
    assert model.score(X[40:], y[40:]) > 0.8
    (own,) = model.explain(X[50:51])
    assert_sums(own)
    assert own.score == pytest.approx(model.predict(X[50:51])[0])


@pytest.mark.parametrize(("X", "message"), [
    ([[1.0, np.inf]], r"X\[0\] contains infinity"),
    ([np.zeros((2, 3)), np.zeros(3)], r"X\[1\] has 1 channels"), ([["a"]], r"X\[0\] is no array"),
    ([[]], r"X\[0\] has the shape"), (np.zeros((1, 1, 1, 1)), r"X\[0\] has the shape"),
    ("abc", "X is a str"),
])  # fmt: skip
def test_errors_name_the_row(X, message):
    with pytest.raises(DataError, match=message):
        SeriesClassifier().fit(X, ["a"] * len(X))


def test_other_channels_and_wrong_parameters_are_refused(fitted):
    with pytest.raises(DataError, match="has 1 channels; the model has 2"):
        fitted.predict([np.zeros(5)])
    with pytest.raises(ArgumentError, match="standardize"):
        SeriesClassifier(standardize="window").fit(*drawn())


def test_a_series_without_values_gets_a_warning(fitted):
    with pytest.warns(UserWarning, match="1 of 1 series have nothing that training had"):
        fitted.predict([np.full((2, 4), np.nan)])


GAPS = np.random.default_rng(3).random((2, 40)) < 0.3


@pytest.mark.parametrize(("channels", "views", "gaps"), [
    (1, [("share",)], None), (2, [("share", "values")], None), (2, [("share", "excess")], GAPS),
    (2, [("share", "values")], GAPS),
])  # fmt: skip
def test_a_stream_predicts_what_the_series_so_far_is_predicted(monkeypatch, channels, views, gaps):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(channels, 30 + k % 7)) for k in range(24)]
    for one in X[::2]:
        one[0, 10:15] += 4
    monkeypatch.setattr(SeriesClassifier, "candidates", views)
    model = SeriesClassifier(num_features=800, random_state=0, verbose=0).fit(X, [0, 1] * 12)
    series = rng.normal(size=(channels, 40)).cumsum(1)
    if gaps is not None:
        series[gaps] = np.nan
        series[:, [0, 20, 21, 39]] = np.nan
        series[1, :6] = np.nan
    stream = model.stream()
    for _ in range(2):
        for t in range(40):
            chances = stream.step(series[:, t])
            if np.isnan(series[:, : t + 1]).all():
                assert chances is None
            else:
                (expected,) = model.predict_proba([series[:, : t + 1]])
                np.testing.assert_allclose(chances, expected, atol=1e-9)
        assert stream.steps == 40
        stream.reset()


def test_a_stream_of_a_regressor_predicts_numbers():
    X = np.random.default_rng(0).normal(size=(20, 30))
    model = SeriesRegressor(num_features=500, random_state=0, verbose=0).fit(X, X.std(1))
    stream = model.stream()
    for t, value in enumerate(X[0].tolist()):
        expected = model.predict(X[:1, : t + 1])[0]
        assert stream.step(value) == pytest.approx(expected, abs=1e-9)


def test_what_a_stream_cannot_do_is_named():
    X, y = np.random.default_rng(0).normal(size=(20, 30)), [0, 1] * 10
    quiet = {"num_features": 200, "random_state": 0, "verbose": 0}
    whole = SeriesClassifier(standardize="series", **quiet).fit(X, y)
    with pytest.raises(ArgumentError, match=r"standardize .*does not know the whole series"):
        whole.stream()
    network = SeriesClassifier(answer="network", epochs=1, **quiet).fit(X, y)
    with pytest.raises(ArgumentError, match=r"answer .*for a stream"):
        network.stream()
    stream = SeriesClassifier(**quiet).fit(X, y).stream()
    for values in ([1.0, 2.0], np.inf):
        with pytest.raises(DataError, match="for each of 1 channels"):
            stream.step(values)


def test_a_network_starts_from_the_filters_of_the_kernel():
    X, y = drawn()
    options = {**QUIET, **TINY, "answer": "network", "epochs": 1, "lr": 1e-12}
    model = SeriesClassifier(**options, dilation=1).fit(X, y)
    taps = model.network_.cell.filters()["candidate"].numpy()
    signs = np.sort(np.sign(taps[np.abs(taps).sum(2) > 1e-6]), axis=1)
    assert len(signs) == len(taps)  # each reads one channel
    assert all(row.tolist() in ([-1.0] * 6 + [1.0] * 3, [1.0] * 9) for row in signs)
    np.testing.assert_allclose(model.network_.cell.filters()["output"].numpy(), taps, atol=1e-6)
    assert np.abs(model.network_.cell.biases()["output"].numpy()).max() > 0
    plain = SeriesClassifier(**options, initial="random").fit(X, y)
    assert np.abs(plain.network_.cell.filters()["candidate"].numpy() - taps).max() > 0.01
    short = SeriesClassifier(**options, filter_length=5).fit(X, y)  # no room for nine taps
    assert short.network_.config.dilation == 1
    with pytest.raises(ArgumentError, match="filter_length is 5; expected 9 or more"):
        SeriesClassifier(**options, filter_length=5, initial="kernel").fit(X, y)
    with pytest.raises(ArgumentError, match="initial is"):
        SeriesClassifier(**options, initial="ones").fit(X, y)


def test_a_regressor_with_gaps_in_its_targets_starts_from_filters_too():
    X, _ = drawn()
    y = np.array([[np.nan if row % 5 == 0 else one[-1].mean(), row] for row, one in enumerate(X)])
    model = SeriesRegressor(**{**QUIET, **TINY}, answer="both", filter_length=11).fit(X, y)
    assert np.isfinite(model.predict(X[:3])).all()
