"""The n-gram input of a filter, and its product with the filter.

    X~ . X_t = X~_0 x_t + X~_1 x_{t-d} + ... + X~_{n-1} x_{t-(n-1)d}

Liang et al. 2019, (12)-(14) and section 4.2 (d is the dilation). Steps before the first are zeros
at the start of a sequence. Shapes: T time, B batch, I features, n filter length, P = (n-1)d
preceding steps of a window, O filters.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def ngram_product_definition(x: Tensor, filters: Tensor, dilation: int = 1) -> Tensor:
    """Evaluate X~ . X_t as written, with zeros before the first step. An oracle.

    Args:
        x: Sequence ``(T, B, I)``.
        filters: ``(O, I, n)``; slot s multiplies x_{t - s d}.
        dilation: d, steps between the slots.

    Returns:
        ``(T, B, O)``.
    """
    products = x.new_zeros(*x.shape[:2], len(filters))
    for t in range(len(x)):
        for s in range(filters.shape[-1]):
            if t - s * dilation >= 0:
                products[t] += x[t - s * dilation] @ filters[:, :, s].T
    return products


def ngram_product(
    x_extended: Tensor, filters: Tensor, dilation: int = 1, *, reverse: bool = False
) -> Tensor:
    """Multiply every window with every filter, as one matrix product.

    Args:
        x_extended: The sequence with the P steps before it ``(P + T, B, I)``; with ``reverse``,
            with the P steps after it.
        filters: ``(O, I, n)``; slot s multiplies x_{t - s d}, or x_{t + s d} with ``reverse``.
        dilation: d, steps between the slots.
        reverse: Read the sequence from its end.

    Returns:
        ``(T, B, O)``.
    """
    windows = ngram_windows(x_extended, filters.shape[-1], dilation, reverse=reverse)
    return F.linear(windows, filters.movedim(2, 1).flatten(1))


def ngram_windows(
    x_extended: Tensor, n: int, dilation: int = 1, *, reverse: bool = False
) -> Tensor:
    """Return X_t of every step ``(T, B, n I)``, newest slot first; see `ngram_product`."""
    if n == 1:
        return x_extended
    reach = (n - 1) * dilation
    time = x_extended.shape[0] - reach
    starts = range(0, reach + 1, dilation)
    shifted = [x_extended[start : start + time] for start in (starts if reverse else starts[::-1])]
    return torch.cat(shifted, dim=-1)
