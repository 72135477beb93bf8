"""The options of ``fit signal``: ranges, and the choices of the rooms that take them."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from representer.data.signals.recordings import KINDS
from representer.errors import ArgumentError
from representer.estimators.parameters import SignalParameters
from representer.tasks import signal_options
from representer.tasks.signal.data import prepare
from representer.tasks.signal_options import DEMO, SIGNAL, SignalConfig


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"stride": 0}, "stride is 0; expected a positive integer"),
        ({"resample": -1.0}, "resample is -1.0; expected 0 or more"),
        ({"resample": float("nan")}, "resample is nan"),
        ({"window_seconds": float("inf")}, "window_seconds is inf; expected 0 or more"),
        ({"channel_dropout": 1.0}, "channel_dropout is 1.0; expected a number in \\[0, 1\\)"),
        ({"lr": 0.0}, "lr is 0.0; expected a positive number"),
        (
            {"valid_fraction": 1.0},
            "valid_fraction is 1.0; expected a number in \\[0, 1\\)",
        ),
        ({"folds": 1}, "folds is 1; expected 0 for each subject, or 2 groups or more"),
        ({"folds": 2, "test_subjects": "a"}, "test_subjects is 'a'; expected nothing with --folds"),
        ({"standardize": "batch"}, "standardize is 'batch'; expected one of subject, window,"),
        ({"filters": "gabor"}, "filters is 'gabor'; expected one of wavelet, dense"),
        ({"pooling": "sum"}, "pooling is 'sum'"),
        ({"monitor": "auc"}, "monitor is 'auc'; expected one of auto, accuracy, loss"),
        ({"demo": True, "data": "x.npz"}, "data is 'x.npz'; expected nothing with --demo"),
    ],
)
def test_a_value_out_of_its_range_is_refused(wrong, expected):
    with pytest.raises(ArgumentError, match=expected):
        SignalConfig(**wrong)


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
        "conformal", "conformal_by", "calibration", "recenter",
    }  # fmt: skip
    for one in fields(SignalParameters):
        assert (one.name in options) == (one.name not in left_out), one.name
        if one.name in options and one.name not in own:
            assert options[one.name].default == one.default
            assert options[one.name].metadata.items() >= one.metadata.items()  # and its group


def test_the_demo_has_defaults_of_its_own():
    plain = {field.name: field.default for field in fields(SignalConfig)} | {"jobs": 0}
    assert SIGNAL.defaults(SignalConfig()) == plain
    assert SIGNAL.defaults(SignalConfig(demo=True)) == plain | DEMO


def test_windows_that_two_subjects_share_are_left_out_of_the_second(tmp_path, capsys):
    signals = np.random.default_rng(0).normal(size=(12, 2, 64))
    signals[[5, 9]] = signals[[1, 8]]  # of another subject, and of the same
    path = tmp_path / "shared.npz"
    subjects = np.repeat(["a", "b", "c"], 4)
    np.savez(path, X=signals, y=np.arange(12) % 2, subject=subjects, fs=64.0)
    made = prepare(SignalConfig(data=str(path))).recordings
    assert "1 of 12 windows equal those of another subject" in capsys.readouterr().err
    assert made.subjects.tolist() == ["a"] * 4 + ["b"] * 3 + ["c"] * 4
