"""separable_convolution on the compiled core."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from representer.ops import core, structs
from representer.ops.core import pointer
from representer.ops.separable_convolution.reference import of_input


def forward(x: Tensor, mix: Tensor, taps: Tensor, stride: int, dilation: int) -> Tensor:
    """Return y ``(T, B, O)``."""
    steps = (len(x) - (taps.shape[2] - 1) * dilation - 1) // stride + 1
    y = x.new_empty(steps, x.shape[1], mix.shape[1])
    _call("separable_forward", x, mix, taps, y, (None, None, None), stride, dilation)
    return y


def backward(
    grad: Tensor, x: Tensor, mix: Tensor, taps: Tensor, stride: int, dilation: int, of_x: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x, empty if it is not asked for, of mix and of taps."""
    grad = grad.contiguous()
    dmix, dtaps = (w.new_zeros(w.shape[0], w.shape[2], w.shape[1]) for w in (mix, taps))
    _call("separable_backward", x, mix, taps, grad, (grad, dmix, dtaps), stride, dilation)
    dx = of_input(grad, x, mix, taps, stride, dilation) if of_x else x.new_empty(0)
    return dx, dmix.transpose(1, 2).contiguous(), dtaps.transpose(1, 2).contiguous()


def refuses(x: Tensor, *arguments: Any) -> str:
    """Say why the core cannot run a call of the op; "" if it can."""
    return core.refuses(x.dtype)


def _call(
    operation: str,
    x: Tensor,
    mix: Tensor,
    taps: Tensor,
    y: Tensor,
    gradients: tuple[Tensor | None, ...],
    stride: int,
    dilation: int,
) -> None:
    rank, _, n = taps.shape
    x, mix, taps = x.contiguous(), *(w.transpose(1, 2).contiguous() for w in (mix, taps))
    arguments = structs.SeparableStruct(
        *y.shape, x.shape[2], n, rank, stride, dilation, core.threads(),
        *map(pointer, (x, mix, taps, y, *gradients)),
    )  # fmt: skip
    core.call(operation, x.dtype, arguments)
