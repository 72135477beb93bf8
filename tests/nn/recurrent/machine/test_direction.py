"""One direction of a layer: its recurrences, weight drop, zoneout, biases, initialization."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from looped import looped
from ops.samples.rkm_scan import CELLS, tensors
from representer import functional
from representer.functional import rkm
from representer.functional.rkm import Cell
from representer.nn.recurrent.filters import FilterBank
from representer.nn.recurrent.machine import CellDirection, RecurrentKernelMachine

from ..layers import HIDDEN, WITH_MEMORY, batch, build

SIZES = 5, 3, 4  # T, B, H
SHORTCUTS = {
    "linear kernel without feedback": replace(rkm.LINEAR_KERNEL, feedback="none"),
    "its identity": replace(rkm.LINEAR_KERNEL, feedback="none", output="identity"),
    "linear kernel machine": Cell(
        "static", "static", False, output="linear", feedback="none", memory="output"
    ),
}
EVERY_CELL = {**CELLS, **SHORTCUTS}


def _direction(cell: Cell, options: str, psi: Any) -> tuple[CellDirection, dict[str, Any]]:
    """Return a direction, and the operands of its equations."""
    operands = {"weight": None, "static": None, "norm": None, "lengths": None}
    operands |= tensors(cell, SIZES, f"input {options}", torch.float64)
    for name in ("z", "weight", "h0", "c0", "static", "norm", "input_weight", "bias"):
        if operands[name] is not None:
            operands[name].requires_grad_()
    zoneout = (0.3, 0.2) if "zoneout" in options and cell.has_memory else (0.0, 0.0)
    filters = operands["input_weight"].flatten(0, 1)
    weights = (operands[name] for name in ("weight", "bias", "norm", "static"))
    bank = FilterBank("dense", {1: SIZES[2]})
    direction = CellDirection(cell, bank, (filters,), None, *weights, psi, zoneout, False, False)
    return direction, operands


@pytest.mark.parametrize("cell", EVERY_CELL.values(), ids=EVERY_CELL)
@looped("options", ["", "lengths", "norm zoneout lengths"])
@looped("reverse", [False, True])
@looped("psi", [None, torch.sin])
def test_every_recurrence_matches_the_equations_in_values_and_gradients(
    cell: Cell, options: str, reverse: bool, psi: Any
):
    direction, o = _direction(cell, options, psi)
    state = (o["h0"], o["c0"]) if cell.has_memory else ()
    x, weight, bias = o["z"], o.pop("input_weight"), o.pop("bias")
    output, after, _ = direction(x, state, x.new_zeros(3, 0, 2), o["lengths"], reverse)
    z = torch.einsum("tbi,ghi->tbgh", x, weight) + bias
    hold = None
    if any(direction.zoneout):
        hold = x.new_tensor(direction.zoneout)[:, None, None, None].expand(2, *SIZES)
    equations = {**o, "z": z, "hold": hold, "cell": cell, "reverse": reverse, "psi": psi}
    expected = functional.rkm_scan(**equations)[: 1 + len(after)]
    torch.testing.assert_close((output, *after), expected)
    marked = [v for v in (*o.values(), weight, bias) if v is not None and v.requires_grad]
    torch.testing.assert_close(_gradients((output, *after), marked), _gradients(expected, marked))


def _gradients(results: tuple[Tensor, ...], marked: list[Tensor]) -> tuple[Tensor, ...]:
    loss = [result.square().sum() for result in results]
    return torch.autograd.grad(loss, marked, materialize_grads=True)


@pytest.mark.parametrize("cell", SHORTCUTS.values(), ids=SHORTCUTS)
def test_a_linear_cell_without_feedback_runs_as_an_elementwise_scan(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
):
    direction, o = _direction(cell, "lengths", None)
    monkeypatch.setattr("representer.nn.recurrent.machine.rkm_scan", None)
    window = o["z"].new_zeros(3, 0, 2)
    output, *_ = direction(o["z"], (o["h0"], o["c0"]), window, o["lengths"], True)
    assert output.shape == SIZES


def _recurrent_of(layer: RecurrentKernelMachine) -> Tensor:
    weight = layer.weight_hh_l0
    assert isinstance(weight, Tensor)
    return weight


def _twin(layer: RecurrentKernelMachine, name: str, **options) -> RecurrentKernelMachine:
    twin = build(name, **options)
    twin.load_state_dict(layer.state_dict())
    return twin


@pytest.mark.parametrize("name", ["LSTM", "RKM-CIFG", "RAN", "RKM"])
def test_weight_drop_affects_recurrent_matrices_only_in_training(name: str):
    layer, x = build(name, weight_drop=1.0), batch()
    plain = _twin(layer, name)
    cut = _twin(layer, name)
    torch.nn.init.zeros_(_recurrent_of(cut))
    torch.testing.assert_close(layer(x)[0], cut(x)[0])
    layer.eval()
    torch.testing.assert_close(layer(x)[0], plain(x)[0])


def test_weight_drop_rescales_and_uses_one_mask_per_sequence():
    layer, x = build("RKM-LSTM", weight_drop=0.5), batch()
    torch.manual_seed(3)
    output, _ = layer(x)
    torch.manual_seed(3)
    mask = torch.nn.functional.dropout(torch.ones_like(_recurrent_of(layer)), 0.5)
    assert sorted(mask.unique().tolist()) == [0.0, 2.0]
    masked = _twin(layer, "RKM-LSTM")
    with torch.no_grad():
        _recurrent_of(masked).mul_(mask)
    torch.testing.assert_close(output, masked(x)[0])
    assert not torch.allclose(layer(x)[0], output)  # another mask in the next call


def test_dropped_weights_get_no_gradient_and_the_parameter_is_not_changed():
    layer = build("RKM-LSTM", weight_drop=0.5)
    before = _recurrent_of(layer).detach().clone()
    layer(batch())[0].sum().backward()
    gradient = _recurrent_of(layer).grad
    assert gradient is not None
    assert 0 < (gradient == 0).float().mean() < 1
    assert torch.equal(_recurrent_of(layer), before)


@WITH_MEMORY
def test_zoneout_of_1_keeps_the_initial_state(name: str):
    layer, x = build(name, zoneout=1.0), batch()
    h, c = (torch.randn(1, 3, HIDDEN, dtype=torch.float64) for _ in range(2))
    output, state = layer(x, (h, c))
    torch.testing.assert_close(output, h.expand_as(output))
    torch.testing.assert_close(state.h, h)
    torch.testing.assert_close(state.c, c)


@pytest.mark.parametrize("pair", [(0.5, 0.0), (0.0, 0.5)])
def test_zoneout_in_training_keeps_single_units_of_cell_or_output(pair: tuple[float, float]):
    layer = build("RKM-LSTM", zoneout=pair)
    x, h, c = batch(1, 200), *(torch.full((1, 200, HIDDEN), 9.0, dtype=torch.float64),) * 2
    _, state = layer(x, (h, c))
    kept_c, kept_h = (float((field == 9.0).double().mean()) for field in (state.c, state.h))
    assert (0.4 < kept_c < 0.6) if pair[0] else kept_c == 0
    assert (0.4 < kept_h < 0.6) if pair[1] else kept_h == 0


def test_zoneout_masks_differ_between_steps_and_seeds():
    layer, x = build("RKM-LSTM", zoneout=0.5), batch()
    torch.manual_seed(1)
    first = layer(x)[0]
    torch.manual_seed(1)
    assert torch.equal(layer(x)[0], first)
    assert not torch.equal(layer(x)[0], first)
    held = (first[1:] == first[:-1]).flatten(1)  # units that kept their output, by step
    assert held.any()
    assert len(held.unique(dim=0)) > 1


@WITH_MEMORY
def test_zoneout_in_evaluation_mixes_old_and_new_by_its_probability(name: str):
    """One step: the expectation over the masks of training (Krueger et al. 2017)."""
    layer, x = build(name, zoneout=(0.3, 0.2)).eval(), batch(1)
    h, c = (torch.randn(1, 3, HIDDEN, dtype=torch.float64) * 0.3 for _ in range(2))
    _, fresh = _twin(layer, name)(x, (h, c))
    _, mixed = layer(x, (h, c))
    torch.testing.assert_close(mixed.c, 0.7 * fresh.c + 0.3 * c)
    torch.testing.assert_close(mixed.h, 0.8 * fresh.h + 0.2 * h)


def test_zoneout_in_evaluation_is_deterministic():
    layer = build("RKM-LSTM", zoneout=0.5, weight_drop=0.5, variational_dropout=0.5).eval()
    x = batch()
    assert torch.equal(layer(x)[0], layer(x)[0])


@WITH_MEMORY
@looped("options", [{}, {"filter_length": 2, "layer_norm": True, "zoneout": 0.3}])
def test_recomputing_the_gates_does_not_change_gradients(name: str, options: dict):
    torch.manual_seed(0)
    kept = build(name, **options)
    again = build(name, recompute_gates=True, **options)
    again.load_state_dict(kept.state_dict())
    x, found = batch(), []
    for layer in (kept, again):
        torch.manual_seed(5)
        output, state = layer(x)
        loss = output.square().sum() + state.c.sum()
        found.append((output, torch.autograd.grad(loss, list(layer.parameters()))))
    torch.testing.assert_close(found[0], found[1])


def test_a_forget_bias_without_biases_changes_nothing():
    layer, x = build("RKM-LSTM", bias=False, forget_bias=5.0), batch()
    torch.testing.assert_close(layer(x)[0], _twin(layer, "RKM-LSTM", bias=False)(x)[0])
    assert layer.biases() == {}


def test_biases_are_initialized_like_weights_plus_the_forget_bias():
    layer = build("LSTM", forget_bias=3.0)
    for gate, bias in layer.biases().items():
        assert ((bias - 3.0 * (gate == "forget")).abs() <= HIDDEN**-0.5).all()
        assert bias.unique().numel() == HIDDEN
