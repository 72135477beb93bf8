"""separable_convolution on the compiled core."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from torch import Tensor

from representer.ops import core, structs
from representer.ops.separable_convolution.reference import Operands, Results, input_gradient


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    _run("separable_forward", p, new.y, out=new.y)
    return new


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    dmix, dtaps = (w.new_zeros(w.shape[0], w.shape[2], w.shape[1]) for w in (p.mix, p.taps))
    dy = grad.y.contiguous()
    _run("separable_backward", p, dy, out=dy, grad=dy, grad_mix=dmix, grad_taps=dtaps)
    found = {"mix": dmix.mT.contiguous(), "taps": dtaps.mT.contiguous()}
    return found | ({"x": input_gradient(p, dy)} if "x" in requested else {})


def _run(operation: str, p: Operands, y: Tensor, **tensors: Any) -> None:
    time, batch, outputs = y.shape
    core.run(
        operation, structs.SeparableStruct, y.dtype, time=time, batch=batch, outputs=outputs,
        channels=p.x.shape[2], length=p.taps.shape[2], rank=len(p.taps), stride=p.stride,
        dilation=p.dilation, x=p.x, mix=p.mix.mT, taps=p.taps.mT, **tensors,
    )  # fmt: skip
