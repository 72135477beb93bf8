"""The recurrent kernel of L19, as nested applications of q.

    k(x_1..x_T, y) = q(<y, x_T> + q(<y, x_{T-1}> + ... q(<y, x_1>)))            (5)

and, between two sequences aligned from their last tokens,

    k(x, y) = q(<x_T, y_S> + k(x_{<T}, y_{<S})),      k(empty, .) = 0.

Liang et al. 2019, (4)-(7), (14); Hermans & Schrauwen 2012. Footnote 2's Gaussian form is a function
of the distance, q(||z~ - z||^2) with q(d) = e^{-d/2}, where ||h~ - h||^2 = 2 - 2k for the feature
vectors of the kernel, and 0 before the first step.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def recurrent_kernel_definition(
    similarities: Tensor, q: Callable[[Tensor], Tensor], steps: int | None = None
) -> Tensor:
    """Nest q over similarities ``(T, ...)``, oldest first. An oracle: recursive.

    Args:
        similarities: <y_s, x_s> for the aligned pairs of steps ``(T, ...)``.
        q: Elementwise function.
        steps: Number of steps to nest, from the first; all by default.

    Returns:
        k ``(...)``; zeros for T = 0.
    """
    steps = len(similarities) if steps is None else steps
    if steps == 0:
        return similarities.new_zeros(similarities.shape[1:])
    earlier = recurrent_kernel_definition(similarities, q, steps - 1)
    return q(similarities[steps - 1] + earlier)


def gaussian_kernel_definition(squared_distances: Tensor) -> Tensor:
    """Evaluate footnote 2's form over ||x~ - x_s||^2 ``(T, ...)``, oldest first. An oracle.

    Returns:
        k ``(...)`` in (0, 1]; ones for T = 0.
    """
    hidden = squared_distances.new_zeros(squared_distances.shape[1:])  # ||h~_0 - h_0||^2
    k = torch.ones_like(hidden)
    for distance in squared_distances:
        k = torch.exp(-(distance + hidden) / 2)
        hidden = 2 - 2 * k
    return k
