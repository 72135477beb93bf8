"""A convolution over time with filters of low rank, separable into channels and slots.

    y_t[o] = sum_r sum_k taps_r[o, k] z_r[t stride + k dilation, o],    z_r[s] = mix_r x_s

Wavelets of one frequency for all channels (Liang et al. 2019, (21)) have rank R = 2: a cosine and a
sine, weighted by channel. Shapes: S samples, I channels, O filters, n slots.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def separable_convolution(
    x: Tensor, mix: Tensor, taps: Tensor, *, stride: int = 1, dilation: int = 1
) -> Tensor:
    """Convolve with separable filters, whose slot 0 is the oldest sample as in ``F.conv1d``.

    Args:
        x: ``(S, B, I)``.
        mix: ``(R, O, I)``.
        taps: ``(R, O, n)``.
        stride: Samples between two steps.
        dilation: Samples between two slots.

    Returns:
        y ``(T, B, O)`` with T = floor((S - (n - 1) dilation - 1) / stride) + 1.
    """
    filters = torch.einsum("roi,ron->oin", mix, taps)
    product = F.conv1d(x.permute(1, 2, 0), filters, stride=stride, dilation=dilation)
    return product.permute(2, 0, 1)


def separable_convolution_definition(
    x: Tensor, mix: Tensor, taps: Tensor, *, stride: int = 1, dilation: int = 1
) -> Tensor:
    """Evaluate the sum as written. An oracle; arguments as in ``separable_convolution``."""
    rank, outputs, n = taps.shape
    steps = (x.shape[0] - (n - 1) * dilation - 1) // stride + 1
    y = x.new_zeros(steps, x.shape[1], outputs)
    for t in range(steps):
        for b in range(x.shape[1]):
            for o in range(outputs):
                for r in range(rank):
                    for k in range(n):
                        mixed = torch.dot(mix[r, o], x[t * stride + k * dilation, b])
                        y[t, b, o] += taps[r, o, k] * mixed
    return y
