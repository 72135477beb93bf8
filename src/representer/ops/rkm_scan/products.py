"""The parts of rkm_scan that are not sequential: products and sums over all steps at once.

Shapes: T time, B batch, I features, G pre-activations, R those that see h (the last), H units.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.functional.cell import Cell
from representer.functional.nonlinearities import NONLINEARITIES
from representer.functional.rkm_scan import EPS
from representer.ops.rkm_scan.arguments import Backward, Gradients
from representer.ops.sequence import previous


def input_products(x: Tensor, input_weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return z ``(T, B, G, H)`` from the input ``(T, B, I)``."""
    flat_bias = None if bias is None else bias.flatten()
    return F.linear(x, input_weight.flatten(0, 1), flat_bias).unflatten(-1, input_weight.shape[:2])


def memory_before(cell: Cell, h_before: Tensor, c_before: Tensor) -> Tensor:
    """Return m_{t-1} of every step ``(T, B, H)``."""
    if cell.memory == "output":
        return h_before
    return c_before if cell.memory == "cell" else torch.expm1(c_before)


def normalise(fresh: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cells normalised before gain and bias, and 1 / their standard deviation."""
    centred = fresh - fresh.mean(-1, keepdim=True)  # var_mean warns about an empty batch
    scale = (centred.square().mean(-1, keepdim=True) + EPS).rsqrt()
    return centred * scale, scale


def gates_of(p: Backward) -> Tensor:
    """Return the gates ``(T, B, G, H)``: those that were kept, or the same computed again."""
    if p.gates.dim() == 4:  # else it is the empty (0,)
        return p.gates
    z = p.z if p.input_weight is None else input_products(p.z, p.input_weight, p.bias)
    gates = z.clone(memory_format=torch.contiguous_format)
    if p.weight is not None:
        h_before = previous(p.output, p.h0, p.lengths, p.reverse)
        fed = F.linear(h_before, p.weight.flatten(0, 1)).unflatten(-1, p.weight.shape[:2])
        gates[:, :, -len(p.weight) :] += fed
    gates[:, :, 1:].sigmoid_()
    gates[:, :, 0] = NONLINEARITIES[p.cell.candidate].value(gates[:, :, 0])
    return gates


def finish(
    p: Backward,
    dz: Tensor,
    to_h: Tensor,
    to_c: Tensor,
    candidate: Tensor,
    g_fresh: Tensor | None,
    g_normed: Tensor | None,
    multiply: Callable[[Tensor, Tensor], Tensor] = torch.mm,
    transpose: Callable[[Tensor], Tensor] = lambda matrix: matrix.t().contiguous(),
) -> Gradients:
    """Complete the gradients after the loop.

    Args:
        p: The operands.
        dz: Gradient of the pre-activations ``(T, B, G, H)``.
        to_h: Gradient of h0.
        to_c: Gradient of c0.
        candidate: c~ of every step ``(T, B, H)``.
        g_fresh: Gradient of the cells before their norm ``(T, B, H)``, for the static gates.
        g_normed: Gradient of the cells after their norm ``(T, B, H)``.
        multiply: The product of two matrices, for the gradient of the input.
        transpose: The transposed of a matrix, for the gradients of the weights.
    """
    empty = dz.new_empty(0)
    h_before = previous(p.output, p.h0, p.lengths, p.reverse)
    dx, d_input_weight, d_bias = dz, empty, empty.clone()
    if p.input_weight is not None:
        x = _real(p.z, p.lengths)
        d_input_weight = _outer(dz, x, transpose).view(p.input_weight.shape)
        d_bias = d_bias if p.bias is None else dz.flatten(0, 1).sum(0)
        dx = empty.clone()
        if p.needs_x:
            flat = multiply(dz.flatten(2).flatten(0, 1), p.input_weight.flatten(0, 1).contiguous())
            dx = flat.unflatten(0, dz.shape[:2])
    d_weight, d_static, d_norm = empty.clone(), empty.clone(), empty.clone()
    if p.weight is not None:
        d_weight = _outer(dz[:, :, -len(p.weight) :], h_before, transpose).view(p.weight.shape)
    if p.static is not None and p.needs_static:
        assert g_fresh is not None
        memory = memory_before(p.cell, h_before, previous(p.cells, p.c0, p.lengths, p.reverse))
        zero = torch.zeros_like(p.static[0])
        of_input = p.cell.input_gate == "static"
        written = _over_steps(g_fresh * candidate, p.lengths) if of_input else zero
        of_forget = p.cell.forget_gate == "static"
        kept = _over_steps(g_fresh * memory, p.lengths) if of_forget else zero
        d_static = torch.stack((written, kept))
    if p.norm is not None:
        assert g_normed is not None
        normed, _ = normalise(p.fresh)
        d_norm = torch.stack(
            (_over_steps(g_normed * normed, p.lengths), _over_steps(g_normed, p.lengths))
        )
    return Gradients(dx, d_input_weight, d_bias, d_weight, to_h, to_c, d_static, d_norm)


def _outer(dz: Tensor, inputs: Tensor, transpose: Callable[[Tensor], Tensor]) -> Tensor:
    """Return sum_t da_t x_t', by the layout of the product that BLAS is fastest on."""
    return transpose(inputs.flatten(0, 1).t() @ dz.flatten(2).flatten(0, 1))


def _real(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Set what stands beyond the lengths to 0, whatever it is."""
    if lengths is None:
        return x
    is_real = torch.arange(len(x), device=x.device)[:, None] < lengths
    return torch.where(is_real[:, :, None], x, 0.0)


def _over_steps(x: Tensor, lengths: Tensor | None) -> Tensor:
    return _real(x, lengths).flatten(0, 1).sum(0)
