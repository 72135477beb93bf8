"""The fast path of ``step()`` matches the general one, which handles all other calls."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from looped import looped
from representer import nn, ops
from representer.nn.recurrent import machine, sequence_layer, string
from representer.nn.recurrent.core_calls import core_call
from representer.ops import core

from .fast_steps import QUICK, assert_fast, general, quick, ready, ready_string, spoil, strided
from .layers import INPUT, WITH_MEMORY, assert_states_equal, batch, build
from .string_layers import STRING_LAYERS

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
EVERY_KIND = pytest.mark.parametrize("make", [ready, ready_string])
MODULES = {ready: machine, ready_string: string}
OPTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    f"{name} {options}": (make, {"name": name, **options})
    for make, names, variants in (
        (
            ready, QUICK,
            ({}, {"num_layers": 3}, {"layer_norm": True}, {"num_layers": 2, "layer_norm": True}),
        ),
        (ready_string, STRING_LAYERS, ({}, {"num_layers": 3}, {"bias": False})),
    )
    for name in names
    for options in variants
}  # fmt: skip


def moved(state: Any, dtype: torch.dtype) -> Any:
    return type(state)(*(field.to(dtype) for field in state))


@pytest.mark.parametrize("case", OPTIONS)
@looped("size", [1, 3, 8, 32])
def test_a_streaming_step_matches_the_general_path(case: str, size: int):
    make, options = OPTIONS[case]
    layer, x, state = make(size=size, **options)
    for dtype in (torch.float64, torch.float32):
        layer, x, state = layer.to(dtype), x.to(dtype), moved(state, dtype)
        found, expected = quick(layer, x, state), general(layer, x, state)
        assert found is not None
        torch.testing.assert_close(found[0], expected[0])
        assert_states_equal(found[1], expected[1])
        assert all(field.is_contiguous() for field in found[1])
        assert found[0].data_ptr() != found[1].h.data_ptr()
        again = quick(layer, x, found[1])
        assert again is not None
        torch.testing.assert_close(again[0], general(layer, x, expected[1])[0])


@EVERY_KIND
def test_streaming_uses_the_fast_path(make: Any, monkeypatch: pytest.MonkeyPatch):
    layer, x, state = make()
    taken: list[bool] = []
    monkeypatch.setattr(
        sequence_layer, "core_call", lambda *given: taken.append(True) or core_call(*given)
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


@pytest.mark.parametrize(("name", "options"), [
    ("RKM-LSTM", {"filter_length": 2}), ("RKM-LSTM", {"filter_length": {1: 2, 2: 2}}),
    ("RKM-LSTM", {"zoneout": 0.1}), ("RKM-LSTM", {"output_nonlinearity": torch.sin}),
    ("RKM gaussian", {}), ("CNN", {}),
])  # fmt: skip
def test_an_unsupported_layer_uses_the_general_path(name: str, options: dict[str, Any]):
    layer, x = build(name, **options), batch(1)[0]
    state = layer.step(x)[1]
    assert quick(layer, x, state) is None


INPUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "unbatched": lambda x: x[0], "of another dtype": lambda x: x.float(),
    "in half precision": lambda x: x.half(), "elsewhere": lambda x: x.to("meta"),
    "of other features": lambda x: x[:, :2], "of a subclass": lambda x: torch.nn.Parameter(x),
}  # fmt: skip


@EVERY_KIND
@looped("kind", INPUTS)
def test_an_unsupported_input_uses_the_general_path(make: Any, kind: str):
    layer, x, state = make()
    assert quick(layer, INPUTS[kind](x), state) is None


CHANGES: dict[str, Callable[[Any], Any]] = {
    "strided recurrent weights": spoil("weight_hh", strided),
    "recurrent weights of another dtype": spoil("weight_hh", Tensor.float),
    "layer elsewhere": lambda layer: layer.to("meta"),
    "layer in another dtype": lambda layer: layer.float(),
}
OF_MACHINES: dict[str, Callable[[Any], Any]] = {
    "zoneout": lambda layer: setattr(layer, "zoneout", (0.5, 0.5)),
    "psi": lambda layer: setattr(layer, "psi", torch.sin),
    "weight drop": lambda layer: setattr(layer, "weight_drop", 0.5),
}
OF_STRINGS: dict[str, Callable[[Any], Any]] = {
    "hidden dropout": lambda layer: setattr(layer, "hidden_dropout", 0.5),
    "strided input weights": spoil("weight_ih", strided),
    "strided biases": spoil("bias", strided),
    "narrow biases": spoil("bias", lambda bias: bias[:-1].contiguous()),
    "recurrent weights gone": lambda layer: setattr(layer, "weight_hh_l0", None),
}


@pytest.mark.parametrize(
    ("make", "change"),
    [
        pytest.param(make, change, id=f"{make.__name__}: {name}")
        for make, own in ((ready, OF_MACHINES), (ready_string, OF_STRINGS))
        for name, change in (CHANGES | own).items()
    ],
)
@looped("used_before", [False, True])
def test_a_modified_layer_uses_the_general_path(make: Any, change: Any, used_before: bool):
    layer, x, state = make()
    if used_before:
        assert quick(layer, x, state) is not None
    change(layer)
    assert quick(layer, x, state) is None


def all_parts(change: Callable[[Tensor], Any]) -> Callable[[Any], Any]:
    return lambda s: type(s)(*map(change, s))


STATES: dict[str, Callable[[Any], Any]] = {
    "a plain tuple": tuple,
    "narrow": all_parts(lambda part: part[..., :2].contiguous()),
    "wide": all_parts(lambda part: torch.cat((part, part), dim=-1)),
    "of one state less": lambda s: s._replace(c=s.c[:, 1:].contiguous()),
    "of another batch": lambda s: s._replace(h=s.h[:, :1].contiguous()),
    "of two layers": all_parts(lambda part: torch.cat((part, part))),
    "strided": lambda s: s._replace(c=strided(s.c)),
    "of another dtype": lambda s: s._replace(c=s.c.float()),
    "elsewhere": all_parts(lambda part: part.to("meta")),
    "a number": lambda s: s._replace(h=0.0),
    "with a window": lambda s: nn.WindowedRecurrentState(
        *s[:2], (torch.zeros(2, 1, INPUT).double(),)
    ),
}


@pytest.mark.parametrize("kind", STATES)
def test_an_unsupported_state_uses_the_general_path(kind: str):
    for layer, x, state in (ready(), ready_string(), ready_string("exact")):
        assert quick(layer, x, state) is not None
        assert quick(layer, x, STATES[kind](state)) is None


def test_a_state_of_another_cell_uses_the_general_path():
    layer, x, state = ready_string("multiply")
    assert quick(layer, x, nn.StringMassState(*state, state.c)) is None
    exact, x_exact, masses = ready_string("exact", order=2)
    assert quick(exact, x_exact, nn.StringState(masses.h, masses.c)) is None
    assert quick(nn.RKMLSTM(INPUT, 4, dtype=torch.float64), x, state) is None  # type: ignore[arg-type]


@EVERY_KIND
def test_autocast_other_backends_and_transforms_use_the_general_path(make: Any):
    layer, x, state = make()
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
