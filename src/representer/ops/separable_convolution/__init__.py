"""Convolutions with filters that are sums of products, on every backend (L19 (21))."""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.grad import conv1d_input, conv1d_weight

from representer import functional
from representer.errors import ArgumentError, ShapeError
from representer.ops import core, structs
from representer.ops.op import Backend, Op
from representer.ops.table import Operand, OperandTable

# separable_convolution in torch: the filters written out, and a convolution with them.


class Operands(NamedTuple):
    """Operands of separable_convolution."""

    x: Annotated[Tensor, Operand("samples batch inputs", on_request=True)]
    mix: Annotated[Tensor, Operand("rank filters inputs")]
    taps: Annotated[Tensor, Operand("rank filters slots")]
    stride: int
    dilation: int


class Results(NamedTuple):
    """Results of separable_convolution."""

    y: Annotated[Tensor, Operand("steps batch filters", saved=False)]


def sizes(p: Operands) -> dict[str, int]:
    """Check stride and dilation."""
    for name, value in (("stride", p.stride), ("dilation", p.dilation)):
        if value < 1:
            raise ArgumentError(name, value, "at least 1")
    return {}


def check(p: Operands, sizes: dict[str, int]) -> None:
    """Check that there is a step, and add the number of steps to the sizes."""
    rest = sizes["samples"] - (sizes["slots"] - 1) * p.dilation - 1
    if rest < 0:
        wanted = f"(samples, batch, inputs) with more than {sizes['samples'] - rest - 1} samples"
        raise ShapeError("x", tuple(p.x.shape), wanted)
    sizes["steps"] = rest // p.stride + 1


def forward(p: Operands, new: Results) -> Tensor:
    """Return y ``(T, B, O)``."""
    return functional.separable_convolution(**p._asdict()).contiguous()


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    size = (p.mix.shape[1], p.x.shape[2], p.taps.shape[2])
    dfilters = conv1d_weight(
        p.x.permute(1, 2, 0), size, grad.y.permute(1, 2, 0), p.stride, dilation=p.dilation
    )
    results = {
        "mix": torch.einsum("oin,ron->roi", dfilters, p.taps).contiguous(),
        "taps": torch.einsum("oin,roi->ron", dfilters, p.mix).contiguous(),
    }
    return results | ({"x": input_gradient(p, grad.y)} if "x" in requested else {})


def input_gradient(p: Operands, dy: Tensor) -> Tensor:
    """Return the gradient of x from that of y."""
    filters = torch.einsum("roi,ron->oin", p.mix, p.taps)
    size = [p.x.shape[1], p.x.shape[2], len(p.x)]
    dx = conv1d_input(size, filters, dy.permute(1, 2, 0), p.stride, dilation=p.dilation)
    return dx.permute(2, 0, 1).contiguous()


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
OP.add_backend(Backend("reference", (), forward, backward))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, core.refuses))
