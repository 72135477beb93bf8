"""string_scan on the compiled core: products and chain there, what sums over steps in torch."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from representer.ops import core, structs
from representer.ops.core import pointer
from representer.ops.sequence import Steps
from representer.ops.string_scan.arguments import Backward, Forward
from representer.ops.string_scan.gradient import finish


def forward(*operands: Any) -> tuple[Tensor, ...]:
    """Return the same as ``reference.forward``."""
    p = Forward(*operands)
    Steps(len(p.x), p.lengths, p.reverse)  # checks the lengths
    time, batch, _, _, units = p.sizes
    read = _contiguous(
        p.x, p.input_weight, p.bias, p.decay, p.weight, p.h0, p.c0, p.carried, p.mask
    )
    lengths = None if p.lengths is None else p.lengths.long().contiguous()
    output = p.h0.new_empty(time, batch, units)
    h, c = p.h0.new_empty(p.h0.shape), p.h0.new_empty(p.c0.shape)
    kept = [p.h0.new_empty(shape) for shape in p.kept_shapes]
    features = 0 if p.input_weight is None else p.input_weight.shape[2]
    arguments = structs.StringForwardStruct(
        core.chain_struct(p.chain, p.decay), time, batch, units, features, p.reverse,
        core.threads(), 0 if p.bias is None else len(p.bias), *map(pointer, read),
        pointer(lengths), pointer(output), pointer(h), pointer(c),
        *(pointer(tensor) if p.keep else None for tensor in kept),
    )  # fmt: skip
    core.call("string_forward", output.dtype, arguments)
    return output, h, c, *kept


def backward(*operands: Any) -> tuple[Tensor, ...]:
    """Return the same as ``gradient.backward``."""
    p = Backward(*operands)
    time, batch, units = p.output.shape
    grad = p.grad_output if p.grad_output.stride(2) == 1 else p.grad_output.contiguous()
    grad_h, grad_c = _contiguous(p.grad_h, p.grad_c)
    read = _contiguous(p.decay, p.weight, p.c0, p.carried, p.mask)
    lengths = None if p.lengths is None else p.lengths.long().contiguous()
    new = p.output.new_empty
    dz, to_h, to_c = new(p.products.shape), new(p.h0.shape), new(p.c0.shape)
    d_carry = new(p.output.shape) if p.chain.highway else None
    d_decay = None if p.decay is None else new(p.h0.shape)
    arguments = structs.StringBackwardStruct(
        core.chain_struct(p.chain, p.decay), time, batch, units, p.reverse, core.threads(),
        pointer(grad), grad.stride(0), grad.stride(1), pointer(grad_h), pointer(grad_c),
        pointer(p.products), pointer(p.states), *map(pointer, read), pointer(lengths),
        pointer(dz), pointer(d_carry), pointer(to_h), pointer(to_c), pointer(d_decay),
    )  # fmt: skip
    core.call("string_backward", dz.dtype, arguments)
    if p.weight is not None:
        of_first = dz[-1 if p.reverse else 0, :, p.chain.order] @ p.weight
        to_h += of_first if p.mask is None else p.mask * of_first
    d_carry = new(0) if d_carry is None else d_carry
    return finish(p, dz, to_h, to_c, d_carry, d_decay, core.product, core.transpose)


def refuses(x: Tensor, input_weight: Tensor | None, *rest: Any) -> str:
    """Say why the core cannot run a call of the op; "" if it can."""
    shape = x.shape if input_weight is None else input_weight.shape
    return core.refuses(x.dtype) if shape[-1] and shape[-2] else "has nothing to do without units"


def _contiguous(*tensors: Tensor | None) -> list[Tensor | None]:
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]
