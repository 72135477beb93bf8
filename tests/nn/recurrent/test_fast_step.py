"""Common properties of the fast paths of ``step()`` of all layers."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from looped import looped
from representer import ops
from representer.nn.recurrent import sequence_layer
from representer.nn.recurrent.core_steps import fast_step
from representer.nn.recurrent.machine import streaming_step
from representer.nn.recurrent.string import streaming_step as string_step
from representer.ops import core

from .fast_steps import assert_fast, general, quick, ready, ready_string
from .layers import WITH_MEMORY

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
EVERY_KIND = pytest.mark.parametrize("make", [ready, ready_string])
MODULES = {ready: streaming_step, ready_string: string_step}


@EVERY_KIND
def test_streaming_uses_the_fast_path(make: Any, monkeypatch: pytest.MonkeyPatch):
    layer, x, state = make()
    taken: list[bool] = []
    monkeypatch.setattr(
        sequence_layer, "fast_step", lambda *given: taken.append(True) or fast_step(*given)
    )
    with torch.no_grad():
        output, _ = layer.step(x, state)
    assert taken
    torch.testing.assert_close(output, general(layer, x, state)[0])


@pytest.mark.parametrize(
    ("make", "name"),
    [(ready, "RKM-LSTM"), *((ready_string, n) for n in ("state gate", "learned", "multiply"))],
)
def test_a_step_uses_the_current_weights_after_training_replacing_or_loading(make: Any, name: str):
    options = {"forget_bias": 1.0} if make is ready else {}
    layer, x, state = make(name, **options)
    other, *_ = make(name)
    assert_fast(layer, x, state)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(1.5)
    assert_fast(layer, x, state)
    layer.load_state_dict(other.state_dict(), assign=True)
    assert_fast(layer, x, state)
    layer.weight_ih_l0 = torch.nn.Parameter(torch.randn_like(layer.weight_ih_l0))
    assert_fast(layer, x, state)
    layer.bias_l0 = None
    assert_fast(layer, x, state)


INPUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "unbatched": lambda x: x[0],
    "of many sequences": lambda x: x.repeat(17, 1),
    "of another dtype": lambda x: x.float(),
    "in half precision": lambda x: x.half(),
    "elsewhere": lambda x: x.to("meta"),
    "of other features": lambda x: x[:, :2],
    "of a subclass": lambda x: torch.nn.Parameter(x),
}


@EVERY_KIND
@looped("kind", INPUTS)
def test_an_unsupported_input_uses_the_general_path(make: Any, kind: str):
    layer, x, state = make()
    assert quick(layer, INPUTS[kind](x), state) is None


@EVERY_KIND
def test_gradients_autocast_other_backends_and_transforms_use_the_general_path(make: Any):
    layer, x, state = make()
    assert fast_step(layer, x, state) is None  # gradients are on
    with torch.autocast("cpu", torch.bfloat16):
        assert quick(layer, x, state) is None
    with ops.use_backend("reference"):
        assert quick(layer, x, state) is None
    seen: list[Any] = []
    torch.func.vmap(lambda x_t: seen.append(quick(layer, x_t, state)) or x_t)(x.expand(2, *x.shape))
    assert seen == [None]


@EVERY_KIND
def test_a_hook_on_the_layer_is_called_by_every_step(make: Any):
    layer, x, state = make()
    calls: list[int] = []
    layer.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        layer.step(x, state)
    assert calls == [1]


def _assert_all_is_dropped(layer: Any, x: Tensor, state: Any) -> None:
    with torch.no_grad():
        output, _ = layer.step(x, state)
        torch.testing.assert_close(output, layer.step(torch.zeros_like(x), state)[0])


@WITH_MEMORY
def test_dropout_between_layers_is_applied(name: str):
    _assert_all_is_dropped(*ready(name, num_layers=2, dropout=1.0, variational_dropout=1.0))


def test_dropout_between_string_kernel_layers_is_applied():
    _assert_all_is_dropped(*ready_string(num_layers=2, dropout=1.0, variational_dropout=1.0))


@pytest.mark.parametrize(("make", "name"), [(ready, "RKM-LSTM"), (ready_string, "highway")])
def test_a_strided_input_is_supported(make: Any, name: str):
    layer, x, state = make(name)
    found = assert_fast(layer, torch.stack((x, x + 1), dim=-1)[..., 0], state)
    torch.testing.assert_close(found[0], general(layer, x, state)[0])


@EVERY_KIND
def test_plans_are_freed_with_their_layers(make: Any):
    layer, x, state = make()
    quick(layer, x, state)
    plans = MODULES[make]._STEPS
    assert layer in plans
    count = len(plans)
    del layer
    gc.collect()
    assert len(plans) < count
