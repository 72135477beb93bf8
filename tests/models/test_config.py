"""Configurations of models: ranges, and conversion to plain values and back."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields

import pytest
import torch

from representer import nn
from representer.errors import ArgumentError
from representer.models import (
    CELLS,
    GraphRegressorConfig,
    LanguageModelConfig,
    SequenceClassifierConfig,
    SignalClassifierConfig,
    StackedClassifierConfig,
    build_cell,
    from_dict,
    resolve_cell,
    to_dict,
)


@pytest.mark.parametrize(
    "config",
    [
        SequenceClassifierConfig(50, 4, cell="lstm", filter_length=3),
        SequenceClassifierConfig(50, 4, filter_length={1: 100, 3: 200}),
        StackedClassifierConfig(50, 4, decay=0.25, readout="last"),
        LanguageModelConfig(50, cutoffs=(10, 20), decay=0.5),
        GraphRegressorConfig(7, decay=0.5, readout="sum"),
        SignalClassifierConfig(3, 2, 100.0, cell="rkm-cifg", filters="dense", layer_norm=True),
    ],
    ids=lambda config: type(config).__name__,
)
def test_a_configuration_round_trips_through_json(config) -> None:
    plain = json.loads(json.dumps(to_dict(config)))
    assert from_dict(type(config), plain) == config


def test_the_error_for_an_unknown_key_suggests_the_closest_one() -> None:
    values = {"vocabulary_size": 5, "num_classes": 2, "hiden_size": 3}
    with pytest.raises(ArgumentError, match=r"'hiden_size'.*Did you mean 'hidden_size'"):
        from_dict(SequenceClassifierConfig, values)


def test_the_error_for_a_missing_key_names_it() -> None:
    with pytest.raises(ArgumentError, match="'num_classes' among them"):
        from_dict(SequenceClassifierConfig, {"vocabulary_size": 5})


OUT_OF_RANGE = [
    (SequenceClassifierConfig, "vocabulary_size", 0), (SequenceClassifierConfig, "num_classes", 0),
    (SequenceClassifierConfig, "hidden_size", 2.5), (SequenceClassifierConfig, "num_layers", True),
    (SequenceClassifierConfig, "dropout", 1.0), (SequenceClassifierConfig, "cell_dropout", -0.1),
    (SequenceClassifierConfig, "dropout", float("nan")),
    (SequenceClassifierConfig, "pooling", "median"), (SequenceClassifierConfig, "max_length", 5),
    (SequenceClassifierConfig, "filter_padding", "valid"),
    (SequenceClassifierConfig, "cell", "gru"),
    (SequenceClassifierConfig, "padding_index", 9), (SequenceClassifierConfig, "padding_index", -1),
    (StackedClassifierConfig, "vocabulary_size", 0), (StackedClassifierConfig, "num_classes", 1),
    (StackedClassifierConfig, "hidden_size", 2.5), (StackedClassifierConfig, "num_layers", 0),
    (StackedClassifierConfig, "dropout", 1.0), (StackedClassifierConfig, "rnn_dropout", -0.1),
    (StackedClassifierConfig, "padding_index", 9), (StackedClassifierConfig, "order", True),
]  # fmt: skip


@pytest.mark.parametrize(("config", "name", "value"), OUT_OF_RANGE)
def test_the_error_for_a_value_out_of_range_names_it(config, name, value) -> None:
    with pytest.raises(ArgumentError, match=f"^{name} is {value!r}; expected "):
        config(**{"vocabulary_size": 9, "num_classes": 2, name: value})


def test_padded_mean_requires_max_length() -> None:
    with pytest.raises(ArgumentError, match="max_length is None; expected a positive integer"):
        SequenceClassifierConfig(9, 2, pooling="padded_mean")


@pytest.mark.parametrize(
    "others", [{"num_layers": 2}, {"bidirectional": True}, {"filter_length": {1: 150, 3: 150}}]
)
def test_centered_filters_are_for_one_layer_direction_and_length(others) -> None:
    options = {"filter_length": 3, "filter_padding": "same", **others}
    with pytest.raises(ArgumentError, match="filter_padding is 'same'; expected 'causal', unless"):
        SequenceClassifierConfig(9, 2, **options)


DEFAULTS = {
    SequenceClassifierConfig(9, 2): {
        "cell": "rkm-cifg", "embedding_size": 300, "hidden_size": 300, "filter_length": 1,
        "dilation": 1, "num_layers": 1, "bidirectional": False, "layer_norm": True,
        "forget_bias": 0.0, "learn_static_gates": False, "order": 2, "decay": 0.5,
        "combine": "multiply", "normalized": False, "readout": "last", "initialization": "unit",
        "filter_padding": "causal", "candidate_bias": False,
        "cell_dropout": 0.0, "dropout": 0.5, "head_size": 300, "pooling": "mean",
        "max_length": None, "padding_index": 0,
    },
    StackedClassifierConfig(9, 2): {
        "embedding_size": 300, "hidden_size": 200, "num_layers": 3, "order": 2, "decay": "state",
        "combine": "multiply", "normalized": True, "readout": "sum", "activation": "relu",
        "dropout": 0.35, "rnn_dropout": 0.2, "padding_index": 0,
    },
    LanguageModelConfig(9): {
        "embedding_size": 355, "hidden_size": 355, "num_layers": 3, "cell": "string-kernel",
        "order": 1, "combine": "multiply", "decay": "state", "highway": True, "activation": None,
        "filter_length": 1, "layer_norm": False, "embedding_dropout": 0.0, "input_dropout": 0.5,
        "layer_dropout": 0.0, "output_dropout": 0.5, "is_locked": False, "rnn_dropout": 0.0,
        "weight_dropout": 0.0, "cutoffs": (), "initial": "string",
    },
    GraphRegressorConfig(9): {
        "outputs": 1, "edge_dim": 6, "network": "wl", "hidden_size": 175, "depth": 4, "order": 2,
        "decay": "gated", "readout": "last", "gate_scale": 10.0, "initial": "authors",
        "share_references": True, "dropout": 0.0, "compress": False, "normalize": False,
    },
    SignalClassifierConfig(3, 2, 100.0): {
        "cell": "rkm-lstm", "hidden_size": 30, "filters": "wavelet", "filter_length": 40,
        "stride": 20, "num_layers": 1, "layer_norm": False, "free_phase": False,
        "channel_dropout": 0.0, "dropout": 0.0, "pooling": "mean", "pool_length": None,
        "window_length": None,
    },
}  # fmt: skip


@pytest.mark.parametrize("config", DEFAULTS, ids=lambda config: type(config).__name__)
def test_the_defaults_are_those_of_the_papers(config) -> None:
    """A changed default would change the meaning of saved configurations."""
    needed = {f.name for f in fields(config) if f.default is MISSING}
    actual = {f.name: getattr(config, f.name) for f in fields(config) if f.name not in needed}
    assert actual == DEFAULTS[config]


# The registry of cells.


def test_every_row_of_table_1_has_a_name() -> None:
    assert set(nn.TABLE1.values()) <= set(CELLS.values())


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_accepts_batch_first_and_returns_its_units(name: str) -> None:
    output, _ = build_cell(name, 3, 4, {"bidirectional": True})(torch.randn(2, 5, 3))
    assert output.shape == (2, 5, 8)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("rkm-cfig", "rkm-cifg"), ("RKM_LSTM", "rkm-lstm"), ("Gated CNN", "gated-cnn")],
)
def test_the_error_for_a_misspelled_cell_suggests_the_closest_name(wrong: str, right: str) -> None:
    with pytest.raises(ArgumentError, match=f"Did you mean {right!r}"):
        resolve_cell(wrong)


def test_the_error_for_an_unknown_cell_lists_all_cells() -> None:
    with pytest.raises(ArgumentError, match=r"expected one of lstm, rkm-lstm, .*torch-lstm\.$"):
        resolve_cell("transformer")


@pytest.mark.parametrize(("cell", "option", "value"), [
    ("torch-lstm", "layer_norm", True), ("torch-lstm", "filter_length", 3),
    ("rkm", "forget_bias", 1.0), ("lstm", "learn_static_gates", True),
    ("string-kernel", "layer_norm", True), ("string-kernel", "filter_length", 3),
    ("rkm-cifg", "order", 3), ("rkm-cifg", "decay", "input"),
])  # fmt: skip
def test_an_option_that_a_cell_does_not_have_is_rejected(
    cell: str, option: str, value: object
) -> None:
    with pytest.raises(ArgumentError, match=f"{option} is {value!r}.*{cell!r} has no such option"):
        build_cell(cell, 3, 4, {option: value})


def test_learned_static_gates_are_passed_to_the_linear_kernel() -> None:
    cell = build_cell("linear-kernel", 3, 4, {"learn_static_gates": True})
    fixed = build_cell("linear-kernel", 3, 4, {})
    count = [sum(p.numel() for p in c.parameters()) for c in (cell, fixed)]
    assert count[0] > count[1]


def test_order_and_decay_are_passed_to_the_string_kernel() -> None:
    cell = build_cell("string-kernel", 3, 4, {"order": 3, "decay": "input"})
    assert isinstance(cell, nn.StringKernelRNN)
    assert (cell.order, cell.decay) == (3, "input")
    usual = build_cell("string-kernel", 3, 4, {"order": 2, "decay": 0.5})
    assert isinstance(usual, nn.StringKernelRNN)
    assert (usual.order, usual.decay) == (2, 0.5)


def test_every_option_is_passed_to_torch_lstm() -> None:
    options = {"num_layers": 2, "dropout": 0.3, "bidirectional": True}
    cell = build_cell("torch-lstm", 3, 4, options, batch_first=False)
    assert isinstance(cell, torch.nn.LSTM)
    assert (cell.num_layers, cell.dropout, cell.bidirectional) == (2, 0.3, True)
    assert (cell.input_size, cell.hidden_size, cell.bias, cell.batch_first) == (3, 4, True, False)
