"""The parts of rkm_scan that are not sequential: gates, norms, and sums over all steps at once.

Shapes: T time, B batch, I features, G pre-activations, R those that depend on h, H units.
"""

from __future__ import annotations

import torch
from torch import Tensor

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
from representer.ops.rkm_scan.reference import ALL, Operands, Results, memory_of
from representer.ops.sequence import previous

JOINT = 128  # features and units up to which one product gives all gradients of weights


def normalize(fresh: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cells normalized before gain and bias, and 1 / their standard deviation."""
    centered = fresh - fresh.mean(-1, keepdim=True)  # var_mean warns about an empty batch
    scale = (centered.square().mean(-1, keepdim=True) + EPS).rsqrt()
    return centered * scale, scale


def gates_of(p: Operands, kept: Results) -> Tensor:
    """Return the gates ``(T, B, G, H)``, recomputed if they were not kept."""
    if p.keep == ALL:
        return kept.gates
    if p.input_weight is None:
        gates = p.z.clone(memory_format=torch.contiguous_format)
    else:
        gates = input_products(p.z, p.input_weight, p.bias).contiguous()
    if p.weight is not None:  # in place: the gates are the largest array of the gradient
        h_before = previous(kept.output, p.h0, p.lengths, p.reverse).flatten(0, 1)
        weight = p.weight.flatten(0, 1)
        gates.flatten(2).flatten(0, 1)[:, -len(weight) :].addmm_(h_before, weight.t())
    gates[:, :, 1:].sigmoid_()
    gates[:, :, 0] = NONLINEARITIES[p.cell.candidate].value(gates[:, :, 0])
    return gates


def finish(
    p: Operands,
    kept: Results,
    dz: Tensor,
    candidate: Tensor,
    g_fresh: Tensor | None,
    g_normed: Tensor | None,
    needs_z: bool,
    multiply: Multiply = torch.mm,
    transpose: Transpose = transpose,
) -> dict[str, Tensor]:
    """Return the gradients that follow from those of the pre-activations and cells.

    ``dz`` is the gradient of the pre-activations ``(T, B, G, H)``; ``g_fresh`` and ``g_normed`` are
    those of the cells before their norm, for the static gates, and after it ``(T, B, H)``.
    ``candidate`` is c~ of every step ``(T, B, H)``, read with ``g_fresh`` only.
    """
    found = {}
    if needs_z:
        weight = p.input_weight
        found["z"] = dz if weight is None else input_gradient(dz, weight, multiply)
    if _is_joint(p, dz):
        found |= _joint_gradients(p, kept, dz, transpose)
    else:
        if p.input_weight is not None:
            found["input_weight"] = weight_gradient(dz, real(p.z, p.lengths), transpose)
        if p.bias is not None:
            found["bias"] = dz.flatten(0, 1).sum(0)
        if p.weight is not None:
            h_before = previous(kept.output, p.h0, p.lengths, p.reverse)
            found["weight"] = weight_gradient(dz[:, :, -len(p.weight) :], h_before, transpose)
    if p.static is not None and g_fresh is not None:
        h_before = previous(kept.output, p.h0, p.lengths, p.reverse)
        c_before = previous(kept.cells, p.c0, p.lengths, p.reverse)
        memory = memory_of(p.cell, h_before, c_before)
        parts = [torch.zeros_like(p.static[0])] * 2
        if p.cell.input_gate == "static":
            parts[0] = over_steps(g_fresh * candidate, p.lengths)
        if p.cell.forget_gate == "static":
            parts[1] = over_steps(g_fresh * memory, p.lengths)
        found["static"] = torch.stack(parts)
    if p.norm is not None:
        assert g_normed is not None
        normed, _ = normalize(kept.fresh)
        parts = [over_steps(g_normed * normed, p.lengths), over_steps(g_normed, p.lengths)]
        found["norm"] = torch.stack(parts)
    return found


def _is_joint(p: Operands, dz: Tensor) -> bool:
    """Return True if every pre-activation depends on x and h, and most time goes to reading dz."""
    if p.input_weight is None or p.weight is None or len(p.weight) != dz.shape[2]:
        return False
    return p.z.shape[2] + dz.shape[3] <= JOINT


def _joint_gradients(
    p: Operands, kept: Results, dz: Tensor, transpose: Transpose
) -> dict[str, Tensor]:
    """Return the gradients of input_weight, bias and weight as parts of that of [x 1 h]."""
    features, ones, units = p.z.shape[2], int(p.bias is not None), dz.shape[3]
    seen = dz.new_ones(*dz.shape[:2], features + ones + units)
    seen[:, :, :features] = real(p.z, p.lengths)
    previous(kept.output, p.h0, p.lengths, p.reverse, out=seen[:, :, features + ones :])
    parts = weight_gradient(dz, seen, transpose).split((features, ones, units), 2)
    of_x, of_bias, of_h = (part.clone(memory_format=torch.contiguous_format) for part in parts)
    found = {"input_weight": of_x, "weight": of_h}
    return found | {"bias": of_bias[..., 0].contiguous()} if ones else found
