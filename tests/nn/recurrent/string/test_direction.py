"""One direction of a string-kernel layer: parameters, initialization, states at every step."""

from __future__ import annotations

import math

import pytest
import torch

from looped import looped
from representer import nn
from representer.functional import string_states

from ..string_layers import (
    BATCH,
    EVERY_STRING_LAYER,
    HIDDEN,
    INPUT,
    STRING_LAYERS,
    build_string,
    string_batch,
)

GATED = [name for name, o in STRING_LAYERS.items() if o.get("decay") in ("input", "state")]


@EVERY_STRING_LAYER
def test_a_layer_has_exactly_the_parameters_of_its_cell(name: str):
    layer = build_string(name)
    products = len(layer.chain.products)
    gates = products - layer.order
    expected = {"weight_ih_l0": (products * HIDDEN, INPUT)}
    expected |= {"bias_l0": (gates * HIDDEN,)} if gates else {}
    expected |= {"weight_hh_l0": (HIDDEN, HIDDEN)} if layer.chain.is_state_gated else {}
    expected |= {"decay_logit_l0": (HIDDEN,)} if layer.decay == "learned" else {}
    assert {key: tuple(value.shape) for key, value in layer.state_dict().items()} == expected


@EVERY_STRING_LAYER
def test_without_biases_there_are_none(name: str):
    layer = build_string(name, bias=False)
    assert not [key for key in layer.state_dict() if "bias" in key]
    assert layer(string_batch())[0].shape == (6, BATCH, HIDDEN)


def test_weights_of_the_paper_have_variance_one_over_fan_in_and_biases_are_zero():
    options = {"decay": "state", "highway": True, "num_layers": 2}
    layer = nn.StringKernelRNN(50, 100, initialization="paper", **options)
    for k, size in enumerate((50, 100)):
        weight = layer.direction(k).input_weight
        recurrent = layer.get_parameter(f"weight_hh_l{k}")
        gates = layer.get_parameter(f"bias_l{k}")
        of_tokens, of_both = math.sqrt(3 / size), math.sqrt(3 / (size + 100))
        drawn = [(recurrent, of_both), (weight[2], of_both)]
        drawn += [(matrix, of_tokens) for matrix in (*weight[:2], *weight[3:])]
        for matrix, bound in drawn:
            assert 0.98 * bound < matrix.abs().max() <= bound
        assert len(weight) == 3 + k  # the first layer's input is too small for a highway
        assert not gates.any()


@looped("reverse", [False, True])
@EVERY_STRING_LAYER
def test_cell_states_match_the_states_of_the_layer(name: str, reverse: bool):
    layer, x = build_string(name, bidirectional=reverse), string_batch()
    shown = layer.cell_states(x, reverse)
    for t in range(len(x)):
        _, state = layer(x[t:] if reverse else x[: t + 1])
        carried = torch.cat([field[-1] for field in state[1:]]).movedim(0, 1)
        torch.testing.assert_close(shown[t], string_states(layer.chain, carried))


@EVERY_STRING_LAYER
def test_the_states_have_the_layout_of_the_input(name: str):
    layer, first = build_string(name), build_string(name, batch_first=True)
    first.load_state_dict(layer.state_dict())
    x = string_batch()
    states = layer.cell_states(x)
    assert states.shape == (6, BATCH, layer.order, HIDDEN)
    torch.testing.assert_close(first.cell_states(x.transpose(0, 1)), states.transpose(0, 1))
    torch.testing.assert_close(layer.cell_states(x[:, 0]), states[:, 0])


def test_cell_states_are_without_dropout_and_differentiable():
    layer = build_string("state gate", hidden_dropout=0.5, variational_dropout=0.5)
    x = string_batch().requires_grad_()
    states = layer.cell_states(x)
    layer.eval()
    torch.testing.assert_close(states, layer.cell_states(x))
    (slope,) = torch.autograd.grad(states[-1].sum(), x)
    assert slope.ne(0).all()


@pytest.mark.parametrize("decay", [0.1, "learned"])
def test_the_decay_is_exact_after_conversion_to_float64(decay: float | str):
    layer = nn.StringKernelRNN(3, 4, decay=decay, initialization="paper").double()
    value = layer.decay_gate()
    assert isinstance(value, torch.Tensor)
    assert value.dtype == torch.float64
    assert (value == (0.1 if decay == 0.1 else 0.5)).all()


# The memory of a stream is that of one chunk.


@EVERY_STRING_LAYER
def test_the_size_of_a_state_does_not_depend_on_the_number_of_steps(name: str):
    layer = build_string(name)
    sizes, state = set(), None
    for time in (1, 5, 40):
        _, state = layer(string_batch(time), state)
        state = state.detach()
        kept = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in state}
        sizes.add(sum(kept.values()))
    assert len(sizes) == 1
