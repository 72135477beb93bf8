"""rkm_scan on the compiled core: the loop there, the products of whole sequences in torch."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from representer.functional.rkm_scan import EPS
from representer.ops import core, structs
from representer.ops.core import pointer
from representer.ops.products import input_products
from representer.ops.rkm_scan.arguments import Backward, Forward
from representer.ops.rkm_scan.products import finish, gates_of
from representer.ops.sequence import Steps

KNOWN = {(1, 0), (1, 1), (2, 0), (2, 2), (3, 2), (3, 3), (4, 4)}  # gates, and those that see h
FUSED = 2**22  # bytes of packed weights up to which the input product runs inside the loop


def forward(*operands: Any) -> tuple[Tensor, ...]:
    """Return the same as ``reference.forward``."""
    p = Forward(*operands)
    Steps(len(p.z), p.lengths, p.reverse)  # checks the lengths
    time, batch, gates, units = p.sizes
    x, input_weight, bias = p.z, p.input_weight, p.bias
    if input_weight is not None:
        rows = gates * units * (x.shape[2] + units)
        if rows * x.element_size() > FUSED:
            x, input_weight, bias = input_products(x, input_weight, bias), None, None
    inner = (1,) if input_weight is not None else (units, 1)
    x = x if x.stride()[2:] == inner else x.contiguous()
    constants = (input_weight, bias, p.weight, p.h0, p.c0, p.static, p.norm, p.hold)
    constants = [None if tensor is None else tensor.contiguous() for tensor in constants]
    lengths = _whole_numbers(p.lengths)
    output = p.h0.new_empty(time, batch, units)
    h, c = p.h0.new_empty(batch, units), p.h0.new_empty(batch, units)
    kept = [p.h0.new_empty(shape) for shape in p.kept_shapes]
    features = 0 if input_weight is None else input_weight.shape[2]
    arguments = structs.ForwardStruct(
        core.cell_struct(p.cell), time, batch, units, features, p.reverse, core.threads(),
        0 if bias is None else gates, pointer(x), x.stride(0), x.stride(1),
        *map(pointer, constants), pointer(lengths), pointer(output), pointer(h), pointer(c),
        *(pointer(tensor) if tensor.numel() else None for tensor in kept), EPS,
    )  # fmt: skip
    core.call("rkm_forward", output.dtype, arguments)
    return output, h, c, *kept


def backward(*operands: Any) -> tuple[Tensor, ...]:
    """Return the same as ``gradient.backward``."""
    p = Backward(*operands)
    gates = gates_of(p)
    time, batch, _, units = gates.shape
    grad = p.grad_output if p.grad_output.stride(2) == 1 else p.grad_output.contiguous()
    before = (p.weight, p.h0, p.c0, p.static, p.norm, p.hold)
    before = [None if tensor is None else tensor.contiguous() for tensor in before]
    grad_h, grad_c = p.grad_h.contiguous(), p.grad_c.contiguous()
    lengths = _whole_numbers(p.lengths)
    dz, to_h, to_c = gates.new_empty(gates.shape), *(p.h0.new_empty(p.h0.shape) for _ in range(2))
    g_fresh = gates.new_empty(p.cells.shape) if p.needs_static else None
    g_normed = gates.new_empty(p.cells.shape) if p.norm is not None else None
    arguments = structs.BackwardStruct(
        core.cell_struct(p.cell), time, batch, units, p.reverse, core.threads(),
        pointer(grad), grad.stride(0), grad.stride(1), pointer(grad_h), pointer(grad_c),
        pointer(p.output), pointer(gates), pointer(p.cells), pointer(p.fresh),
        *map(pointer, before), pointer(lengths), pointer(dz), pointer(to_h), pointer(to_c),
        pointer(g_fresh), pointer(g_normed), EPS,
    )  # fmt: skip
    core.call("rkm_backward", gates.dtype, arguments)
    if p.weight is not None:
        seen = dz[-1 if p.reverse else 0].flatten(1)[:, -len(p.weight) * units :]
        to_h = to_h.addmm_(seen, p.weight.flatten(0, 1))
    return finish(
        p, dz, to_h, to_c, gates[:, :, 0], g_fresh, g_normed, core.product, core.transpose
    )


def refuses(z: Tensor, input_weight: Tensor | None, bias: Any, weight: Any, *rest: Any) -> str:
    """Say why the core cannot run a call of the op; "" if it can."""
    gates = z.shape[2] if input_weight is None else len(input_weight)
    seen = 0 if weight is None else len(weight)
    if (gates, seen) not in KNOWN:
        return f"has no kernel for {gates} gates of which {seen} see h"
    return core.refuses(z.dtype)


def _whole_numbers(lengths: Tensor | None) -> Tensor | None:
    return None if lengths is None else lengths.long().contiguous()
