"""The fast path of a string-kernel ``step()`` matches the general one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from looped import looped
from representer import nn
from representer.ops import core

from ..fast_steps import assert_fast, general, quick, spoil
from ..fast_steps import ready_string as ready
from ..layers import assert_states_equal
from ..string_layers import EVERY_STRING_LAYER, INPUT

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)


def moved(state: Any, dtype: torch.dtype) -> Any:
    return type(state)(*(field.to(dtype) for field in state))


@EVERY_STRING_LAYER
@looped("layers", [1, 3])
@looped("size", [1, 3, 8, 32])
def test_a_streaming_step_matches_the_general_path(name: str, layers: int, size: int):
    layer, x, state = ready(name, size, num_layers=layers)
    for dtype in (torch.float64, torch.float32):
        layer, x, state = layer.to(dtype), x.to(dtype), moved(state, dtype)
        found, expected = quick(layer, x, state), general(layer, x, state)
        assert found is not None
        torch.testing.assert_close(found[0], expected[0])
        assert_states_equal(found[1], expected[1])
        assert all(part.is_contiguous() for part in found[1])
        assert found[0].data_ptr() != found[1].h.data_ptr()
        again = quick(layer, x, found[1])
        assert again is not None
        torch.testing.assert_close(again[0], general(layer, x, expected[1])[0])


@EVERY_STRING_LAYER
def test_gates_without_biases_are_supported(name: str):
    layer, x, state = ready(name, bias=False)
    assert_fast(layer, x, state)


def test_a_learned_decay_of_another_shape_uses_the_general_path():
    layer, x, state = ready("learned")
    spoil("decay_logit", lambda logit: logit[:1])(layer)
    assert quick(layer, x, state) is None


def test_a_highway_for_an_input_of_another_width_uses_the_general_path():
    layer, x, state = ready("highway")
    of_five = torch.randn(len(layer.weight_ih_l0), 5, dtype=torch.float64)
    layer.weight_ih_l0 = torch.nn.Parameter(of_five)
    assert quick(layer, torch.cat((x, x[:, :1]), dim=1), state) is None


def test_a_state_with_masses_is_rejected_by_a_layer_without():
    layer, x, state = ready("multiply")
    assert quick(layer, x, nn.StringMassState(*state, state.c)) is None
    exact, x, state = ready("exact", order=2)
    assert quick(exact, x, nn.StringState(state.h, state.c)) is None


def test_a_string_kernel_state_is_rejected_by_other_cells():
    _, x, state = ready("multiply")
    cell = nn.RKMLSTM(INPUT, 4, dtype=torch.float64)
    assert quick(cell, x, state) is None  # type: ignore[arg-type]
