"""The options of a string-kernel layer, and errors for invalid ones."""

from __future__ import annotations

import math
from typing import Any

import pytest

from representer import nn
from representer.errors import ArgumentError
from representer.functional import StringChain
from representer.nn.recurrent.string import check_decay, string_chain

DEFAULTS: dict[str, Any] = {
    "order": 2, "decay": 0.5, "combine": "multiply", "normalized": False, "readout": "last",
    "activation": "tanh", "highway": False,
}  # fmt: skip


@pytest.mark.parametrize(("options", "fields"), [
    ({}, {}), ({"order": 5}, {"order": 5}), ({"decay": "learned"}, {"decay": "given"}),
    ({"decay": "input"}, {"decay": "gate"}), ({"decay": "state"}, {"decay": "state_gate"}),
    ({"combine": "add"}, {"combine": "add"}),
    ({"combine": "add_exact"}, {"combine": "add_exact"}),
    ({"normalized": True}, {"normalized": "paper"}),
    ({"normalized": "exact"}, {"normalized": "exact"}),
    ({"readout": "sum"}, {"readout": "sum"}),
    ({"activation": None}, {"activation": "identity"}),
    ({"activation": "relu"}, {"activation": "relu"}),
    ({"activation": "sigmoid"}, {"activation": "sigmoid"}),
    ({"highway": True}, {"highway": True}),
])  # fmt: skip
def test_every_option_is_a_field_of_the_chain(options: dict[str, Any], fields: dict[str, Any]):
    chain = string_chain(**{**DEFAULTS, **options})
    assert chain == StringChain(**{"order": 2, "activation": "tanh", **fields})


BAD: list[tuple[dict[str, Any], list[str]]] = [
    ({"order": 0}, ["order is 0; expected a positive integer"]),
    ({"order": -1}, ["order is -1"]),
    ({"order": 2.0}, ["order is 2.0; expected a positive integer"]),
    ({"order": True}, ["order is True"]),
    ({"decay": -0.1}, ["decay is -0.1; expected a number in [0, 1], 'learned'"]),
    ({"decay": 1.5}, ["decay is 1.5", "weights of n-grams would grow"]),
    ({"decay": math.nan}, ["decay is nan"]),
    ({"decay": True}, ["decay is True"]),
    ({"decay": "gated"}, ["decay is 'gated'", "'learned', 'input' or 'state'"]),
    ({"decay": None}, ["decay is None"]),
    ({"initialization": "authors"}, ["initialization is 'authors'; expected 'unit' or 'paper'"]),
    ({"combine": "sum"}, ["combine is 'sum'; expected 'multiply', 'add' or 'add_exact'"]),
    ({"normalized": "paper"}, ["normalized is 'paper'; expected False, True or 'exact'"]),
    ({"normalized": 1}, ["normalized is 1"]),
    ({"readout": "mean"}, ["readout is 'mean'; expected 'last', 'sum' or 'weighted'"]),
    ({"activation": "gelu"}, ["activation is 'gelu'; expected one of identity, linear"]),
    ({"order": (2, 2)}, ["order is (2, 2); expected one for each of the 1 layers"]),
    ({"order": (2, 0), "num_layers": 2}, ["order is (2, 0); expected integers of at least 1"]),
    (
        {"highway": True},
        ["highway is True; expected False", "hidden_size = 4 features", "inputs have [3]"],
    ),
    ({"highway": True, "bidirectional": True, "num_layers": 2}, ["inputs have [3, 8]"]),
    (
        {"hidden_dropout": 0.5, "decay": 0.5},
        ["hidden_dropout is 0.5; expected 0 for gates that", "decay='state' or highway=True"],
    ),
    ({"hidden_dropout": 1.5, "decay": "state"}, ["hidden_dropout is 1.5; expected a number"]),
]  # fmt: skip


@pytest.mark.parametrize(("options", "parts"), BAD, ids=[str(options) for options, _ in BAD])
def test_errors_for_invalid_options_name_the_expected_values(
    options: dict[str, Any], parts: list[str]
):
    with pytest.raises(ArgumentError) as error:
        nn.StringKernelRNN(3, 4, **options)
    assert not [part for part in parts if part not in str(error.value)], str(error.value)


@pytest.mark.parametrize("decay", [0, 1, 0.0, 1.0, 0.3])
def test_a_decay_can_be_any_number_in_the_closed_interval(decay: float):
    assert check_decay(decay) == decay


def test_dropout_without_a_second_layer_warns_at_the_constructor_call():
    with pytest.warns(UserWarning, match="acts between layers, and num_layers is 1") as caught:
        nn.StringKernelRNN(3, 4, dropout=0.5)
    assert caught[0].filename == __file__
