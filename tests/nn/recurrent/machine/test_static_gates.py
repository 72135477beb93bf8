"""Static gates: one number for the input, one per unit for the memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from representer.errors import ArgumentError
from representer.nn.recurrent.machine import StaticGates

from ..layers import build


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
