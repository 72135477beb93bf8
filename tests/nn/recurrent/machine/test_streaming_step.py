"""The fast path of ``step()`` matches the general one, which handles all other calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from looped import looped
from representer import nn
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine
from representer.ops import core

from ..fast_steps import assert_fast, general, quick, ready
from ..layers import HIDDEN, INPUT, assert_states_equal, batch, build

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
QUICK = [  # cells whose plain filters the core multiplies
    "LSTM", "RKM-LSTM", "RKM-CIFG", "Linear Kernel w/ o_t", "Linear Kernel", "RAN", "RKM",
    "RKM inverse, no feedback", "RKM linear, no feedback", "Linear Kernel, no feedback",
    "Linear Kernel, learned gates",
]  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "deep": {"num_layers": 3},
    "norm": {"layer_norm": True},
    "deep and norm": {"num_layers": 2, "layer_norm": True},
}


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


@pytest.mark.parametrize("isa", core.USABLE)
@pytest.mark.parametrize("sizes", [(1, 1), (5, 17), (33, 70), (64, 64)])
def test_any_size_on_any_instruction_set(isa: str, sizes: tuple[int, int]):
    layer = nn.RKMLSTM(*sizes, layer_norm=True, dtype=torch.float64)
    x = torch.randn(3, sizes[0], dtype=torch.float64)
    state = layer.step(x)[1].detach()
    with core.instruction_set(isa):
        assert_fast(layer, x, state)


CHANGES: dict[str, Callable[[RecurrentKernelMachine], Any]] = {
    "zoneout": lambda layer: setattr(layer, "zoneout", (0.5, 0.5)),
    "psi": lambda layer: setattr(layer, "psi", torch.sin),
    "weight drop": lambda layer: setattr(layer, "weight_drop", 0.5),
    "weights not contiguous": lambda layer: setattr(
        layer.weight_hh_l0, "data", layer.weight_hh_l0.data.T.contiguous().T
    ),
    "weights of another dtype": lambda layer: setattr(
        layer.weight_hh_l0, "data", layer.weight_hh_l0.data.float()
    ),
    "layer elsewhere": lambda layer: layer.to("meta"),
    "layer in another dtype": lambda layer: layer.float(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("used_before", [False, True])
def test_a_modified_layer_uses_the_general_path(change: str, used_before: bool):
    layer, x, state = ready()
    if used_before:
        assert quick(layer, x, state) is not None
    CHANGES[change](layer)
    assert quick(layer, x, state) is None


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("RKM-LSTM", {"filter_length": 2}),
        ("RKM-LSTM", {"filter_length": {1: 2, 2: 2}}),
        ("RKM-LSTM", {"zoneout": 0.1}),
        ("RKM-LSTM", {"output_nonlinearity": torch.sin}),
        ("RKM gaussian", {}),
        ("CNN", {}),
    ],
)
def test_an_unsupported_layer_uses_the_general_path(name: str, options: dict[str, Any]):
    layer, x = build(name, **options), batch(1)[0]
    state = layer.step(x)[1]
    assert quick(layer, x, state) is None


STATES: dict[str, Callable[[Any], Any]] = {
    "none": lambda s: None,
    "a plain tuple": tuple,
    "narrow": lambda s: s._replace(h=s.h[..., :2].contiguous(), c=s.c[..., :2].contiguous()),
    "wide": lambda s: s._replace(h=s.h.repeat(1, 1, 2), c=s.c.repeat(1, 1, 2)),
    "of another batch": lambda s: s._replace(h=s.h[:, :1].contiguous()),
    "of two layers": lambda s: s._replace(h=s.h.repeat(2, 1, 1), c=s.c.repeat(2, 1, 1)),
    "strided": lambda s: s._replace(c=s.c.transpose(1, 2).contiguous().transpose(1, 2)),
    "of another dtype": lambda s: s._replace(c=s.c.float()),
    "elsewhere": lambda s: s._replace(h=s.h.to("meta"), c=s.c.to("meta")),
    "a number": lambda s: s._replace(h=0.0),
    "with a window": lambda s: nn.WindowedRecurrentState(*s, (torch.zeros(2, 1, INPUT).double(),)),
}


@pytest.mark.parametrize("kind", STATES)
def test_an_unsupported_state_uses_the_general_path(kind: str):
    layer, x, state = ready()
    assert quick(layer, x, state) is not None
    assert quick(layer, x, STATES[kind](state)) is None


def test_the_hidden_size_of_the_state_is_that_of_the_layer():
    layer, x, state = ready()
    wrong = state._replace(h=state.h[..., :2].contiguous(), c=state.c[..., :2].contiguous())
    with torch.no_grad(), pytest.raises(ValueError, match=r"\(1, 2, 2\); expected \(1, 2, 4\)"):
        layer.step(x, wrong)
    assert layer.step(x, state)[0].shape == (2, HIDDEN)
