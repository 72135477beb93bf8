"""``step()`` uses the general path while operators are observed, recorded or transformed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import parametrize

from representer import nn, ops
from representer.nn.recurrent.core_calls import core_call
from representer.nn.recurrent.sequence_layer import SequenceLayer
from representer.ops import core

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
BUILD: dict[str, Callable[..., SequenceLayer]] = {
    "cells": lambda: nn.RKMLSTM(3, 4, num_layers=2, layer_norm=True),
    "strings": lambda: nn.StringKernelRNN(3, 4, num_layers=2, decay="state"),
}
EVERY_KIND = pytest.mark.parametrize("kind", BUILD)


def ready(kind: str) -> tuple[Any, Tensor, Any]:
    """Return a layer, an input and a state that the fast path supports."""
    layer, x = BUILD[kind]().double(), torch.randn(2, 2, 3, dtype=torch.float64)
    layer.requires_grad_(False)  # a trace holds the weights as constants
    with torch.no_grad():
        _, state = layer(x)
        assert core_call(layer, x[1], state) is not None
    return layer, x[1], state


def general(layer: Any, x: Tensor, state: Any) -> Tensor:
    with torch.enable_grad():
        return layer.step(x, state)[0].detach()


@EVERY_KIND
@pytest.mark.parametrize("part", ["input", "state", "weight"])
def test_negative_views_are_read_with_their_sign(kind: str, part: str):
    layer, x, state = ready(kind)
    expected = general(layer, x, state)
    with torch.no_grad():
        if part == "input":
            x = torch._neg_view(-x)
        if part == "state":
            state = state._replace(h=torch._neg_view(-state.h))
        if part == "weight":
            name = "weight_hh_l0" if kind == "cells" else "weight_ih_l0"
            negated = torch.nn.Parameter(torch._neg_view(-getattr(layer, name)))
            setattr(layer, name, negated)
            assert getattr(layer, name).is_neg()
        torch.testing.assert_close(layer.step(x, state)[0], expected)


def _fx(step: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[Tensor], Tensor]:
    return make_fx(step)(x)


def _pre_dispatch(step: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[Tensor], Tensor]:
    return make_fx(step, pre_dispatch=True)(x)


def _jit(step: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[Tensor], Tensor]:
    return torch.jit.trace(step, (x,), check_trace=False)


def _compile(step: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[Tensor], Tensor]:
    torch._dynamo.reset()
    return torch.compile(step, backend="eager", fullgraph=True)


@EVERY_KIND
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*jit.*:DeprecationWarning")
@pytest.mark.parametrize("trace", [_fx, _pre_dispatch, _jit, _compile])
def test_a_trace_holds_operators_and_not_their_results(kind: str, trace: Any):
    layer, x, state = ready(kind)
    with torch.no_grad():
        traced = trace(lambda x: layer.step(x, state)[0], x)
        for other in (x, 2 * x, -x):
            torch.testing.assert_close(traced(other), general(layer, other, state))


@EVERY_KIND
def test_transforms_reach_the_operator(kind: str):
    layer, x, state = ready(kind)
    with torch.no_grad():
        batched = torch.vmap(lambda x: layer.step(x, state)[0])(torch.stack((x, 2 * x)))
        torch.testing.assert_close(batched[1], general(layer, 2 * x, state))
        name = "weight_ih_l1" if kind == "strings" else "weight_hh_l1"
        weights = torch.stack([getattr(layer, name)] * 2)

        def of(weight: Tensor) -> Tensor:
            given = {f"layer.{name}": weight}
            return torch.func.functional_call(Steps(layer), given, (x, state))

        torch.testing.assert_close(torch.vmap(of)(weights)[1], general(layer, x, state))
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones_like(x))
            tangent = forward_ad.unpack_dual(layer.step(dual, state)[0]).tangent
        assert tangent is not None
        nudge = 1e-6
        around = [general(layer, x + sign * nudge, state) for sign in (1, -1)]
        torch.testing.assert_close(
            tangent, (around[0] - around[1]) / (2 * nudge), atol=1e-6, rtol=1e-6
        )


class Steps(torch.nn.Module):
    def __init__(self, layer: SequenceLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, state: Any) -> Tensor:
        return self.layer.step(x, state)[0]


@EVERY_KIND
def test_a_recorder_sees_the_operator(kind: str):
    layer, x, state = ready(kind)
    choices = ops.explain_backend(Steps(layer), x, state)
    assert len(choices) == layer.num_layers


@contextmanager
def global_hook(register: Callable[..., Any], hook: Callable[..., Any]) -> Iterator[None]:
    handle = register(hook)
    try:
        yield
    finally:
        handle.remove()


@EVERY_KIND
def test_global_hooks_are_called_by_every_step(kind: str):
    layer, x, state = ready(kind)
    seen: list[type] = []
    registers = (
        torch.nn.modules.module.register_module_forward_hook,
        torch.nn.modules.module.register_module_forward_pre_hook,
    )
    for register in registers:
        with global_hook(register, lambda module, *_: seen.append(type(module))), torch.no_grad():
            layer.step(x, state)
        assert type(layer) in seen
        seen.clear()


def _subclass(layer: Any, wrap: Callable[..., Any]) -> None:
    layer.__class__ = type("Overridden", (type(layer),), {"forward": wrap(type(layer).forward)})


def _instance(layer: Any, wrap: Callable[..., Any]) -> None:
    layer.forward = wrap(type(layer).forward).__get__(layer)


@EVERY_KIND
@pytest.mark.parametrize("override", [_subclass, _instance])
def test_an_overridden_forward_is_the_one_that_steps(kind: str, override: Any):
    layer, x, state = ready(kind)

    def wrap(forward: Any) -> Any:
        def doubled(self: Any, *arguments: Any) -> Any:
            output, *rest = forward(self, *arguments)
            return (2 * output, *rest)

        return doubled

    expected = 2 * general(layer, x, state)
    override(layer, wrap)
    with torch.no_grad():
        torch.testing.assert_close(layer.step(x, state)[0], expected)


class Halved(torch.nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight / 2


class Plain(Tensor):
    pass


@EVERY_KIND
def test_parametrizations_and_subclasses_of_tensors_keep_their_meaning(kind: str):
    layer, x, state = ready(kind)
    with torch.no_grad():
        marked = state._replace(h=state.h.as_subclass(Plain))
        assert core_call(layer, x, marked) is None
        torch.testing.assert_close(
            layer.step(x, marked)[0].as_subclass(Tensor), general(layer, x, state)
        )
        name = "weight_hh_l0" if kind == "cells" else "weight_ih_l0"
        parametrize.register_parametrization(layer, name, Halved())
        halved = layer.step(x, state)[0]
        torch.testing.assert_close(halved, general(layer, x, state))
        parametrize.remove_parametrizations(layer, name, leave_parametrized=True)
        torch.testing.assert_close(layer.step(x, state)[0], halved)
