"""kbrn_scan on the compiled core; what sums over all steps in torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.functional.kernel_activation import GREENS
from representer.ops import core, structs
from representer.ops.core import pointer
from representer.ops.kbrn_scan.arguments import Backward, Forward
from representer.ops.kbrn_scan.reference import finish
from representer.ops.sequence import Steps


def forward(*operands: Any) -> tuple[Tensor, ...]:
    """Return the same as ``reference.forward``."""
    p = Forward(*operands)
    Steps(len(p.z), p.lengths, False)  # checks the lengths
    z = p.z.contiguous()
    results = tuple(p.h0.new_empty(shape) for shape in p.result_shapes)
    output, h, used, normed = results
    _call("kbrn_forward", p, z, z=z, out=output, h=h, used=used, normed=normed if p.keep else None)
    return results


def backward(*operands: Any) -> tuple[Tensor, ...]:
    """Return the same as ``reference.backward``."""
    p = Backward(*operands)
    dz, dh, d_centers, d_coefficients = (
        torch.empty_like(x, memory_format=torch.contiguous_format)
        for x in (p.output, p.h0, p.centers, p.coefficients)
    )
    d_line = p.h0.new_empty((0,) if p.line is None else p.line.shape)
    d_norm = p.h0.new_empty((0,) if p.norm is None else p.norm.shape)
    _call(
        "kbrn_backward", p, p.output, used=p.used, normed=p.normed,
        grad_output=p.grad_output.contiguous(), grad_h=p.grad_h.contiguous(), grad_z=dz,
        grad_h0=dh, grad_centers=d_centers, grad_coefficients=d_coefficients,
        grad_line=None if p.line is None else d_line,
        grad_norm=None if p.norm is None else d_norm,
    )  # fmt: skip
    return finish(p, dz, dh, d_centers, d_coefficients, d_line, d_norm)


def refuses(z: Tensor, *rest: Any) -> str:
    """Say why the core cannot run a call of the op; "" if it can."""
    return core.refuses(z.dtype) if z.shape[-1] else "has nothing to do without units"


def _call(operation: str, p: Forward | Backward, like: Tensor, **given: Tensor | None) -> None:
    """Run an operation of the core on operands and further tensors, by the struct's names."""
    time, batch, units = like.shape
    named = ("weight", "h0", "centers", "coefficients", "line", "norm")
    tensors = {name: getattr(p, name) for name in named}
    tensors = {name: None if x is None else x.contiguous() for name, x in tensors.items()}
    statistics = p.statistics
    if statistics is not None and (statistics.stride(3) != 1 or batch * units == 0):
        statistics = statistics.contiguous()  # of other strides it is read where it is
    strides = (0, 0, 0) if statistics is None else statistics.stride()[:3]
    lengths = None if p.lengths is None else p.lengths.long().contiguous()
    tensors |= {"statistics": statistics, "lengths": lengths, **given}
    arguments = structs.KbrnStruct(
        time=time, batch=batch, units=units, count=p.centers.shape[1],
        green=list(GREENS).index(p.green), threads=core.threads(), of_batch=p.of_batch,
        stat_kind=strides[0], stat_time=strides[1], stat_batch=strides[2],
        bandwidth=p.bandwidth, epsilon=p.epsilon,
        **{name: pointer(tensor) for name, tensor in tensors.items()},
    )  # fmt: skip
    core.call(operation, like.dtype, arguments)
