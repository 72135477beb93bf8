"""One direction of a layer: its recurrences, weight drop, zoneout, biases, initialization."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from looped import looped
from ops.samples.rkm_scan import CELLS, tensors
from representer import functional, nn
from representer.functional import rkm
from representer.functional.rkm import Cell
from representer.nn.recurrent.filters import FilterBank
from representer.nn.recurrent.machine import (
    CellDirection,
    RecurrentKernelMachine,
)

from ..layers import (
    HIDDEN,
    LAYERS,
    MIXED,
    WITH_MEMORY,
    assert_states_equal,
    batch,
    build,
)

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
    direction = CellDirection(
        cell, bank, (filters,), None, *weights, psi, zoneout, False, False, None, filters
    )
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


@pytest.mark.parametrize("pair", [(0.5, 0.0), (0.0, 0.5)])
def test_zoneout_in_training_keeps_single_units_of_cell_or_output(pair: tuple[float, float]):
    layer = build("RKM-LSTM", zoneout=pair)
    x, h, c = batch(1, 200), *(torch.full((1, 200, HIDDEN), 9.0, dtype=torch.float64),) * 2
    _, state = layer(x, (h, c))
    kept_c, kept_h = (float((field == 9.0).double().mean()) for field in (state.c, state.h))
    assert (0.4 < kept_c < 0.6) if pair[0] else kept_c == 0
    assert (0.4 < kept_h < 0.6) if pair[1] else kept_h == 0


@WITH_MEMORY
def test_zoneout_in_evaluation_mixes_old_and_new_by_its_probability(name: str):
    """One step: the expectation over the masks of training (Krueger et al. 2017)."""
    layer, x = build(name, zoneout=(0.3, 0.2)).eval(), batch(1)
    h, c = (torch.randn(1, 3, HIDDEN, dtype=torch.float64) * 0.3 for _ in range(2))
    _, fresh = _twin(layer, name)(x, (h, c))
    _, mixed = layer(x, (h, c))
    torch.testing.assert_close(mixed.c, 0.7 * fresh.c + 0.3 * c)
    torch.testing.assert_close(mixed.h, 0.8 * fresh.h + 0.2 * h)


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


# The window of an n-gram layer: streaming in any split matches the whole sequence.


T, B, I, P = 5, 2, 3, 4  # noqa: E741
LENGTHS = torch.tensor([2, 5])
OPTIONS = {
    "1-gram": {}, "3-gram": {"filter_length": 3}, "dilated": {"filter_length": 3, "dilation": 2},
    "mixed": {"filter_length": MIXED, "dilation": 2},
    "norm": {"layer_norm": True, "filter_length": 2},
    "deep": {"num_layers": 3, "filter_length": 2, "dropout": 0.5, "variational_dropout": 0.5},
    "zoneout": {"zoneout": (0.3, 0.2), "filter_length": 2, "weight_drop": 0.5},
}  # fmt: skip


@settings(deadline=None, max_examples=13)
@given(
    name=st.sampled_from(list(LAYERS)), options=st.sampled_from(list(OPTIONS)),
    chunks=st.lists(st.integers(1, 4), min_size=1, max_size=5), batch_first=st.booleans(),
    seed=st.integers(0, 2**16),
)  # fmt: skip
def test_any_split_into_chunks_gives_the_output_of_the_whole_sequence(
    name: str, options: str, chunks: list[int], batch_first: bool, seed: int
):
    torch.manual_seed(seed)
    kept = {k: v for k, v in OPTIONS[options].items() if k != "zoneout" or "CNN" not in name}
    layer = build(name, batch_first=batch_first, **kept).eval()
    x = batch(sum(chunks))
    whole, final = layer(x.transpose(0, 1) if batch_first else x)
    assume(bool(whole.isfinite().all()))  # a Gaussian q that is fed back may grow without bound
    state, outputs = None, []
    for chunk in x.split(chunks):
        output, state = layer(chunk.transpose(0, 1) if batch_first else chunk, state)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, dim=int(batch_first)), whole)
    assert_states_equal(state, final)


@pytest.mark.parametrize("name", ["RKM-LSTM", "CNN"])
def test_the_window_contains_the_last_inputs_of_each_layer_oldest_first(name: str):
    layer, x = build(name, num_layers=2, filter_length=3, dilation=2), batch()
    _, state = layer(x)
    assert torch.equal(state.window[0], x[-4:].transpose(0, 1))
    between, _ = layer.part(0)(x)
    assert torch.equal(state.window[1], between[-4:].transpose(0, 1))


@pytest.mark.parametrize("name", ["CNN", "Gated CNN"])
def test_the_reverse_direction_uses_the_inputs_after_the_sequence(name: str):
    layer, x = build(name, bidirectional=True, filter_length=3), batch(8)
    whole, state = layer(x)
    before, behind = x[:2].transpose(0, 1), x[6:].flip(0).transpose(0, 1)
    middle, _ = layer(x[2:6], type(state)((before, behind)))
    torch.testing.assert_close(middle, whole[2:6])


def test_the_reverse_direction_uses_packed_windows_after_the_true_ends():
    layer, x = build("CNN", bidirectional=True, filter_length=3), batch(4)
    lengths, window = torch.tensor([4, 1, 2]), torch.randn(2, 3, 2, 3, dtype=torch.float64)
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    state = layer(x)[1]._replace(window=tuple(window))
    output, _ = pad_packed_sequence(layer(packed, state)[0])
    for b, length in enumerate(lengths.tolist()):
        own = state._replace(window=tuple(window[:, b]))
        torch.testing.assert_close(output[:length, b], layer(x[:length, b], own)[0])


# The warning about a state that diverges in training.


LINEAR = (nn.RKMLSTM, nn.RKMCIFG, nn.LinearKernelRNN)
BOUNDED: list[dict[str, Any]] = [{"output_nonlinearity": "tanh"}, {"layer_norm": True}]


def run(
    kind: Callable[..., RecurrentKernelMachine], scale: float = 50.0, **options: Any
) -> RecurrentKernelMachine:
    """Run a layer whose recurrent weights learning has made too large."""
    torch.manual_seed(0)
    layer = kind(4, 8, **options)
    with torch.no_grad():
        layer.weight_hh_l0.mul_(scale)  # type: ignore[operator]
    layer(torch.randn(200, 3, 4))
    return layer


@pytest.mark.parametrize("kind", LINEAR)
def test_a_linear_cell_that_diverges_warns_with_the_fix(kind: type[RecurrentKernelMachine]):
    with pytest.warns(UserWarning, match=f"state of {kind.__name__} .* layer_norm=True, clip"):
        run(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(kind, scale=0.5)
        for options in BOUNDED:
            run(kind, **options)


def test_only_training_on_finite_inputs_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer = nn.RKMCIFG(3, 4)
        layer(torch.full((9, 1, 3), float("nan")))
        large = torch.full((9, 1, 3), 3e38)
        with torch.no_grad():
            layer(large)
        layer.eval()(large)
        assert not layer(large)[0].isfinite().all()


def test_the_state_inside_vmap_is_not_read():
    layer, x = nn.RKMCIFG(3, 4), torch.randn(2, 9, 1, 3)
    torch.testing.assert_close(torch.vmap(lambda x: layer(x)[0])(x)[0], layer(x[0])[0])
