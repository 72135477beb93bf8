"""Calls of layers on the compiled core: values and gradients are those of the general path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from looped import looped
from representer import nn
from representer.nn.recurrent import sequence_layer
from representer.nn.recurrent.core_calls import core_call
from representer.ops import core

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
LAYERS: dict[str, Callable[[], Any]] = {
    "RKM-LSTM": lambda: nn.RKMLSTM(3, 4),
    "two layers": lambda: nn.RKMLSTM(3, 4, num_layers=2, batch_first=True, layer_norm=True),
    "coupled": lambda: nn.RKMCIFG(3, 4, bias=False),
    "forget bias": lambda: nn.RKMLSTM(3, 4, forget_bias=1.0, output_nonlinearity="tanh"),
    "static gates": lambda: nn.LinearKernelRNN(3, 4),
    "learned gates": lambda: nn.LinearKernelRNN(3, 4, output_gate=False, learn_static_gates=True),
    "memory is the output": lambda: nn.RKM(3, 4),
    "string": lambda: nn.StringKernelRNN(3, 4),
    "two string layers": lambda: nn.StringKernelRNN(3, 4, 2, decay="input", normalized="exact"),
    "learned decay": lambda: nn.StringKernelRNN(3, 4, decay="learned", order=1),
    "constant decay": lambda: nn.StringKernelRNN(3, 4, decay=0.5, combine="add_exact"),
    "highway": lambda: nn.StringKernelRNN(4, 4, highway=True, order=3),
}


def leaves(state: Any) -> list[Tensor]:
    return [part.detach().requires_grad_() for part in state]


def ready(name: str, batch: int = 2, time: int = 3) -> tuple[Any, Tensor, Any]:
    layer = LAYERS[name]().double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    x = torch.randn(time, batch, layer.input_size, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        state = layer(x.transpose(0, 1) if layer.batch_first else x)[1]
    return layer, x.detach().requires_grad_(), type(state)(*leaves(state))


def results(layer: Any, x: Tensor, state: Any) -> list[Tensor]:
    output, new = layer(x.transpose(0, 1) if layer.batch_first else x, state)
    return [output, *new]


def gradients(layer: Any, x: Tensor, state: Any) -> list[Tensor]:
    torch.manual_seed(0)
    found = results(layer, x, state)
    wanted = [x, *layer.parameters(), *(state or ())]
    cotangents = [torch.randn(y.shape, dtype=y.dtype) for y in found]
    first = torch.autograd.grad(found, wanted, cotangents, allow_unused=True)
    return [*found, *(g for g in first if g is not None)]


@looped("name", LAYERS)
@pytest.mark.parametrize("rows", [(20, 2), (3, 2), (1, 1)])  # a single one, and few, are special
def test_values_and_gradients_are_those_of_the_general_path(name: str, rows: tuple[int, int]):
    layer, x, state = ready(name, time=rows[0], batch=rows[1])
    state = state if rows[0] != 3 else None
    assert core_call(layer, x, state) is not None
    quick = gradients(layer, x, state)
    with torch.no_grad():
        without = results(layer, x, state)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence_layer, "core_call", lambda *_: None)
        general = gradients(layer, x, state)
    assert len(quick) == len(general)
    for a, b in zip((*quick, *without), (*general, *general), strict=False):
        assert torch.equal(a, b)


@looped("name", LAYERS)
def test_steps_have_the_gradients_of_sequences(name: str):
    layer, x, state = ready(name, time=2)
    whole, _ = layer(x.transpose(0, 1) if layer.batch_first else x, state)
    whole = whole.transpose(0, 1) if layer.batch_first else whole
    first, after = layer.step(x[0], state)
    second, _ = layer.step(x[1], after)
    assert core_call(layer, x[0], state) is not None
    stepped = torch.stack((first, second))
    torch.testing.assert_close(stepped, whole)
    wanted = [x, *state, *layer.parameters()]
    for a, b in zip(
        torch.autograd.grad(stepped.sin().sum(), wanted, allow_unused=True),
        torch.autograd.grad(whole.sin().sum(), wanted, allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@looped("name", ["two layers", "learned gates", "two string layers", "highway"])
def test_second_derivatives(name: str):
    layer, x, state = ready(name, batch=1, time=2)

    def function(x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        return tuple(results(layer, x, type(full)(*state) if state else None))

    full = state
    assert torch.autograd.gradgradcheck(function, (x, *state), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (x,), fast_mode=True)


@pytest.mark.parametrize("name", ["RKM-LSTM", "string"])
def test_an_input_that_was_computed_from_the_weights_counts_once(name: str):
    layer, x, _ = ready(name)
    weight = layer.weight_ih_l0

    def gradient(create_graph: bool) -> Tensor:
        loss = layer(x * weight.sum())[0].square().sum()
        return torch.autograd.grad(loss, weight, create_graph=create_graph)[0]

    torch.testing.assert_close(gradient(True), gradient(False))


@pytest.mark.parametrize("name", ["RKM-LSTM", "string"])
def test_a_batch_of_cotangents(name: str):
    layer, x, _ = ready(name)
    output = layer(x)[0]
    cotangents = torch.randn(2, *output.shape, dtype=output.dtype)
    (found,) = torch.autograd.grad(output, x, cotangents, is_grads_batched=True, retain_graph=True)
    for one, cotangent in zip(found, cotangents, strict=True):
        torch.testing.assert_close(
            one, torch.autograd.grad(output, x, cotangent, retain_graph=True)[0]
        )


class _Constant(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> None:
        return None


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("time", [3, 40])
def test_a_function_without_a_gradient_may_follow(time: int, create_graph: bool):
    layer, x, _ = ready("RKM-LSTM", time=time)
    loss = _Constant.apply(layer(x)[0]).sum()  # type: ignore[union-attr]
    options: Any = {"create_graph": create_graph, "materialize_grads": True}
    assert not torch.autograd.grad(loss, [x, *layer.parameters()], **options)[0].any()


def test_an_input_that_escaped_from_a_transform_is_read():
    layer, x, _ = ready("RKM-LSTM")
    escaped: list[Tensor] = []
    torch.func.grad(lambda x: escaped.append(1 * x) or x.sum())(x.detach())
    assert torch.equal(layer(escaped[0])[0], layer(x)[0])
    with torch.no_grad():
        assert torch.equal(layer(escaped[0])[0], layer(x)[0])


def test_weights_that_change_after_the_call_are_noticed():
    layer, x, _ = ready("RKM-LSTM")
    loss = layer(x)[0].sum()
    with torch.no_grad():
        layer.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_weights_too_large_for_the_loop_use_the_general_path():
    layer = nn.RKMLSTM(8, 520)
    assert core_call(layer, torch.randn(2, 1, 8), None) is None
    assert core_call(nn.RKMLSTM(8, 16), torch.randn(2, 1, 8), None) is not None


@pytest.mark.parametrize(
    "options",
    [{"recompute_gates": True}, {"bidirectional": True}, {"stride": 2}, {"filter_length": 2}],
)
def test_options_of_the_general_path(options: dict[str, Any]):
    layer, x = nn.RKMLSTM(3, 4, **options), torch.randn(4, 2, 3)
    taken: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence_layer, "core_call", lambda *given: taken.append(core_call(*given)))
        layer(x)
    assert not any(taken)
