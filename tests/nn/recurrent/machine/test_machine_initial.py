"""The memory cell of a recurrent kernel machine has unit variance over random inputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from representer import nn
from representer.nn.recurrent.machine import RecurrentKernelMachine

INPUT, UNITS, BATCH = 16, 120, 30

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
    layer = kind(INPUT, UNITS, dtype=torch.float64, **options)
    with torch.no_grad():
        _, state = layer(torch.randn(length, BATCH, INPUT, dtype=torch.float64))
    assert abs(float(state.c.square().mean()) - 1) < 0.2


def test_a_cell_without_memory_has_unit_variance():
    layer = nn.CNN(INPUT, UNITS, filter_length=3, output_nonlinearity="identity").double()
    with torch.no_grad():
        h, _ = layer(torch.randn(50, BATCH, INPUT, dtype=torch.float64))
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
