"""What is left of rkm_scan's gradient after the loop: sums over all steps, as large products.

Shapes: T time, B batch, G pre-activations, R those that see h (the last ones), H units.
"""

from __future__ import annotations

import torch
from torch import Tensor

from representer.functional.cell import Cell
from representer.functional.rkm_scan import EPS


def memory_before(cell: Cell, h_before: Tensor, c_before: Tensor) -> Tensor:
    """Return m_{t-1} of every step ``(T, B, H)``."""
    if cell.memory == "output":
        return h_before
    return c_before if cell.memory == "cell" else torch.expm1(c_before)


def normalise(fresh: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cells normalised before gain and bias, and 1 / their standard deviation."""
    variance, mean = torch.var_mean(fresh, dim=-1, correction=0, keepdim=True)
    scale = (variance + EPS).rsqrt()
    return (fresh - mean) * scale, scale


def weight_gradient(dz: Tensor, h_before: Tensor, weight: Tensor | None) -> Tensor:
    """Return sum_t da_t h_{t-1}' of the recurrent matrices ``(R, H, H)``; empty for none."""
    if weight is None:
        return dz.new_empty(0)
    seen_NX = dz.flatten(0, 1)[:, -len(weight) :].flatten(1)
    transposed = h_before.flatten(0, 1).t() @ seen_NX  # the layout that BLAS is fast on
    return transposed.t().reshape(weight.shape).contiguous()


def static_gradient(
    cell: Cell,
    g: Tensor | None,
    candidate: Tensor,
    memory: Tensor,
    static: Tensor | None,
    lengths: Tensor | None,
) -> Tensor:
    """Return the gradient of the static gates ``(2, H)`` from that of the cells; empty for none."""
    if static is None:
        return candidate.new_empty(0)
    assert g is not None
    zero = torch.zeros_like(static[0])
    written = _over_steps(g * candidate, lengths) if cell.input_gate == "static" else zero
    kept = _over_steps(g * memory, lengths) if cell.forget_gate == "static" else zero
    return torch.stack((written, kept))


def norm_gradient(g: Tensor | None, normed: Tensor, lengths: Tensor | None) -> Tensor:
    """Return the gradient of gain and bias ``(2, H)`` from that of their results."""
    if g is None:
        return normed.new_empty(0)
    return torch.stack((_over_steps(g * normed, lengths), _over_steps(g, lengths)))


def _over_steps(x: Tensor, lengths: Tensor | None) -> Tensor:
    if lengths is not None:
        is_real = torch.arange(len(x), device=x.device)[:, None] < lengths
        x = torch.where(is_real[:, :, None], x, 0.0)
    return x.flatten(0, 1).sum(0)
