"""walk_aggregate on the compiled core."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from representer.functional import NONLINEARITIES
from representer.ops import core, structs
from representer.ops.core import pointer, weight_pointer
from representer.ops.walk_aggregate.arguments import Backward, Forward, Gradients, check_ends

_CODES = {name: code for code, name in enumerate(NONLINEARITIES)}


def forward(*operands: Any) -> Tensor:
    """Return the sums over the neighbors ``(N, H)``."""
    p = Forward(*operands)
    check_ends(p.edge_index, len(p.nodes))
    output = p.nodes.new_zeros(p.nodes.shape)
    core.call("walk_forward", output.dtype, _struct(p, output, *[None] * 8))
    return output


def backward(*operands: Any) -> Gradients:
    """Return the gradients."""
    p = Backward(*operands)
    grad = p.grad_output.contiguous()

    def zeros(x: Tensor | None, transposed: bool = False) -> Tensor:
        if x is None:
            return grad.new_empty(0)
        return grad.new_zeros(tuple(reversed(x.shape)) if transposed else x.shape)

    none = grad.new_empty(0)
    edges = p.edge_attr if p.needs_edges else None
    parts = min(core.threads(), max(1, p.nodes.shape[1]))  # a part for each thread that has units
    found = Gradients(
        nodes=zeros(p.nodes),
        edge_attr=none if edges is None else grad.new_zeros(parts, *edges.shape),
        shift=zeros(p.shift, transposed=True),
        factor=zeros(p.factor, transposed=True),
        source_gate=zeros(p.source_gate),
        target_gate=zeros(p.target_gate),
        edge_gate=zeros(p.edge_gate, transposed=True),
    )
    core.call("walk_backward", grad.dtype, _struct(p, None, grad, *found))
    return found._replace(
        edge_attr=none if edges is None else found.edge_attr.sum(0),
        shift=found.shift.mT.contiguous() if p.shift is not None else found.shift,
        factor=found.factor.mT.contiguous() if p.factor is not None else found.factor,
        edge_gate=found.edge_gate.mT.contiguous() if p.edge_gate is not None else found.edge_gate,
    )


def refuses(nodes: Tensor, *arguments: Any) -> str:
    """Say why the core cannot run a call of the op; "" if it can."""
    return core.refuses(nodes.dtype)


def _struct(p: Forward | Backward, output: Tensor | None, *gradients: Tensor | None) -> Any:
    """Fill the struct; weights go transposed, so that units lie beside each other."""
    plain = (p.nodes, p.edge_index, p.edge_attr, p.source_gate, p.target_gate)
    nodes, ends, edges, source, target = (None if x is None else x.contiguous() for x in plain)
    weights = [None if x is None else x.mT.contiguous() for x in (p.shift, p.factor, p.edge_gate)]
    units = p.nodes.shape[1]
    struct = structs.WalkStruct(
        *p.nodes.shape,
        p.edge_index.shape[1],
        0 if p.edge_attr is None else p.edge_attr.shape[1],
        core.threads(),
        _CODES[p.activation],
        *[units] * 6,  # rows lie side by side
        p.edge_index.shape[1],
        0,
        *map(pointer, (nodes, ends, edges)),
        *map(weight_pointer, weights),
        *map(pointer, (source, target)),
        pointer(output),
        *(pointer(x) if x is not None and x.numel() else None for x in gradients),
        p.scale,
    )
    struct.keep_alive = (nodes, ends, edges, source, target, weights, output, gradients)
    return struct
