"""The parts of rkm_scan that are not sequential: gates, norms, and sums over all steps at once.

Shapes: T time, B batch, I features, G pre-activations, R those that see h (the last), H units.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.functional.cell import Cell
from representer.functional.nonlinearities import NONLINEARITIES
from representer.functional.rkm_scan import EPS
from representer.ops.products import (
    Multiply,
    Transpose,
    input_gradient,
    input_products,
    over_steps,
    real,
    transpose,
    weight_gradient,
)
from representer.ops.rkm_scan.arguments import Backward, Gradients
from representer.ops.sequence import previous

JOINT = 128  # features and units up to which one product gives all gradients of weights


def memory_before(cell: Cell, h_before: Tensor, c_before: Tensor) -> Tensor:
    """Return m_{t-1} of every step ``(T, B, H)``."""
    if cell.memory == "output":
        return h_before
    return c_before if cell.memory == "cell" else torch.expm1(c_before)


def normalize(fresh: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cells normalized before gain and bias, and 1 / their standard deviation."""
    centered = fresh - fresh.mean(-1, keepdim=True)  # var_mean warns about an empty batch
    scale = (centered.square().mean(-1, keepdim=True) + EPS).rsqrt()
    return centered * scale, scale


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
    multiply: Multiply = torch.mm,
    transpose: Transpose = transpose,
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
    dx, d_input_weight, d_bias, d_weight = dz, empty, empty.clone(), empty.clone()
    d_static, d_norm = empty.clone(), empty.clone()
    if p.input_weight is not None:
        dx = input_gradient(dz, p.input_weight, multiply) if p.needs_x else empty.clone()
    if _is_joint(p, dz):
        d_input_weight, d_bias, d_weight = _joint_gradients(p, dz, transpose)
    else:
        if p.input_weight is not None:
            d_input_weight = weight_gradient(dz, real(p.z, p.lengths), transpose)
            d_bias = d_bias if p.bias is None else dz.flatten(0, 1).sum(0)
        if p.weight is not None:
            h_before = previous(p.output, p.h0, p.lengths, p.reverse)
            d_weight = weight_gradient(dz[:, :, -len(p.weight) :], h_before, transpose)
    if p.static is not None and p.needs_static:
        assert g_fresh is not None
        h_before = previous(p.output, p.h0, p.lengths, p.reverse)
        memory = memory_before(p.cell, h_before, previous(p.cells, p.c0, p.lengths, p.reverse))
        zero = torch.zeros_like(p.static[0])
        of_input = p.cell.input_gate == "static"
        written = over_steps(g_fresh * candidate, p.lengths) if of_input else zero
        of_forget = p.cell.forget_gate == "static"
        kept = over_steps(g_fresh * memory, p.lengths) if of_forget else zero
        d_static = torch.stack((written, kept))
    if p.norm is not None:
        assert g_normed is not None
        normed, _ = normalize(p.fresh)
        d_norm = torch.stack(
            (over_steps(g_normed * normed, p.lengths), over_steps(g_normed, p.lengths))
        )
    return Gradients(dx, d_input_weight, d_bias, d_weight, to_h, to_c, d_static, d_norm)


def _is_joint(p: Backward, dz: Tensor) -> bool:
    """Return True if all pre-activations see x and h, and reading dz costs most."""
    if p.input_weight is None or p.weight is None or len(p.weight) != dz.shape[2]:
        return False
    return p.z.shape[2] + dz.shape[3] <= JOINT


def _joint_gradients(
    p: Backward, dz: Tensor, transpose: Transpose
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of input_weight, bias and weight as parts of one, that of [x 1 h]."""
    features, ones, units = p.z.shape[2], int(p.bias is not None), dz.shape[3]
    seen = dz.new_ones(*dz.shape[:2], features + ones + units)
    seen[:, :, :features] = real(p.z, p.lengths)
    previous(p.output, p.h0, p.lengths, p.reverse, out=seen[:, :, features + ones :])
    parts = weight_gradient(dz, seen, transpose).split((features, ones, units), 2)
    of_x, of_bias, of_h = (part.clone(memory_format=torch.contiguous_format) for part in parts)
    return of_x, of_bias[..., 0].contiguous() if ones else dz.new_empty(0), of_h
