"""separable_convolution in torch: the filters written out, and a convolution with them."""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, NamedTuple

import torch
from torch import Tensor
from torch.nn.grad import conv1d_input, conv1d_weight

from representer import functional
from representer.errors import ArgumentError, ShapeError
from representer.ops.table import Operand


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
