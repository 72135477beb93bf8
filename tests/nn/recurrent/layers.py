"""The layers for the tests, and their equations written out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from representer import nn
from representer.functional import NONLINEARITIES
from representer.nn.recurrent.machine import RecurrentKernelMachine

LAYERS: dict[str, Callable[..., RecurrentKernelMachine]] = {
    **nn.TABLE1,
    "RAN": nn.RAN,
    "RKM": nn.RKM,
    "RKM inverse, no feedback": partial(nn.RKM, q="inverse", feedback=False),
    "RKM linear, no feedback": partial(nn.RKM, q="linear", feedback=False),
    "RKM gaussian": partial(nn.RKM, q="gaussian"),
    "Linear Kernel, no feedback": partial(nn.LinearKernelRNN, output_gate=False, feedback=False),
    "Linear Kernel, learned gates": partial(nn.LinearKernelRNN, learn_static_gates=True),
}
EVERY_LAYER = pytest.mark.parametrize("name", LAYERS)
WITH_MEMORY = pytest.mark.parametrize("name", [n for n in LAYERS if "CNN" not in n])
TIME, BATCH, INPUT, HIDDEN = 6, 3, 3, 4
MIXED = {2: 1, 1: 2, 3: 1}  # filter lengths of the 4 units


def build(name: str, **options: Any) -> RecurrentKernelMachine:
    """Return a layer of a row of ``LAYERS`` in float64."""
    return LAYERS[name](INPUT, HIDDEN, **{"dtype": torch.float64, **options})


def batch(time: int = TIME, size: int = BATCH) -> Tensor:
    """Return random sequences ``(T, B, I)``, small enough for q with a pole."""
    return torch.randn(time, size, INPUT, dtype=torch.float64) * 0.5


def assert_states_equal(actual: Any, expected: Any) -> None:
    """Assert that two states agree in every field and window."""
    assert type(actual) is type(expected)
    torch.testing.assert_close(tuple(actual), tuple(expected))


def by_hand(
    layer: RecurrentKernelMachine, x: Tensor, index: int = 0, reverse: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one direction of one layer over one sequence ``(T, I)`` with the inspected parameters.

    Returns:
        The outputs ``(T, H)``, and the last output and cell.
    """
    filters, static = layer.filters(index, reverse), layer.static_gates(index, reverse)
    recurrent, biases = layer.recurrent(index, reverse), layer.biases(index, reverse)
    norm = layer.cell_norm(index, reverse)
    h = c = x.new_zeros(layer.hidden_size)
    emitted: dict[int, Tensor] = {}
    stride = layer.stride if index == 0 else 1
    steps = range(0, len(x), stride) if reverse else range(stride - 1, len(x), stride)
    for t in reversed(steps) if reverse else steps:
        a = {}
        for gate, gate_filters in filters.items():
            a[gate] = x.new_zeros(layer.hidden_size)
            for s in range(gate_filters.shape[-1]):
                seen = t + s * layer.dilation if reverse else t - s * layer.dilation
                if 0 <= seen < len(x):
                    a[gate] = a[gate] + gate_filters[:, :, s] @ x[seen]
            if gate in recurrent:
                a[gate] = a[gate] + recurrent[gate] @ h
            if gate in biases:
                a[gate] = a[gate] + biases[gate]
        c = _cell_by_hand(layer, {gate: a[gate].sigmoid() for gate in a}, a, static, c)
        if norm is not None:
            c = norm(c)
        h = _output_by_hand(layer, c)
        if "output" in a:
            h = a["output"].sigmoid() * h
        emitted[t] = h
    return torch.stack([emitted[t] for t in steps]), h, c


def _cell_by_hand(
    layer: RecurrentKernelMachine,
    gate: dict[str, Tensor],
    a: dict[str, Tensor],
    static: Tensor | None,
    c: Tensor,
) -> Tensor:
    match layer:
        case nn.NgramLSTM():
            return gate["input"] * a["candidate"].tanh() + gate["forget"] * c
        case nn.RKMLSTM() | nn.RAN():
            return gate["input"] * a["candidate"] + gate["forget"] * c
        case nn.RKMCIFG():
            return (1 - gate["forget"]) * a["candidate"] + gate["forget"] * c
        case nn.LinearKernelRNN():
            assert static is not None
            return static[0] * a["candidate"] + static[1] * c
        case nn.CNN() | nn.GatedCNN():
            return a["candidate"]
    cell, (write, kept) = layer.cell, (None, 0) if static is None else static  # by declaration
    kept = gate["forget"] if cell.forget_gate == "dynamic" else kept
    write = {"dynamic": gate.get("input"), "coupled": 1 - kept, "static": write}[cell.input_gate]
    return write * NONLINEARITIES[cell.candidate].value(a["candidate"]) + kept * c


def _output_by_hand(layer: RecurrentKernelMachine, c: Tensor) -> Tensor:
    match layer:
        case nn.NgramLSTM() | nn.CNN():
            return c.tanh()
        case nn.LinearKernelRNN():
            return c if layer.output_gate else c.tanh()
        case nn.RKMLSTM() | nn.RAN() | nn.RKMCIFG() | nn.GatedCNN():
            return c
    return NONLINEARITIES[layer.cell.output].value(c)
