"""rkm_scan on the compiled core: the loop there, the products of whole sequences in torch."""

from __future__ import annotations

from collections.abc import Container

from torch import Tensor

from representer.functional.rkm_scan import EPS
from representer.ops import core, structs
from representer.ops.products import input_products
from representer.ops.rkm_scan.products import finish, gates_of
from representer.ops.rkm_scan.reference import Operands, Results

# numbers of gates, and of those that depend on h
KNOWN = {(1, 0), (1, 1), (2, 0), (2, 2), (3, 2), (3, 3), (4, 4)}
FUSED = 2**22  # bytes of packed weights up to which the input product runs inside the loop


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    x, input_weight, bias = p.z, p.input_weight, p.bias
    time, batch, units = new.output.shape
    if input_weight is not None:
        weights = input_weight.numel() + len(input_weight) * units**2
        if weights * x.element_size() > FUSED:
            x, input_weight, bias = input_products(x, input_weight, bias), None, None
    inner = (1,) if input_weight is not None else (units, 1)
    x = x if x.stride()[2:] == inner else x.contiguous()
    core.run(
        "rkm_forward", structs.ForwardStruct, x.dtype, cell=core.cell_struct(p.cell), time=time,
        batch=batch, units=units, features=0 if input_weight is None else x.shape[2],
        reverse=p.reverse, biased=0 if bias is None else len(bias), x=core.Strided(x),
        x_time=x.stride(0), x_batch=x.stride(1), input_weight=input_weight, bias=bias,
        weight=p.weight, h0=p.h0, c0=p.c0, gate_values=p.static, norm=p.norm, hold=p.hold,
        lengths=p.lengths, out=new.output, h=new.h, c=new.c, epsilon=EPS,
        **core.filled(gates=new.gates, cells=new.cells, fresh=new.fresh),
    )  # fmt: skip
    return new


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    gates = gates_of(p, kept)
    time, batch, _, units = gates.shape
    upstream = grad.output if grad.output.stride(2) == 1 else grad.output.contiguous()
    dz, to_h, to_c = (gates.new_empty(x.shape) for x in (gates, p.h0, p.c0))
    g_fresh = gates.new_empty(kept.cells.shape) if "static" in requested else None
    g_normed = None if p.norm is None else gates.new_empty(kept.cells.shape)
    core.run(
        "rkm_backward", structs.BackwardStruct, gates.dtype, cell=core.cell_struct(p.cell),
        time=time, batch=batch, units=units, reverse=p.reverse,
        grad_output=core.Strided(upstream), grad_time=upstream.stride(0),
        grad_batch=upstream.stride(1), grad_h=grad.h, grad_c=grad.c, out=kept.output, gates=gates,
        cells=kept.cells, fresh=kept.fresh, weight=p.weight, h0=p.h0, c0=p.c0,
        gate_values=p.static, norm=p.norm, hold=p.hold, lengths=p.lengths, grad_z=dz,
        extra_h=to_h, grad_c0=to_c, grad_fresh=g_fresh, grad_normed=g_normed, epsilon=EPS,
    )  # fmt: skip
    if p.weight is not None:
        seen = dz[-1 if p.reverse else 0].flatten(1)[:, -len(p.weight) * units :]
        to_h = to_h.addmm_(seen, p.weight.flatten(0, 1))
    candidate = gates.new_empty(0) if g_fresh is None else gates[:, :, 0]
    del gates  # frees them if they were recomputed
    return {"h0": to_h, "c0": to_c} | finish(
        p, kept, dz, candidate, g_fresh, g_normed, "z" in requested, core.product, core.transpose
    )


def refuses(p: Operands) -> str:
    """Return why the core cannot run a call, or an empty string."""
    gates, seen = len(p.cell.gates), len(p.cell.recurrent_gates)
    if (gates, seen) not in KNOWN:
        return f"has no kernel for {gates} gates of which {seen} depend on h"
    return core.refuses(p)
