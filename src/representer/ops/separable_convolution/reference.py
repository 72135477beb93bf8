"""separable_convolution in torch: the filters written out, and a convolution with them."""

from __future__ import annotations

from collections.abc import Container

import torch
from torch import Tensor
from torch.nn.grad import conv1d_input, conv1d_weight

from representer import functional
from representer.ops.separable_convolution.arguments import Operands, Results


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
    found = {
        "mix": torch.einsum("oin,ron->roi", dfilters, p.taps).contiguous(),
        "taps": torch.einsum("oin,roi->ron", dfilters, p.mix).contiguous(),
    }
    return found | ({"x": input_gradient(p, grad.y)} if "x" in requested else {})


def input_gradient(p: Operands, dy: Tensor) -> Tensor:
    """Return the gradient of x from that of y."""
    filters = torch.einsum("roi,ron->oin", p.mix, p.taps)
    size = [p.x.shape[1], p.x.shape[2], len(p.x)]
    dx = conv1d_input(size, filters, dy.permute(1, 2, 0), p.stride, dilation=p.dilation)
    return dx.permute(2, 0, 1).contiguous()
