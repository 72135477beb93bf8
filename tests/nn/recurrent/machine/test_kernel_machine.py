"""Properties of all cells: equations, inspection, options, and tools."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from looped import looped
from representer import nn
from representer.errors import ArgumentError
from representer.nn.recurrent.machine import RecurrentKernelMachine, StaticGates

from ..layers import (
    EVERY_LAYER,
    HIDDEN,
    INPUT,
    LAYERS,
    MIXED,
    WITH_MEMORY,
    assert_states_equal,
    batch,
    build,
    by_hand,
)

LINEAR_CELLS = [name for name in LAYERS if not name.startswith("RKM ") and name != "RKM"]
GATES = {
    "LSTM": ("candidate", "input", "forget", "output"),
    "RKM-LSTM": ("candidate", "input", "forget", "output"),
    "RKM-CIFG": ("candidate", "forget", "output"), "Linear Kernel w/ o_t": ("candidate", "output"),
    "Linear Kernel": ("candidate",), "Gated CNN": ("candidate", "output"), "CNN": ("candidate",),
    "RAN": ("candidate", "input", "forget"), "RKM": ("candidate",),
}  # fmt: skip
WITHOUT_FEEDBACK = {"Gated CNN": (), "CNN": (), "RAN": ("input", "forget")}


@pytest.mark.parametrize("name", LINEAR_CELLS)
@looped("options", [
    {}, {"bias": False}, {"filter_length": 3, "dilation": 2},
    {"filter_length": MIXED, "forget_bias": 1.0}, {"layer_norm": True},
    {"filter_length": MIXED, "dilation": 2, "layer_norm": True, "bidirectional": True},
])  # fmt: skip
def test_the_output_matches_the_equations_with_the_inspected_parameters(name: str, options: dict):
    layer, x = build(name, **options), batch()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)  # norms and learned gates too
    output, state = layer(x)
    for b in range(x.shape[1]):
        for direction in range(layer.num_directions):
            expected, h, c = by_hand(layer, x[:, b], reverse=bool(direction))
            units = slice(direction * HIDDEN, (direction + 1) * HIDDEN)
            torch.testing.assert_close(output[:, b, units], expected)
            if hasattr(state, "h"):
                torch.testing.assert_close(state.h[direction, b], h)
                torch.testing.assert_close(state.c[direction, b], c)


@pytest.mark.parametrize("name", LINEAR_CELLS)
def test_the_second_layer_uses_both_directions_of_the_first(name: str):
    layer, x = build(name, num_layers=2, bidirectional=True), batch()
    between = torch.stack(
        [
            torch.cat([by_hand(layer, x[:, b], 0, reverse)[0] for reverse in (False, True)], dim=1)
            for b in range(x.shape[1])
        ],
        dim=1,
    )
    output, _ = layer(x)
    for reverse in (False, True):
        expected, _, _ = by_hand(layer, between[:, 0], 1, reverse)
        units = slice(reverse * HIDDEN, (1 + reverse) * HIDDEN)
        torch.testing.assert_close(output[:, 0, units], expected)


@pytest.mark.parametrize("name", GATES)
def test_inspection_names_the_gates_that_the_cell_has(name: str):
    layer = build(name, filter_length=MIXED)
    assert {k: v.shape for k, v in layer.filters().items()} == dict.fromkeys(
        GATES[name], (HIDDEN, INPUT, 3)
    )
    seen = WITHOUT_FEEDBACK.get(name, GATES[name])
    assert {k: v.shape for k, v in layer.recurrent().items()} == dict.fromkeys(
        seen, (HIDDEN, HIDDEN)
    )
    biased = GATES[name] if name == "LSTM" else GATES[name][1:]
    assert {k: v.shape for k, v in layer.biases().items()} == dict.fromkeys(biased, (HIDDEN,))
    shown = (layer.filters(), layer.recurrent(), layer.biases())
    assert not any(tensor.requires_grad for tensors in shown for tensor in tensors.values())


@EVERY_LAYER
def test_a_layer_without_biases_returns_none(name: str):
    options = {} if name.startswith("RKM ") or name == "RKM" else {"bias": False}
    assert build(name, **options).biases() == {}


def test_inspection_of_a_missing_layer_or_direction_is_an_error():
    layer = build("RKM-LSTM", num_layers=2)
    for inspect in (layer.filters, layer.recurrent, layer.biases, layer.cell_norm):
        with pytest.raises(ArgumentError, match="layer is 2; expected 0 to 1"):
            inspect(2)
        with pytest.raises(ArgumentError, match=r"reverse is True; .* not bidirectional"):
            inspect(0, reverse=True)


@pytest.mark.parametrize("name", LINEAR_CELLS)
def test_a_callable_or_module_as_output_matches_the_function_of_that_name(name: str):
    named = build(name, output_nonlinearity="tanh", layer_norm=True, filter_length=2)
    x = batch()
    expected, expected_state = named(x)
    for function in (torch.tanh, torch.nn.Tanh(), lambda z: 1 - 2 / (torch.exp(2 * z) + 1)):
        other = build(name, output_nonlinearity=function, layer_norm=True, filter_length=2)
        other.load_state_dict(named.state_dict())
        output, state = other(x)
        torch.testing.assert_close(output, expected)
        assert_states_equal(state, expected_state)
        for layer in (named, other):
            layer.zero_grad()
            layer(x)[0].square().sum().backward()
        for ours, theirs in zip(other.parameters(), named.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if place % 6 else [])
        for place, name in enumerate(LAYERS)
    ],
)
def test_compiles_to_one_graph_forward_and_backward(name: str):
    torch._dynamo.reset()
    layer, x = build(name, filter_length=2), batch()
    state = layer(x)[1].detach()

    def loss(x: Tensor) -> Tensor:
        output, new_state = layer(x, state)
        return output.square().sum() + sum(w.sum() for w in new_state.window)

    found = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        layer.zero_grad()
        leaf = x.clone().requires_grad_()
        value = function(leaf)
        value.backward()
        found.append([value, leaf.grad, *(p.grad for p in layer.parameters())])
    torch.testing.assert_close(*found)


@EVERY_LAYER
def test_gradients_match_numerical_gradients(name: str):
    layer = build(name, filter_length=2)
    x = batch(3, 2).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, *_: layer(x)[0], (x, *layer.parameters()), fast_mode=True
    )


@WITH_MEMORY
def test_gradients_reach_the_initial_state_and_the_window(name: str):
    layer, x = build(name, filter_length=3), batch()
    state = layer(x)[1].detach()
    leaves = [state.h.requires_grad_(), state.c.requires_grad_(), state.window[0].requires_grad_()]
    layer(x, state)[0].sum().backward()
    without_cell = ("RKM", "RKM inverse, no feedback", "RKM linear, no feedback")  # memory is h
    without_h = ("Linear Kernel, no feedback",)
    used = [name not in without_h, name not in without_cell, True]
    for leaf, is_used in zip(leaves, used, strict=True):
        assert (leaf.grad is not None and bool(leaf.grad.abs().sum() > 0)) == is_used


# The memory cell of a recurrent kernel machine has unit variance over random inputs.


INITIAL_INPUT, UNITS, BATCH = 16, 120, 30

CELLS: dict[str, tuple[type[RecurrentKernelMachine], dict[str, Any]]] = {
    "RKM-LSTM": (nn.RKMLSTM, {}), "RKM-LSTM, forget bias": (nn.RKMLSTM, {"forget_bias": 1.0}),
    "RKM-CIFG": (nn.RKMCIFG, {}), "RKM-CIFG without biases": (nn.RKMCIFG, {"bias": False}),
    "RKM-CIFG of two lengths": (nn.RKMCIFG, {"filter_length": {1: 40, 3: 80}}), "RAN": (nn.RAN, {}),
    "linear kernel": (nn.LinearKernelRNN, {}),
    "linear kernel without feedback": (nn.LinearKernelRNN, {"feedback": False}),
    "linear kernel, other gates": (nn.LinearKernelRNN, {"static_gates": (1.0, 0.9)}),
    "linear kernel, learned gates": (nn.LinearKernelRNN, {"learn_static_gates": True}),
}  # fmt: skip


@pytest.mark.parametrize("length", [50, 400])
@pytest.mark.parametrize("name", CELLS)
def test_the_memory_cell_has_unit_variance(name: str, length: int):
    """The cell is bounded for long sequences, too.

    The feedback of h is correlated over time, for which the derivation does not account, and adds
    or takes up to a fifth.
    """
    torch.manual_seed(2)
    kind, options = CELLS[name]
    layer = kind(INITIAL_INPUT, UNITS, dtype=torch.float64, **options)
    with torch.no_grad():
        _, state = layer(torch.randn(length, BATCH, INITIAL_INPUT, dtype=torch.float64))
    assert abs(float(state.c.square().mean()) - 1) < 0.2


def test_a_cell_without_memory_has_unit_variance():
    layer = nn.CNN(INITIAL_INPUT, UNITS, filter_length=3, output_nonlinearity="identity").double()
    with torch.no_grad():
        h, _ = layer(torch.randn(50, BATCH, INITIAL_INPUT, dtype=torch.float64))
    assert abs(float(h[2:].square().mean()) - 1) < 0.05  # the input's own mean square varies


@pytest.mark.parametrize("static", [(0.5, 0.5), (1.0, 0.9), (0.2, 0.0)])
def test_a_static_memory_is_spread_by_feedback_and_stable_for_any_gate(static):
    """σ_f² + σ_i² d is spread over (0, 1), so that no value of the output gate lets c grow."""
    layer = nn.LinearKernelRNN(3, 40, static_gates=static)
    d = layer.recurrent()["candidate"].diagonal()
    factors = static[1] + static[0] * d
    # the random part of the feedback adds to the diagonal
    noise = 3**0.5 * 0.5 * static[0] * min(1.0, (1 - static[1]) / static[0]) / 40**0.5
    even = (torch.arange(40) + 0.5) / 40
    torch.testing.assert_close(factors.sort().values, even, rtol=0, atol=noise)


def test_the_initialization_of_the_paper_is_that_of_torch():
    torch.manual_seed(5)
    layer = nn.RKMLSTM(3, 50, initialization="paper")
    for parameter in layer.parameters():
        assert 0.95 / 50**0.5 < parameter.abs().max() <= 1 / 50**0.5


def test_gates_that_take_nothing_leave_finite_weights():
    layer = nn.LinearKernelRNN(3, 4, static_gates=(0.0, 1.0))
    assert all(parameter.isfinite().all() for parameter in layer.parameters())


# Static gates: one number for the input, one per unit for the memory.


def test_learned_gates_start_from_the_pair_and_have_one_input_gate_for_all_units():
    gates = StaticGates((0.25, 0.75), 3, learned=True, dtype=torch.float64)
    gates.reset_parameters()
    like = torch.zeros(1)
    torch.testing.assert_close(
        gates(like), torch.tensor([[0.25] * 3, [0.75] * 3], dtype=torch.float64)
    )
    assert {name: p.shape for name, p in gates.named_parameters()} == {
        "input_logit": (1,),
        "forget_logit": (3,),
    }


def test_static_gates_returns_the_values_or_none_where_gates_are_dynamic():
    assert build("RKM-LSTM").static_gates() is None
    shown = build("Linear Kernel", static_gates=(0.1, 0.9)).static_gates()
    assert shown is not None
    torch.testing.assert_close(shown[:, 0], torch.tensor([0.1, 0.9], dtype=torch.float64))
    for name in ("CNN", "Gated CNN"):
        shown = build(name).static_gates()
        assert shown is not None
        assert (shown[0] == 1).all()


@pytest.mark.parametrize("name", ["Linear Kernel", "Gated CNN", "CNN"])
def test_fixed_gates_do_not_depend_on_memory_that_another_library_leaves_empty(name):
    """Transformers replaces buffers that are not in the state dict by empty ones."""
    layer = build(name)
    assert {name for name, _ in layer.named_buffers()} <= set(layer.state_dict())


@pytest.mark.parametrize("values", [
    0.5, (0.5,), (0.5, 0.5, 0.5), (-1, 0.5), (0.5, float("nan")), (float("inf"), 1), ("a", 1),
    None,
])  # fmt: skip
def test_gates_must_be_two_finite_non_negative_numbers(values: Any):
    message = r"static_gates is .*; expected two finite, non-negative numbers"
    with pytest.raises(ArgumentError, match=message):
        StaticGates(values, 3)


@pytest.mark.parametrize("values", [(0.0, 0.5), (0.5, 1.0), (2.0, 0.5)])
def test_initial_values_of_learned_gates_must_be_between_0_and_1(values: tuple[float, float]):
    StaticGates(values, 3)
    with pytest.raises(ArgumentError, match=r"numbers in \(0, 1\), since they are learned"):
        StaticGates(values, 3, learned=True)
