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
    """Return the sums over the neighbours ``(N, H)``."""
    p = Forward(*operands)
    check_ends(p.edge_index, len(p.nodes))
    output = p.nodes.new_zeros(p.nodes.shape)
    add_sums(p, output)
    return output


def add_sums(p: Forward, output: Tensor) -> None:
    """Add the sums to ``output``, whose rows may lie apart."""
    core.call("walk_forward", output.dtype, _struct(p, output, None, *[None] * 7))


def backward(*operands: Any) -> Gradients:
    """Return the gradients."""
    p = Backward(*operands)
    grad = p.grad_output.contiguous()

    def zeros(x: Tensor | None, transposed: bool = False) -> Tensor:
        if x is None:
            return grad.new_empty(0)
        return grad.new_zeros(tuple(reversed(x.shape)) if transposed else x.shape)

    found = Gradients(
        nodes=zeros(p.nodes),
        edge_attr=zeros(p.edge_attr if p.needs_edges else None),
        shift=zeros(p.shift, transposed=True),
        factor=zeros(p.factor, transposed=True),
        source_gate=zeros(p.source_gate),
        target_gate=zeros(p.target_gate),
        edge_gate=zeros(p.edge_gate, transposed=True),
    )
    add_gradients(p._replace(grad_output=grad), found)
    return found._replace(
        shift=found.shift.mT.contiguous() if p.shift is not None else found.shift,
        factor=found.factor.mT.contiguous() if p.factor is not None else found.factor,
        edge_gate=found.edge_gate.mT.contiguous() if p.edge_gate is not None else found.edge_gate,
    )


def add_gradients(p: Backward, into: Gradients) -> None:
    """Add the gradients; those of weights are ``(K, H)``, empty ones are not wanted."""
    of_bands = into.edge_attr
    if p.needs_edges and p.edge_attr is not None:
        of_bands = p.edge_attr.new_zeros(core.threads(), *p.edge_attr.shape)
    call = into._replace(edge_attr=of_bands)
    core.call("walk_backward", p.grad_output.dtype, _struct(p, None, p.grad_output, *call))
    if of_bands is not into.edge_attr:
        into.edge_attr.add_(of_bands.sum(0))


def refuses(nodes: Tensor, *arguments: Any) -> str:
    """Say why the core cannot run a call of the op; "" if it can."""
    return core.refuses(nodes.dtype)


def _struct(p: Forward | Backward, output: Tensor | None, *gradients: Tensor | None) -> Any:
    """Fill the struct; weights go transposed, so that units lie beside each other.

    The halves of the gate have their rows as far apart as each other, and so have their gradients.
    """
    plain = (p.edge_index, p.edge_attr)
    read = [None if x is None else x.contiguous() for x in plain]
    read += [None if x is None else x.mT.contiguous() for x in (p.shift, p.factor, p.edge_gate)]
    nodes, source, target = _rows(p.nodes), _rows(p.source_gate), _rows(p.target_gate)
    if source is not None and target is not None and source.stride(0) != target.stride(0):
        source, target = source.contiguous(), target.contiguous()
    grad, grad_x, _, _, _, grad_source, *_ = gradients
    placed = (nodes, source, output, grad, grad_x, grad_source)
    struct = structs.WalkStruct(
        *p.nodes.shape,
        p.edge_index.shape[1],
        0 if p.edge_attr is None else p.edge_attr.shape[1],
        core.threads(),
        _CODES[p.activation],
        *(0 if x is None else x.stride(0) for x in placed),
        p.edge_index.shape[1],
        0,
        pointer(nodes),
        *map(weight_pointer, read),
        pointer(source),
        pointer(target),
        pointer(output),
        *(pointer(x) if x is not None and x.numel() else None for x in gradients),
        p.scale,
    )
    struct.keep_alive = (read, nodes, source, target, output, gradients)
    return struct


def _rows(x: Tensor | None) -> Tensor | None:
    """Return a matrix whose rows are contiguous, which may lie apart."""
    return x if x is None or x.stride(1) == 1 else x.contiguous()
