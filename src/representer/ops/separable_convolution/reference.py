"""separable_convolution in torch: the filters written out, and a convolution with them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.grad import conv1d_input, conv1d_weight

from representer import functional


def forward(x: Tensor, mix: Tensor, taps: Tensor, stride: int, dilation: int) -> Tensor:
    """Return y ``(T, B, O)``."""
    y = functional.separable_convolution(x, mix, taps, stride=stride, dilation=dilation)
    return y.contiguous()


def backward(
    grad: Tensor, x: Tensor, mix: Tensor, taps: Tensor, stride: int, dilation: int, of_x: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x (empty unless requested), of mix and of taps."""
    size = (mix.shape[1], x.shape[2], taps.shape[2])
    dfilters = conv1d_weight(
        x.permute(1, 2, 0), size, grad.permute(1, 2, 0), stride, dilation=dilation
    )
    dx = of_input(grad, x, mix, taps, stride, dilation) if of_x else x.new_empty(0)
    return (
        dx,
        torch.einsum("oin,ron->roi", dfilters, taps).contiguous(),
        torch.einsum("oin,roi->ron", dfilters, mix).contiguous(),
    )


def of_input(
    grad: Tensor, x: Tensor, mix: Tensor, taps: Tensor, stride: int, dilation: int
) -> Tensor:
    """Return the gradient of x."""
    filters = torch.einsum("roi,ron->oin", mix, taps)
    size = [x.shape[1], x.shape[2], len(x)]
    dx = conv1d_input(size, filters, grad.permute(1, 2, 0), stride, dilation=dilation)
    return dx.permute(2, 0, 1).contiguous()
