"""`help` and tab completion show what there is to use."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import fields

import pytest

from representer import estimators, nn


@pytest.mark.parametrize("name", ["TextClassifier", "SignalClassifier", "SeriesRegressor"])
def test_help_of_an_estimator_has_its_parameters_and_attributes(name):
    cls = getattr(estimators, name)
    for one in fields(cls):
        assert f"\n        {one.name}: " in cls.__doc__
    assert "default: 'both'" in cls.__doc__ or name == "SeriesRegressor"
    for attribute in ("kernel_", "network_", "share_", "history_", "classes_"):
        assert f"\n        {attribute}: " in cls.__doc__


@pytest.mark.parametrize("name", ["RKMLSTM", "RKMCIFG", "LinearKernelRNN", "NgramLSTM", "CNN"])
def test_help_of_a_layer_has_its_arguments_and_shapes(name):
    layer = getattr(nn, name)
    assert "filter_length" in inspect.signature(layer).parameters
    text = layer.__doc__
    for part in ("input_size: I,", "filter_length: n,", "weight_ih_l0: Filters", "Shape:"):
        assert text.count(part) == 1


@pytest.mark.parametrize(
    "name",
    ["nn", "kernels", "explain", "estimators", "functional", "ops", "models", "export"],
)
def test_tab_completion_shows_public_names_alone(name):
    module = importlib.import_module(f"representer.{name}")
    assert dir(module) == sorted(module.__all__)
