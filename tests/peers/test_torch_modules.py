"""torch: ModuleInfo, its inputs of recurrent layers, and ModuleTest over every layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tests.nn.modules import MODULES, inputs, output
from torch import Tensor
from torch import nn as torch_nn

from representer import nn
from representer.errors import ArgumentError

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:Backwards compatibility"),  # of gradcheck
]
F64 = torch.float64
LIKE_LSTM = {  # with a state (h, c)
    "RKM-LSTM": nn.RKMLSTM, "RKM-CIFG": nn.RKMCIFG, "LSTM": nn.NgramLSTM, "RAN": nn.RAN,
    "linear kernel": nn.LinearKernelRNN,
}  # fmt: skip
LIKE_GRU = {  # given without a state, and as packed sequences
    "CNN": nn.CNN, "gated CNN": nn.GatedCNN, "RKM": nn.RKM, "strings": nn.StringKernelRNN,
    "KBRN": nn.KBRN,
}  # fmt: skip
CONTROLS = {"control nn.LSTM": torch_nn.LSTM, "control nn.GRU": torch_nn.GRU}


def info(kind: str) -> Any:
    """Return the ModuleInfo of a layer, with the inputs that torch has for its own."""
    from torch.testing._internal.common_modules import (
        ModuleInfo,
        module_inputs_torch_nn_LSTM,
        module_inputs_torch_nn_RNN_GRU,
    )

    named = {**LIKE_LSTM, **LIKE_GRU, **CONTROLS}
    if kind in LIKE_LSTM or kind == "control nn.LSTM":
        return ModuleInfo(named[kind], module_inputs_func=module_inputs_torch_nn_LSTM)
    of_gru = partial(module_inputs_torch_nn_RNN_GRU, is_rnn=False, with_packed_sequence=True)
    return ModuleInfo(named[kind], module_inputs_func=of_gru)


def samples(kind: str) -> list[Any]:
    """Return the inputs of torch that fit a layer."""
    given, found = info(kind), []
    for sample in given.module_inputs_func(given, "cpu", F64, True, True):
        options, points = sample.constructor_input.kwargs, sample.forward_input.args
        projects = options.pop("proj_size", 0)  # no layer projects its output
        has_other_state = kind in LIKE_GRU and len(points) > 1
        is_transposed = _is_packed(points) and options["batch_first"]  # as another sample
        if not (projects or has_other_state or is_transposed):
            found.append(sample)
    return found


KINDS = [*LIKE_LSTM, *LIKE_GRU, *CONTROLS]
NUMBER = {"control nn.GRU": 24}  # samples that fit; the others have 16
EACH = pytest.mark.parametrize(
    ("kind", "number"), [(k, i) for k in KINDS for i in range(NUMBER.get(k, 16))]
)


def sample_of(kind: str, number: int) -> tuple[torch_nn.Module, tuple[Any, ...], Any]:
    """Return a layer, its arguments, and what torch compares its results with."""
    found = samples(kind)
    assert len(found) == NUMBER.get(kind, 16)
    sample = found[number]
    build = partial(info(kind).module_cls, **sample.constructor_input.kwargs, dtype=F64)
    if kind == "RKM" and sample.constructor_input.kwargs["bias"]:
        with pytest.raises(ArgumentError, match="bias is True"):
            build()
        pytest.xfail("the cell of L19, section 3, has no bias, so that bias=True is an error")
    return build().eval(), sample.forward_input.args, sample.reference_fn


def _is_packed(points: tuple[Any, ...]) -> bool:
    return isinstance(points[0], torch_nn.utils.rnn.PackedSequence)


def tensors(value: Any) -> list[Tensor]:
    """Return the tensors of nested tuples that have numbers with gradients."""
    from torch.utils._pytree import tree_leaves

    leaves = [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
    return [leaf for leaf in leaves if leaf.is_floating_point()]


@EACH
def test_a_sequence_without_a_batch_is_a_batch_of_one(kind: str, number: int):
    module, given, reference = sample_of(kind, number)
    if _is_packed(given):
        found, _ = module(*given)
        alone, lengths = torch_nn.utils.rnn.pad_packed_sequence(given[0])
        padded, _ = torch_nn.utils.rnn.pad_packed_sequence(found)
        for i, length in enumerate(lengths.tolist()):
            torch.testing.assert_close(padded[:length, i], module(alone[:length, i])[0])
        return
    if kind in LIKE_GRU:
        x, axis = given[0], 0 if module.batch_first else 1
        torch.testing.assert_close(module(x)[0], module(x.unsqueeze(axis))[0].squeeze(axis))
        return
    found, expected = tensors(module(*given)), tensors(reference(module, *given))
    torch.testing.assert_close(found[: len(expected)], expected)


@EACH
def test_gradcheck_and_gradgradcheck(kind: str, number: int):
    from torch.testing._internal.common_utils import gradcheck, gradgradcheck

    module, given, _ = sample_of(kind, number)
    names, values = zip(*module.named_parameters(), strict=True)
    count = len(tensors(given))

    def of_all(*changed: Tensor) -> list[Tensor]:
        from torch.utils._pytree import tree_map

        rest = iter(changed[:count])
        moved = tree_map(
            lambda leaf: next(rest) if isinstance(leaf, Tensor) and leaf.is_floating_point()
            else leaf, given,
        )  # fmt: skip
        own = dict(zip(names, changed[count:], strict=True))
        return tensors(torch.func.functional_call(module, own, moved))

    points = tuple(x.detach().requires_grad_() for x in (*tensors(given), *values))
    assert gradcheck(of_all, points, fast_mode=True)
    assert gradgradcheck(of_all, points, fast_mode=True)


Build = Callable[[], torch_nn.Module]
ALONE: dict[str, Build] = {
    **MODULES,
    "control nn.LSTM": partial(torch_nn.LSTM, 3, 4),
    "control nn.Linear": partial(torch_nn.Linear, 3, 4),
}


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("ways", ["reverse", "batched"])
def test_module_test(ways: str, name: str):
    """Non-contiguous inputs, saving, Jacobians in several modes, second derivatives, casts."""
    from torch.testing._internal import common_nn

    more = inputs(name)[1:]  # the edges of graphs and trees

    class Case(common_nn.NNTestCase):
        def _forward(self, module: torch_nn.Module, given: Any) -> Tensor:
            return output(name, module, *(given if isinstance(given, tuple) else (given,)))

        def _backward(self, module: Any, given: Any, out: Tensor, gradient: Tensor) -> Any:
            out.backward(gradient, retain_graph=True)
            return given[0].grad if more else given.grad

        def _get_parameters(self, module: torch_nn.Module) -> Any:
            return list(module.parameters()), [p.grad for p in module.parameters()]

        def _zero_grad_parameters(self, module: torch_nn.Module) -> None:
            module.zero_grad()

    x = inputs(name)[0].double().requires_grad_()
    common_nn.NewModuleTest(
        constructor=lambda: ALONE[name]().double().eval(), fullname=name, default_dtype=F64,
        input_fn=lambda: (x, *more) if more else x,
        gradcheck_fast_mode=True, check_batched_grad=ways == "batched",
    )(Case())  # fmt: skip
