"""Properties of all cells: equations, inspection, options, and tools."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from looped import looped
from representer.errors import ArgumentError

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


@pytest.mark.parametrize("name", ["LSTM", "RKM-LSTM", "RKM-CIFG", "RAN"])
def test_the_forget_bias_is_included_in_the_effective_bias(name: str):
    torch.manual_seed(1)
    plain = build(name)
    torch.manual_seed(1)
    biased = build(name, forget_bias=2.0)
    for gate, bias in plain.biases().items():
        torch.testing.assert_close(biased.biases()[gate], bias + 2.0 * (gate == "forget"))
    x = batch()
    assert not torch.allclose(plain(x)[0], biased(x)[0])


def test_inspection_of_a_missing_layer_or_direction_is_an_error():
    layer = build("RKM-LSTM", num_layers=2)
    for inspect in (layer.filters, layer.recurrent, layer.biases, layer.cell_norm):
        with pytest.raises(ArgumentError, match="layer is 2; expected 0 to 1"):
            inspect(2)
        with pytest.raises(ArgumentError, match=r"reverse is True; .* not bidirectional"):
            inspect(0, reverse=True)


@WITH_MEMORY
def test_the_normalized_cell_is_the_one_in_the_state(name: str):
    layer = build(name, layer_norm=True)
    norm = layer.cell_norm()
    assert isinstance(norm, torch.nn.LayerNorm)
    assert norm.eps == 1e-5
    cells = layer(batch())[1].c
    assert cells.mean(-1).abs().max() < 1e-9
    assert (cells.var(-1, correction=0) > 0.9).all()  # 1, minus the effect of eps on a small cell
    assert build(name).cell_norm() is None


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


def test_a_learned_output_module_is_trained_with_the_layer():
    layer = build("RKM-LSTM", output_nonlinearity=torch.nn.PReLU(dtype=torch.float64))
    layer(batch())[0].sum().backward()
    slope = next(p for name, p in layer.named_parameters() if "psi" in name)
    assert slope.grad is not None
    assert slope.grad.abs() > 0


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


def test_autocast_supports_an_output_function_without_a_name():
    layer = build(
        "RKM-LSTM", dtype=torch.float32, bias=False, zoneout=0.1, output_nonlinearity=torch.sin
    )
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(batch().float())[0].dtype == torch.float32


@EVERY_LAYER
def test_without_gradients_and_in_inference_mode_the_values_are_the_same(name: str):
    layer, x = build(name), batch()
    expected, _ = layer(x)
    with torch.no_grad():
        torch.testing.assert_close(layer(x)[0], expected)
    with torch.inference_mode():
        torch.testing.assert_close(layer(x)[0], expected)


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
