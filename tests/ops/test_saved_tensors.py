"""The gradient rule keeps and computes only what it needs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ops.samples.rkm_scan import tensors as of_cell
from ops.samples.string_scan import CHAINS
from ops.samples.string_scan import tensors as of_chain
from representer.functional import Cell, StringChain
from representer.functional.rkm import CNN, RKM_LSTM
from representer.ops import rkm_scan, string_scan

from .cases import RecordedCalls

SIZES = (5, 3, 4)
SECOND = CHAINS["second_gated"]


def operands(kind: Cell | StringChain, options: str = "") -> dict[str, Any]:
    if isinstance(kind, Cell):
        return {"weight": None, **of_cell(kind, SIZES, options, torch.float64), "cell": kind}
    return {**of_chain(kind, SIZES, options, torch.float64), "chain": kind}


def kept(given: dict[str, Any], **flags: bool) -> list[int]:
    """Return the addresses of what autograd keeps when every tensor is marked."""
    addresses: list[int] = []
    for tensor in given.values():
        if isinstance(tensor, Tensor):
            tensor.requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: addresses.append(tensor.data_ptr()) or tensor, lambda tensor: tensor
    ):
        (rkm_scan if "cell" in given else string_scan)(**given, **flags)
    return addresses


@pytest.mark.parametrize(("kind", "name"), [(RKM_LSTM, "z"), (SECOND, "x")])
def test_products_are_not_kept_unless_the_gradient_reads_them(kind: Any, name: str):
    plain, with_filters = operands(kind), operands(kind, "input")
    assert plain[name].data_ptr() not in kept(plain)
    assert with_filters[name].data_ptr() in kept(with_filters)


def test_products_are_kept_if_gates_are_recomputed():
    given = operands(RKM_LSTM)
    assert given["z"].data_ptr() in kept(given, recompute=True)


def asked(op: Any, given: dict[str, Any], marked: tuple[str, ...]) -> list[bool]:
    """Return which gradients the gradient operator was told to compute, of those it may leave."""
    for name in marked:
        given[name].requires_grad_()
    output, *_ = op(**given)
    with RecordedCalls() as calls:
        output.sum().backward()
    ((operator, arguments),) = calls.made
    named = zip(operator._schema.arguments, arguments, strict=False)
    return [argument for schema, argument in named if schema.name.startswith("needs_")]


def test_the_gradient_of_the_input_is_computed_only_on_request():
    assert asked(string_scan, operands(SECOND, "input"), ("input_weight",)) == [False]
    assert asked(string_scan, operands(SECOND, "input"), ("input_weight", "x")) == [True]
    assert asked(rkm_scan, operands(CNN, "input"), ("input_weight",)) == [False, False]
    assert asked(rkm_scan, operands(CNN, "input"), ("z",)) == [True, False]
    assert asked(rkm_scan, operands(CNN, "input"), ("static",)) == [False, True]


class Zeros(TorchDispatchMode):
    """Keeps the shapes of all tensors of zeros that are made."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in (torch.ops.aten.zeros, torch.ops.aten.zeros_like):
            self.shapes.append(tuple(result.shape))
        return result


@pytest.mark.parametrize("kind", [RKM_LSTM, SECOND])
def test_no_zeros_are_allocated_for_gradients_of_kept_tensors(kind: Any):
    given = operands(kind)
    for tensor in given.values():
        if isinstance(tensor, Tensor):
            tensor.requires_grad_()
    output, *_ = (rkm_scan if "cell" in given else string_scan)(**given)
    with Zeros() as zeros:
        output.sum().backward()
    assert zeros.shapes
    assert all(len(shape) < 4 for shape in zeros.shapes)  # as gates and products have
