"""A string-kernel layer follows torch.nn.LSTM: kinds of input, state, streaming."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from representer import nn
from representer.errors import ArgumentError, KindError, ShapeError

from ..string_layers import (
    STRING_LAYERS,
    build_string,
    string_batch,
)

BAD: dict[str, tuple[Any, type[Exception], list[str]]] = {
    "without masses": (
        lambda s: nn.StringState(s.h, s.c), KindError,
        ["state is a tuple of 2",
         "expected StringMassState(h (2, 3, 4), c (2, 3, 3, 4), m (2, 3, 3, 4))"],
    ),
    "of another order": (
        lambda s: s._replace(c=s.c[:, :2]), ShapeError, ["state.c has shape (2, 2, 3, 4)"]
    ),
    "masses of another batch": (
        lambda s: s._replace(m=s.m[:, :, :1]), ShapeError, ["state.m has shape (2, 3, 1, 4)"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_errors_for_invalid_states_name_the_expected_state(case: str):
    spoil, kind, parts = BAD[case]
    layer, x = build_string("everything", num_layers=2), string_batch()
    with pytest.raises(kind) as error:
        layer(x, spoil(layer(x)[1]))
    assert not [part for part in parts if part not in str(error.value)], str(error.value)


def test_invalid_inputs_of_the_cell_states_are_rejected():
    layer = nn.StringKernelRNN(3, 4)
    for bad in (torch.zeros(5, 2, 7), torch.zeros(0, 2, 3)):
        with pytest.raises(ShapeError, match=r"expected \(time, batch, 3\)"):
            layer.cell_states(bad)
    with pytest.raises(KindError, match="input is PackedSequence; expected a tensor"):
        layer.cell_states(pack_sequence([torch.zeros(2, 3)]))


def test_missing_layers_and_directions_are_rejected():
    layer = nn.StringKernelRNN(3, 4)
    for ask in (layer.references, layer.decay_gate):
        with pytest.raises(ArgumentError, match="layer is 1; expected 0 to 0"):
            ask(1)
        with pytest.raises(ArgumentError, match="reverse is True; expected False"):
            ask(0, reverse=True)
    with pytest.raises(ArgumentError, match="reverse is True"):
        layer.cell_states(torch.zeros(5, 3), reverse=True)


def test_hidden_dropout_has_one_mask_per_sequence_in_the_highway():
    """With a fully open gate, the output is sigma(c) times the mask."""
    layer = build_string("highway", hidden_dropout=0.5)
    with torch.no_grad():
        layer.direction(0).bias[1] = 1e9
        layer.weight_hh_l0.zero_()
    x = string_batch(9, 40)
    share = layer(x)[0] / layer.eval()(x)[0]
    assert sorted(share.round(decimals=9).unique().tolist()) == [0.0, 2.0]
    torch.testing.assert_close(share, share[:1].expand_as(share))  # the same at every step
    assert len(share[0].unique(dim=0)) > 1  # different for every sequence


def test_hidden_dropout_is_applied_to_the_input_of_the_decay_gate():
    hidden = build_string("state gate", hidden_dropout=1.0)
    blind = build_string("state gate")
    blind.load_state_dict(hidden.state_dict())
    blind.decay_gate()["state"].zero_()
    x = string_batch()
    torch.testing.assert_close(hidden(x)[0], blind(x)[0])
    assert not torch.equal(hidden.eval()(x)[0], blind(x)[0])


def test_the_rows_cover_every_value_of_every_option():
    seen = {key: {o[key] for o in STRING_LAYERS.values() if key in o} for key in
            ("decay", "combine", "normalized", "readout", "activation", "highway")}  # fmt: skip
    assert {"learned", "input", "state", 0.0, 1.0} <= seen["decay"]
    assert seen["combine"] == {"add", "add_exact"}
    assert seen["normalized"] == {True, "exact"}
    assert seen["activation"] == {None, "relu", "sigmoid"}


# The string-kernel layer: each option against enumeration or equations written out.


CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("readout", ["last", "sum"])
def test_the_activation_is_applied_to_the_readout(name: str, readout: str):
    layer, x = build_string("multiply", order=3, activation=name, readout=readout), string_batch()
    states = layer.cell_states(x)
    read = states[:, :, -1] if readout == "last" else states.sum(2)
    torch.testing.assert_close(layer(x)[0], getattr(torch, name)(read), **CLOSE)
