"""Convolutions with filters that are sums of products, on every backend (L19 (21))."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from torch import Tensor

from representer import functional
from representer.ops import core, structs
from representer.ops.op import Backend, Op
from representer.ops.separable_convolution import reference
from representer.ops.separable_convolution.reference import (
    Operands,
    Results,
    check,
    input_gradient,
    sizes,
)
from representer.ops.table import OperandTable

# separable_convolution on the compiled core.


def cpp_forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    _run("separable_forward", p, new.y, out=new.y)
    return new


def cpp_backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    dmix, dtaps = (w.new_zeros(w.shape[0], w.shape[2], w.shape[1]) for w in (p.mix, p.taps))
    dy = grad.y.contiguous()
    _run("separable_backward", p, dy, out=dy, grad=dy, grad_mix=dmix, grad_taps=dtaps)
    results = {"mix": dmix.mT.contiguous(), "taps": dtaps.mT.contiguous()}
    return results | ({"x": input_gradient(p, dy)} if "x" in requested else {})


def _run(operation: str, p: Operands, y: Tensor, **tensors: Any) -> None:
    time, batch, outputs = y.shape
    core.run(
        operation, structs.SeparableStruct, y.dtype, time=time, batch=batch, outputs=outputs,
        channels=p.x.shape[2], length=p.taps.shape[2], rank=len(p.taps), stride=p.stride,
        dilation=p.dilation, x=p.x, mix=p.mix.mT, taps=p.taps.mT, **tensors,
    )  # fmt: skip


def separable_convolution(
    x: Tensor,
    mix: Tensor,
    taps: Tensor,
    *,
    stride: int = 1,
    dilation: int = 1,
    backend: str | None = None,
) -> Tensor:
    r"""Convolve a sequence with filters that are sums of R products.

    .. math::
        y_t = \sum_{r=1}^R \sum_{k=0}^{n-1} \mathrm{taps}_r[k] \odot
        (\mathrm{mix}_r\, x_{t \cdot \mathrm{stride} + k \cdot \mathrm{dilation}})

    The channels are mixed once for each sample instead of once for each slot: R (stride I + n)
    products for each step and filter instead of I n.

    Arguments and results are those of ``functional.separable_convolution``. ``backend`` names a
    backend, which runs or raises; None is the fastest available one.

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not.
        ArgumentError: If stride or dilation is below 1.
        BackendError: If the requested backend cannot run the call.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (21).
    """
    return OP(Operands(x, mix, taps, stride, dilation), backend)


OP = Op("separable_convolution", separable_convolution, functional.separable_convolution)
OP.register(OperandTable(Operands, Results, sizes, check))
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, core.refuses))
