"""kbrn_scan on the compiled core; sums over all steps in torch."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
from torch import Tensor

from representer.functional.kernel_activation import GREENS
from representer.ops import core, structs
from representer.ops.kbrn_scan.reference import Operands, Results, input_gradients


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    _run("kbrn_forward", p, new.output, z=p.z, **core.filled(used=new.used, normed=new.normed),
         out=new.output, h=new.h)  # fmt: skip
    return new


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    named = {"h0": p.h0, "centers": p.centers, "coefficients": p.coefficients}
    named |= {"line": p.line, "norm": p.norm}
    found = {
        name: torch.empty_like(x, memory_format=torch.contiguous_format)
        for name, x in named.items()
        if x is not None
    }
    dz = torch.empty_like(kept.output)
    _run(
        "kbrn_backward", p, kept.output, out=kept.output, used=kept.used, normed=kept.normed,
        grad_output=grad.output, grad_h=grad.h, grad_z=dz,
        **{f"grad_{name}": x for name, x in found.items()},
    )  # fmt: skip
    return found | input_gradients(p, kept, dz)


def refuses(p: Operands) -> str:
    """Return why the core cannot run a call, or an empty string."""
    return core.refuses(p) if p.z.shape[-1] else "has nothing to do without units"


def _run(operation: str, p: Operands, like: Tensor, **tensors: Any) -> None:
    """Run an operation of the core on the operands and on tensors by the struct's names."""
    time, batch, units = like.shape
    statistics = p.statistics
    if statistics is not None and (statistics.stride(3) != 1 or batch * units == 0):
        statistics = statistics.contiguous()  # otherwise the core reads it by its strides
    strides = (0, 0, 0) if statistics is None else statistics.stride()[:3]
    core.run(
        operation, structs.KbrnStruct, like.dtype, time=time, batch=batch, units=units,
        count=p.centers.shape[1], green=list(GREENS).index(p.green), of_batch=p.uses_batch,
        stat_kind=strides[0], stat_time=strides[1], stat_batch=strides[2], weight=p.weight,
        h0=p.h0, centers=p.centers, coefficients=p.coefficients, line=p.line, norm=p.norm,
        statistics=statistics if statistics is None else core.Strided(statistics),
        lengths=p.lengths, bandwidth=p.bandwidth, epsilon=p.epsilon, **tensors,
    )  # fmt: skip
