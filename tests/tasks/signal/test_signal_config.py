"""The options of ``fit signal``: ranges, and the choices of the rooms that take them."""

from __future__ import annotations

from dataclasses import fields

import pytest

from representer.data.signals import standardization
from representer.errors import ArgumentError
from representer.models import SignalClassifierConfig
from representer.tasks.signal import signal_config
from representer.tasks.signal.signal_config import DEMO, SignalConfig, defaults


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
        ({"pooling": "max"}, "pooling is 'max'"),
        ({"monitor": "auc"}, "monitor is 'auc'; expected one of loss, accuracy"),
        ({"demo": True, "data": "x.npz"}, "data is 'x.npz'; expected nothing with --demo"),
    ],
)
def test_a_value_out_of_its_range_is_refused(wrong, expected):
    with pytest.raises(ArgumentError, match=expected):
        SignalConfig(**wrong)


def test_names_of_subjects_are_read_between_commas():
    assert SignalConfig(test_subjects="a, b b,c,").tested == ["a", "b b", "c"]
    assert SignalConfig().tested == []


def test_the_choices_are_those_of_the_model_and_the_data():
    assert signal_config.STANDARDIZE == standardization.KINDS
    for name, values in (("filters", signal_config.FILTERS), ("pooling", signal_config.POOLING)):
        for value in values:
            given = {name: value}
            SignalClassifierConfig(num_channels=1, num_classes=2, sampling_rate=1.0, **given)


def test_the_demo_has_defaults_of_its_own():
    plain = {field.name: field.default for field in fields(SignalConfig)}
    assert defaults(demo=False) == plain
    assert defaults(demo=True) == plain | DEMO
