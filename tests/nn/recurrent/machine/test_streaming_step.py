"""The fast path of ``step()`` matches the general one, which handles all other calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from looped import looped
from representer import nn
from representer.ops import core

from ..fast_steps import assert_fast, general, quick, ready
from ..layers import HIDDEN, assert_states_equal, batch, build

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
QUICK = [  # cells whose plain filters the core multiplies
    "LSTM", "RKM-LSTM", "RKM-CIFG", "Linear Kernel w/ o_t", "Linear Kernel", "RAN", "RKM",
    "RKM inverse, no feedback", "RKM linear, no feedback", "Linear Kernel, no feedback",
    "Linear Kernel, learned gates",
]  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {}, "deep": {"num_layers": 3}, "norm": {"layer_norm": True},
    "deep and norm": {"num_layers": 2, "layer_norm": True},
}  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
@looped("options", OPTIONS)
@looped("size", [1, 3, 8, 32])
def test_a_streaming_step_matches_the_general_path(name: str, options: str, size: int):
    layer, x, state = ready(name, size, **OPTIONS[options])
    for dtype in (torch.float64, torch.float32):
        layer, x = layer.to(dtype), x.to(dtype)
        state = nn.RecurrentState(state.h.to(dtype), state.c.to(dtype))
        found, expected = quick(layer, x, state), general(layer, x, state)
        assert found is not None
        torch.testing.assert_close(found[0], expected[0])
        assert_states_equal(found[1], expected[1])
        assert found[0].data_ptr() != found[1].h.data_ptr()


@pytest.mark.parametrize("name", ["LSTM", "RKM-CIFG", "RAN"])
def test_biases_of_all_some_and_no_gates_are_added(name: str):
    for options in ({"bias": False}, {"forget_bias": 2.0}, {"bias": False, "forget_bias": 2.0}):
        layer, x, state = ready(name, **options)
        assert_fast(layer, x, state)


@pytest.mark.parametrize(("name", "options"), [
    ("RKM-LSTM", {"filter_length": 2}), ("RKM-LSTM", {"filter_length": {1: 2, 2: 2}}),
    ("RKM-LSTM", {"zoneout": 0.1}), ("RKM-LSTM", {"output_nonlinearity": torch.sin}),
    ("RKM gaussian", {}), ("CNN", {}),
])  # fmt: skip
def test_an_unsupported_layer_uses_the_general_path(name: str, options: dict[str, Any]):
    layer, x = build(name, **options), batch(1)[0]
    state = layer.step(x)[1]
    assert quick(layer, x, state) is None


def test_the_hidden_size_of_the_state_is_that_of_the_layer():
    layer, x, state = ready()
    wrong = state._replace(h=state.h[..., :2].contiguous(), c=state.c[..., :2].contiguous())
    with torch.no_grad(), pytest.raises(ValueError, match=r"\(1, 2, 2\); expected \(1, 2, 4\)"):
        layer.step(x, wrong)
    assert layer.step(x, state)[0].shape == (2, HIDDEN)
