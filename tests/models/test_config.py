"""Configurations of models: ranges, and the way to plain values and back."""

from __future__ import annotations

import json

import pytest

from representer.errors import ArgumentError
from representer.models import SequenceClassifierConfig, from_dict, to_dict


@pytest.mark.parametrize("filter_length", [3, {1: 100, 3: 200}])
def test_a_configuration_comes_back_from_json(filter_length: int | dict[int, int]) -> None:
    config = SequenceClassifierConfig(50, 4, cell="lstm", filter_length=filter_length)
    plain = json.loads(json.dumps(to_dict(config)))
    assert from_dict(SequenceClassifierConfig, plain) == config


def test_an_unknown_key_is_named_with_the_nearest_one() -> None:
    values = {"vocabulary_size": 5, "num_classes": 2, "hiden_size": 3}
    with pytest.raises(ArgumentError, match=r"'hiden_size'.*Did you mean 'hidden_size'"):
        from_dict(SequenceClassifierConfig, values)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ArgumentError, match="'num_classes' among them"):
        from_dict(SequenceClassifierConfig, {"vocabulary_size": 5})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vocabulary_size", 0),
        ("num_classes", 1),
        ("hidden_size", 2.5),
        ("num_layers", True),
        ("dropout", 1.0),
        ("cell_dropout", -0.1),
        ("dropout", float("nan")),
        ("pooling", "median"),
        ("max_length", 5),
        ("padding_index", 9),
        ("padding_index", -1),
        ("cell", "gru"),
    ],
)
def test_a_value_out_of_its_range_is_named(name: str, value: object) -> None:
    values = {"vocabulary_size": 9, "num_classes": 2, name: value}
    with pytest.raises(ArgumentError, match=f"^{name} is {value!r}; expected "):
        from_dict(SequenceClassifierConfig, values)


def test_the_padded_mean_needs_its_length() -> None:
    with pytest.raises(ArgumentError, match="max_length is None; expected a whole number"):
        SequenceClassifierConfig(9, 2, pooling="padded_mean")
