"""A string-kernel layer follows torch.nn.LSTM: kinds of input, state, streaming."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence

from representer import nn
from representer.errors import ArgumentError, KindError, ShapeError

from ..string_layers import (
    EVERY_STRING_LAYER,
    HIDDEN,
    INPUT,
    STRING_LAYERS,
    build_string,
    string_batch,
)


@EVERY_STRING_LAYER
def test_the_first_dimension_of_the_state_is_layers_times_directions(name: str):
    layer = build_string(name, batch_first=True, bidirectional=True, num_layers=2)
    _, state = layer(string_batch(5, 2).transpose(0, 1))
    has_mass = name in ("add_exact", "exact", "everything")
    assert type(state) is (nn.StringMassState if has_mass else nn.StringState)
    assert state._fields == (("h", "c", "m") if has_mass else ("h", "c"))
    assert state.h.shape == (4, 2, HIDDEN)
    for field in state[1:]:
        assert field.shape == (4, layer.order, 2, HIDDEN)


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


@EVERY_STRING_LAYER
def test_evaluating_the_repr_creates_an_equal_layer(name: str):
    layer = build_string(name, num_layers=2, dropout=0.5, batch_first=True)
    again = eval(repr(layer), {"StringKernelRNN": nn.StringKernelRNN})
    assert repr(again) == repr(layer)
    assert again.chain == layer.chain
    assert (again.decay, again.dropout, again.batch_first) == (layer.decay, 0.5, True)


@pytest.mark.parametrize("name", ["everything"])
def test_it_compiles_to_one_graph(name: str):
    torch._dynamo.reset()
    layer, x = build_string(name), string_batch(3)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x)[0], layer(x)[0])


def test_dropout_between_layers_and_of_the_input_acts_only_in_training():
    layer, x = build_string("order 1", num_layers=2, dropout=1.0), string_batch()
    assert not layer(x)[0].any()
    assert layer.eval()(x)[0].all()
    layer = build_string("highway", variational_dropout=1.0)
    assert not layer(x)[0].any()  # the highway uses the masked input, too
    assert layer.eval()(x)[0].all()


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


def kernels_by_enumeration(x: Tensor, references: Tensor, lam: float) -> Tensor:
    """Return the string kernels of orders 1..n of ``(T, I)`` and references ``(H, n, I)``."""
    total = x.new_zeros(references.shape[1], len(references))
    for j in range(1, len(total) + 1):
        for i in combinations(range(len(x)), j):
            products = [references[:, k] @ x[i[k]] for k in range(j)]
            total[j - 1] += lam ** (len(x) - (i[0] + 1) - j + 1) * math.prod(products)
    return total


@pytest.mark.parametrize("order", [1, 2, 3, 6])
@pytest.mark.parametrize("lam", [0.0, 0.6, 1.0])
def test_every_state_equals_the_string_kernel_with_the_first_tokens_of_the_reference(
    order: int, lam: float
):
    layer = build_string("multiply", order=order, decay=lam)
    x = string_batch(7, 1)[:, 0]
    output, state = layer(x)
    for t in range(len(x)):
        expected = kernels_by_enumeration(x[: t + 1], layer.references(), lam)
        torch.testing.assert_close(layer.cell_states(x)[t], expected, **CLOSE)
        torch.testing.assert_close(output[t], expected[-1], **CLOSE)
    torch.testing.assert_close(state.c[0], layer.cell_states(x)[-1], **CLOSE)


def test_references_can_be_modified_in_place():
    layer, other = build_string("multiply"), build_string("multiply")
    layer.references().copy_(other.references())
    x = string_batch()
    torch.testing.assert_close(layer(x)[0], other(x)[0])
    assert layer.references().shape == (HIDDEN, 2, INPUT)
    assert not layer.references().requires_grad


@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("readout", ["last", "sum"])
def test_the_activation_is_applied_to_the_readout(name: str, readout: str):
    layer, x = build_string("multiply", order=3, activation=name, readout=readout), string_batch()
    states = layer.cell_states(x)
    read = states[:, :, -1] if readout == "last" else states.sum(2)
    torch.testing.assert_close(layer(x)[0], getattr(torch, name)(read), **CLOSE)


def test_the_default_activation_is_tanh():
    layer = nn.StringKernelRNN(INPUT, HIDDEN, decay=0.5, dtype=torch.float64)
    x = string_batch()
    torch.testing.assert_close(layer(x)[0], layer.cell_states(x)[:, :, -1].tanh(), **CLOSE)


def test_the_second_layer_uses_the_output_of_the_first():
    both = build_string("multiply", num_layers=2, activation="tanh")
    first, second = build_string("multiply", activation="tanh"), build_string("multiply")
    first.references().copy_(both.references(0))
    second.references().copy_(both.references(1))
    x = string_batch()
    torch.testing.assert_close(both(x)[0], second(first(x)[0])[0].tanh(), **CLOSE)
