"""The fast path of ``step()`` matches the general one, which handles all other calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from looped import looped
from representer import nn, ops
from representer.nn.recurrent.machine import streaming_step as module
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine
from representer.nn.recurrent.machine.streaming_step import streaming_step
from representer.ops import core

from ..layers import HIDDEN, INPUT, WITH_MEMORY, assert_states_equal, batch, build

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
Step = tuple[Tensor, nn.RecurrentState]


def general(layer: RecurrentKernelMachine, x_t: Tensor, state: Any) -> Step:
    """Run a step on the general path, by enabling gradients."""
    with torch.enable_grad():
        return layer.step(x_t, state)


def quick(layer: RecurrentKernelMachine, x_t: Tensor, state: Any) -> Step | None:
    with torch.no_grad():
        return streaming_step(layer, x_t, state)


def ready(name: str = "RKM-LSTM", size: int = 2, **options: Any):
    """Return a layer, an input and a state that the fast path supports."""
    layer, x = build(name, **options), batch(2, size)
    return layer, x[1], layer.step(x[0])[1].detach()


@pytest.mark.parametrize("name", QUICK)
@looped("options", OPTIONS)
@looped("size", [1, 3, 8])
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
        found = quick(layer, x, state)
        assert found is not None
        torch.testing.assert_close(found[0], general(layer, x, state)[0])


@pytest.mark.parametrize("isa", core.USABLE)
@pytest.mark.parametrize("sizes", [(1, 1), (5, 17), (33, 70), (64, 64)])
def test_any_size_on_any_instruction_set(isa: str, sizes: tuple[int, int]):
    layer = nn.RKMLSTM(*sizes, layer_norm=True, dtype=torch.float64)
    x = torch.randn(3, sizes[0], dtype=torch.float64)
    state = layer.step(x)[1].detach()
    with core.instruction_set(isa):
        found = quick(layer, x, state)
    assert found is not None
    torch.testing.assert_close(found[0], general(layer, x, state)[0])


def test_streaming_uses_the_fast_path(monkeypatch: pytest.MonkeyPatch):
    layer, x, state = ready()
    taken: list[bool] = []
    monkeypatch.setattr(
        "representer.nn.recurrent.machine.kernel_machine.streaming_step",
        lambda *given: taken.append(True) or streaming_step(*given),
    )
    with torch.no_grad():
        output, _ = layer.step(x, state)
    assert taken
    torch.testing.assert_close(output, general(layer, x, state)[0])


def test_a_step_uses_the_current_weights_after_training_replacing_or_loading():
    layer, x, state = ready(forget_bias=1.0)
    other = build("RKM-LSTM")

    def is_up_to_date() -> None:
        found = quick(layer, x, state)
        assert found is not None
        torch.testing.assert_close(found[0], general(layer, x, state)[0])

    is_up_to_date()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(1.5)
    is_up_to_date()
    layer.load_state_dict(other.state_dict(), assign=True)
    is_up_to_date()
    layer.weight_ih_l0 = torch.nn.Parameter(torch.randn(4 * HIDDEN, 3).double())
    is_up_to_date()
    layer.forget_bias = 0.0
    is_up_to_date()
    layer.bias_l0 = None
    is_up_to_date()


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


INPUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "unbatched": lambda x: x[0],
    "of many sequences": lambda x: x.repeat(5, 1),
    "of another dtype": lambda x: x.float(),
    "in half precision": lambda x: x.half(),
    "elsewhere": lambda x: x.to("meta"),
    "of other features": lambda x: x[:, :2],
    "of a subclass": lambda x: torch.nn.Parameter(x),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_an_unsupported_input_uses_the_general_path(kind: str):
    layer, x, state = ready()
    assert quick(layer, INPUTS[kind](x), state) is None


def test_gradients_autocast_other_backends_and_transforms_use_the_general_path():
    layer, x, state = ready()
    assert streaming_step(layer, x, state) is None  # gradients are on
    with torch.autocast("cpu", torch.bfloat16):
        assert quick(layer, x, state) is None
    with ops.use_backend("reference"):
        assert quick(layer, x, state) is None
    seen: list[Any] = []
    torch.func.vmap(lambda x_t: seen.append(quick(layer, x_t, state)) or x_t)(x.expand(2, 2, INPUT))
    assert seen == [None]


def test_a_hook_on_the_layer_is_called_by_every_step():
    layer, x, state = ready()
    calls: list[int] = []
    layer.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        layer.step(x, state)
    assert calls == [1]


@WITH_MEMORY
def test_dropout_between_layers_is_applied(name: str):
    layer, x, state = ready(name, num_layers=2, dropout=1.0, variational_dropout=1.0)
    with torch.no_grad():
        output, _ = layer.step(x, state)
        torch.testing.assert_close(output, layer.step(torch.zeros_like(x), state)[0])


def test_a_strided_input_is_supported():
    layer, x, state = ready()
    strided = torch.stack((x, x + 1), dim=-1)[..., 0]
    found = quick(layer, strided, state)
    assert found is not None
    torch.testing.assert_close(found[0], general(layer, x, state)[0])


def test_plans_are_freed_with_their_layers():
    layer, x, state = ready()
    quick(layer, x, state)
    assert layer in module._STEPS
    count = len(module._STEPS)
    del layer
    import gc

    gc.collect()
    assert len(module._STEPS) < count


def test_the_hidden_size_of_the_state_is_that_of_the_layer():
    layer, x, state = ready()
    wrong = state._replace(h=state.h[..., :2].contiguous(), c=state.c[..., :2].contiguous())
    with torch.no_grad(), pytest.raises(ValueError, match=r"\(1, 2, 2\); expected \(1, 2, 4\)"):
        layer.step(x, wrong)
    assert layer.step(x, state)[0].shape == (2, HIDDEN)
