"""walk_rounds on the compiled core."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.functional import NONLINEARITIES
from representer.ops import core, structs
from representer.ops.core import pointer, weight_pointer
from representer.ops.walk_aggregate.arguments import check_ends
from representer.ops.walk_rounds.arguments import Backward, Forward, Gradients, kept_shapes

_CODES = {name: code for code, name in enumerate(NONLINEARITIES)}


def forward(*operands: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return y, and the labels and the tape, which are empty if they are not to be kept."""
    p = Forward(*operands)
    check_ends(p.edge_index, len(p.labels))
    y = p.labels.new_empty(len(p.labels), p.factor.shape[1])
    hidden, tape = (p.labels.new_empty(shape) for shape in kept_shapes(p))
    of_one = (x if p.keep else x.new_empty(1, *x.shape[1:]) for x in (hidden, tape))
    _call("rounds_forward", p, [y, *of_one], [None] * 9, p.keep)
    return y, hidden, tape


def backward(*operands: Any) -> Gradients:
    """Return the gradients."""
    p = Backward(*operands)
    grad = p.grad_output.contiguous()
    N, E = len(p.labels), len(p.edge_attr)
    (steps, H, K), d = p.factor.shape, p.labels.shape[1]
    none = grad.new_empty(0)
    found = Gradients(
        labels=grad.new_empty(N, d),
        edge_attr=grad.new_zeros(min(core.threads(), max(d, H)), E, K) if p.needs_edges else none,
        weight=torch.empty_like(p.weight, memory_format=torch.contiguous_format),
        bias=torch.zeros_like(p.bias, memory_format=torch.contiguous_format),
        neighbors=grad.new_empty(d, d),
        shift=grad.new_zeros(K, d),
        factor=grad.new_zeros(steps, K, H),
        edge_gate=none if p.edge_gate is None else grad.new_zeros(K, H),
    )
    _call("rounds_backward", p, [None, p.hidden, p.tape], [grad, *found], True)
    return found._replace(
        edge_attr=found.edge_attr.sum(0) if p.needs_edges else none,
        shift=found.shift.mT.contiguous(),
        factor=found.factor.mT.contiguous(),
        edge_gate=none if p.edge_gate is None else found.edge_gate.mT.contiguous(),
    )


def refuses(labels: Tensor, *arguments: Any) -> str:
    """Say why the core cannot run a call of the op; "" if it can."""
    return core.refuses(labels.dtype)


def _call(
    name: str, p: Forward | Backward, results: list[Any], gradients: list[Any], keep: bool
) -> None:
    """Fill the struct and run; edges' weights go transposed, so that units lie side by side."""
    read = [p.labels, p.edge_index, p.edge_attr, p.weight, p.bias, p.neighbors]
    read += [None if x is None else x.mT for x in (p.shift, p.factor, p.edge_gate)]
    read = [None if x is None else x.contiguous() for x in read]
    steps, H, K = p.factor.shape
    struct = structs.RoundsStruct(
        *p.labels.shape,
        H,
        p.edge_index.shape[1],
        K,
        steps,
        p.depth,
        p.first,
        core.threads(),
        _CODES[p.activation],
        keep,
        *map(weight_pointer, read),
        *map(pointer, results),
        *(pointer(x) if x is not None and x.numel() else None for x in gradients),
        p.scale,
    )
    core.call(name, p.labels.dtype, struct)
