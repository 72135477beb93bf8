"""string_scan on the compiled core: products and chain there, sums over steps in torch."""

from __future__ import annotations

from collections.abc import Container

from torch import Tensor

from representer.ops import core, structs
from representer.ops.string_scan.gradient import finish
from representer.ops.string_scan.reference import Operands, Results


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    time, batch, units = new.output.shape
    core.run(
        "string_forward", structs.StringForwardStruct, new.output.dtype,
        chain=core.chain_struct(p.chain, p.decay), time=time, batch=batch, units=units,
        features=0 if p.input_weight is None else p.x.shape[2], reverse=p.reverse,
        biased=0 if p.bias is None else len(p.bias), x=p.x, input_weight=p.input_weight,
        bias=p.bias, decay=p.decay, weight=p.weight, h0=p.h0, c0=p.c0, carry=p.carried,
        mask=p.mask, lengths=p.lengths, out=new.output, h=new.h, c=new.c,
        **core.filled(products=new.products, states=new.states),
    )  # fmt: skip
    return new


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    time, batch, units = kept.output.shape
    upstream = grad.output if grad.output.stride(2) == 1 else grad.output.contiguous()
    new = kept.output.new_empty
    dz, to_h, to_c = new(kept.products.shape), new(p.h0.shape), new(p.c0.shape)
    d_carry = new(kept.output.shape) if p.chain.highway else None
    d_decay = None if p.decay is None else new(p.h0.shape)
    core.run(
        "string_backward", structs.StringBackwardStruct, dz.dtype,
        chain=core.chain_struct(p.chain, p.decay), time=time, batch=batch, units=units,
        reverse=p.reverse, grad_output=core.Strided(upstream), grad_time=upstream.stride(0),
        grad_batch=upstream.stride(1), grad_h=grad.h, grad_c=grad.c, products=kept.products,
        states=kept.states, decay=p.decay, weight=p.weight, c0=p.c0, carry=p.carried,
        mask=p.mask, lengths=p.lengths, grad_z=dz, grad_carry=d_carry, extra_h=to_h, grad_c0=to_c,
        grad_decay=d_decay,
    )  # fmt: skip
    if p.weight is not None:
        of_first = dz[-1 if p.reverse else 0, :, p.chain.order] @ p.weight
        to_h += of_first if p.mask is None else p.mask * of_first
    return {"h0": to_h, "c0": to_c} | finish(
        p, kept, dz, d_carry, d_decay, "x" in requested, core.product, core.transpose
    )


def refuses(p: Operands) -> str:
    """Return why the core cannot run a call, or an empty string."""
    shape = p.x.shape if p.input_weight is None else p.input_weight.shape
    has_units = shape[-1] and shape[-2]
    return core.refuses(p) if has_units else "has nothing to do without units"
