"""Operators of this library in terms of operators that ONNX has.

A recurrence becomes torch's scan operator, which the exporter writes as one ONNX Scan node. Its
body is the definition of the operator on a sequence of a single step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._higher_order_ops.scan import scan_op
from torch.utils._pytree import tree_map_only

from representer.ops.common import input_products
from representer.ops.op import Op

Named = dict[str, Any]
_STATES = ("h0", "c0")


def of_onnx(op: Op) -> Callable[..., Any]:
    """Return an operator as a function of its arguments in terms of those that ONNX has."""
    run = _recurrence(op) if op.name in _PREPARED else _defined(op)

    def decomposed(*arguments: Any) -> Any:
        # runtimes have no recurrence of 16 bits; a scan of what needs a gradient is not written
        dtype = next(x.dtype for x in arguments if isinstance(x, Tensor) and x.is_floating_point())
        result = run(*tree_map_only(Tensor, _written, arguments))
        return tree_map_only(Tensor, lambda x: x.to(dtype) if x.is_floating_point() else x, result)

    return decomposed


def _written(x: Tensor) -> Tensor:
    x = x.detach() if x.requires_grad else x
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _defined(op: Op) -> Callable[..., Any]:
    """Return an operator's definition as a function of the operator's arguments."""

    def decomposed(*arguments: Any) -> Any:
        result = op.definition(**_named(op, arguments))
        assert op.table is not None
        unused = [result.new_empty(0)] * (len(op.table.returned) - 1)
        return (result, *unused) if unused else result

    return decomposed


def of_step(op: Op) -> Callable[..., Any]:
    """Return an operator's definition, without a scan: for a sequence of one step."""

    def decomposed(*arguments: Any) -> Any:
        assert op.table is not None
        named = _named(op, arguments)
        values = op.definition(**named)
        values = values if isinstance(values, tuple) else (values,)
        results = list(values[: 1 + sum(name in named for name in _STATES)])
        # what is kept for the gradient is empty
        results += [results[0].new_empty(0)] * (len(op.table.returned) - len(results))
        # the operator does not take results that share memory
        return tuple(x.clone() for x in results) if len(results) > 1 else results[0]

    return decomposed


def _recurrence(op: Op) -> Callable[..., tuple[Tensor, ...]]:
    """Return a recurrence as a scan, a function of the operator's arguments."""
    assert op.table is not None
    rows = {row.name: row for row in op.table.rows}
    results = len(op.table.returned)

    def decomposed(*arguments: Any) -> tuple[Tensor, ...]:
        named = _PREPARED[op.name](_named(op, arguments))
        lengths, reverse = named.pop("lengths"), named.pop("reverse", False)
        states = {k: named.pop(k) for k in _STATES if k in named}
        steps, axes = {}, {}
        for name, x in named.items():
            if isinstance(x, Tensor):
                (axis_names,) = (row for row in rows[name].axes if len(row) == x.dim())
                if "time" in axis_names:
                    axes[name] = axis_names.index("time")
                    steps[name] = x.movedim(axes[name], 0)
        constants = {k: x for k, x in named.items() if isinstance(x, Tensor) and k not in axes}
        options = {k: x for k, x in named.items() if k not in axes and k not in constants}
        time = next(iter(steps.values())).shape[0]
        if isinstance(time, int) and time == 1:  # a layer without memory reads all steps as one
            return of_step(op)(*arguments)
        inputs = [*steps.values(), torch.arange(time)]
        if reverse:
            inputs = [x.flip(0) for x in inputs]

        def step(*flat: Any) -> list[Tensor]:
            values = iter(flat)
            call = {k: next(values) for k in states}
            call |= {k: next(values).unsqueeze(axes[k]) for k in steps}
            t = next(values)
            call |= {k: next(values) for k in constants}
            left = None if lengths is None else next(values) - t
            output, *new = op.definition(**call, **options, lengths=left)
            # the operator does not take results that share memory
            return [
                x.clone(memory_format=torch.contiguous_format)
                for x in (*new[: len(states)], output[0])
            ]

        extra = (*constants.values(), *(() if lengths is None else (lengths,)))
        *last, output = scan_op(
            step, [x.clone(memory_format=torch.contiguous_format) for x in states.values()], inputs,
            extra,
        )  # fmt: skip
        unused = [output.new_empty(0)] * (results - 1 - len(last))  # for the gradient
        return (output.flip(0) if reverse else output, *last, *unused)

    return decomposed


def _named(op: Op, arguments: tuple[Any, ...]) -> Named:
    """Return the operands of a call as its definition takes them."""
    assert op.table is not None
    named = op.table.decode(arguments[:-1])._asdict()
    named.pop("keep", None)
    return named


def _products_at_once(named: Named) -> Named:
    """Compute the products with the input before the scan, as one matrix product."""
    first = next(iter(named))
    weight, bias = named.pop("input_weight"), named.pop("bias")
    if weight is None:
        return named
    if bias is not None:
        bias = F.pad(bias, (0, 0, len(weight) - len(bias), 0))
    x = named[first]
    if "carry" in named and named["carry"] is None and named["chain"].highway:
        named["carry"] = x
    return named | {first: input_products(x, weight, bias)}


_PREPARED: dict[str, Callable[[Named], Named]] = {
    "rkm_scan": _products_at_once,
    "string_scan": _products_at_once,
    "gated_scan": lambda named: named,
    "kbrn_scan": lambda named: named,
}
