"""Parts of the scans that cover all steps at once: input products and sums over steps.

Shapes: T time, B batch, I features, G products with the input, R of them that depend on h, H units.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Multiply = Callable[[Tensor, Tensor], Tensor]
Transpose = Callable[[Tensor], Tensor]


def transpose(matrix: Tensor) -> Tensor:
    """Return the transpose of a matrix as a contiguous copy."""
    return matrix.t().contiguous()


def input_products(x: Tensor, input_weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return z ``(T, B, G, H)`` from the input ``(T, B, I)``."""
    flat_bias = None if bias is None else bias.flatten()
    return F.linear(x, input_weight.flatten(0, 1), flat_bias).unflatten(-1, input_weight.shape[:2])


def input_gradient(dz: Tensor, input_weight: Tensor, multiply: Multiply = torch.mm) -> Tensor:
    """Return the gradient of x ``(T, B, I)`` from that of z ``(T, B, G, H)``."""
    flat = multiply(dz.flatten(2).flatten(0, 1), input_weight.flatten(0, 1).contiguous())
    return flat.view(*dz.shape[:2], flat.shape[1])


def weight_gradient(dz: Tensor, inputs: Tensor, transpose: Transpose = transpose) -> Tensor:
    """Return sum_t dz_t x_t' ``(G, H, I)``, in the layout for which BLAS is fastest.

    ``inputs`` are x_t, or h_{t-1} for a recurrent weight, without NaN beyond the lengths.
    """
    product = inputs.flatten(0, 1).t() @ dz.flatten(2).flatten(0, 1)
    return transpose(product).view(*dz.shape[2:], inputs.shape[2])


def real(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Set the padding beyond the lengths to 0, even if it is NaN."""
    if lengths is None:
        return x
    is_real = torch.arange(x.shape[0], device=x.device)[:, None] < lengths
    return torch.where(is_real[:, :, None], x, 0.0)


def over_steps(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return the sum over steps and batch ``(H,)`` of ``(T, B, H)``."""
    return real(x, lengths).flatten(0, 1).sum(0)
