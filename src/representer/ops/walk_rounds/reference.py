"""walk_rounds in torch, with its gradient written out.

With Z = P's gradient, filled part by part, a round is

    dp_j = S_j o dc_j,  dS_j = p_j o dc_j,  dc_{j-1} and the gate's from the sum's gradient,
    dz = sigma' o dh',  down = dz,  dinner from the sum's gradient of U^T dz,
    dh = Z W,  dW += Z^T h,  dc += Z^T 1

All products with the labels of a round are one, and so are those of its gradient: the sums read and
write columns of one matrix.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.functional import NONLINEARITIES
from representer.ops.walk_aggregate import arguments as sums
from representer.ops.walk_aggregate.reference import add_gradients, add_sums
from representer.ops.walk_rounds.arguments import (
    Backward,
    Columns,
    Forward,
    Gradients,
    Rows,
    kept_shapes,
)


def _walk(p: Forward | Backward, at: Columns, rows: Rows, j: int) -> sums.Forward:
    """Return the call that sums c_j+1 over the neighbors; of j = 0, c_1."""
    P = rows.products
    c = P[:, at.walks[j]]
    if j:
        c = c * rows.sums[j - 1]
    is_gated = p.edge_gate is not None
    return sums.Forward(
        c, p.edge_index, p.edge_attr, None, p.factor[j],
        P[:, at.source] if is_gated else None, P[:, at.target] if is_gated else None,
        p.edge_gate, p.scale, "identity",
    )  # fmt: skip


def _relabel(p: Forward | Backward, at: Columns, rows: Rows) -> sums.Forward:
    """Return the call that sums what a node's neighbors tell it."""
    return sums.Forward(
        rows.products[:, at.inner], p.edge_index, p.edge_attr, p.shift, None, None, None, None, 1.0,
        p.activation,
    )  # fmt: skip


def forward(*operands: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return y, and the labels and the tape, which are empty if they are not to be kept."""
    p = Forward(*operands)
    sums.check_ends(p.edge_index, len(p.labels))
    at = Columns.of(p)
    of_hidden, of_tape = kept_shapes(p)
    hidden, tape = p.labels.new_empty(of_hidden), p.labels.new_zeros(of_tape)  # not all written
    scratch = p.labels.new_empty(0 if p.keep else 1, *of_tape[1:])
    y, h = p.labels.new_zeros(len(p.labels), p.factor.shape[1]), p.labels
    for level in range(p.depth):
        rows, used = Rows.of(p, tape[level] if p.keep else scratch[0]), at.used(p, level)
        torch.addmm(p.bias[used], h, p.weight[used].mT, out=rows.products[:, used])
        if level >= p.first:
            for j, S in enumerate(rows.sums):
                add_sums(_walk(p, at, rows, j), S.zero_())
            last = rows.products[:, at.walks[-1]]
            y = y.addcmul_(last, rows.sums[-1]) if len(rows.sums) else y.add_(last)
        if level < p.depth - 1:
            add_sums(_relabel(p, at, rows), rows.told.zero_())
            z = rows.products[:, at.own].addmm_(rows.told, p.neighbors.mT)
            h = hidden[level] if p.keep else torch.empty_like(rows.told)
            _activate(p.activation, z, h)
    return y, hidden, tape


def backward(*operands: Any) -> Gradients:
    """Return the gradients."""
    p = Backward(*operands)
    at, dy = Columns.of(p), p.grad_output
    (_, d), (steps, H, K) = p.labels.shape, p.factor.shape
    dW, dc, dU = (x.new_zeros(x.shape) for x in (p.weight, p.bias, p.neighbors))
    none = dy.new_empty(0)
    dB, dF = dy.new_zeros(K, d), dy.new_zeros(steps, K, H)
    dG = none if p.edge_gate is None else dy.new_zeros(K, H)
    d_edges = p.edge_attr.new_zeros(p.edge_attr.shape) if p.needs_edges else none
    Z, dh = dy.new_empty(len(p.labels), at.all.stop), none
    for level in reversed(range(p.depth)):
        rows, used = Rows.of(p, p.tape[level]), at.used(p, level)
        h = p.hidden[level - 1] if level else p.labels
        if level < p.depth - 1:
            dz = _sloped(p.activation, rows.products[:, at.own], p.hidden[level], dh)
            dU.addmm_(dz.mT, rows.told)
            Z[:, at.own] = dz
            into = sums.Gradients(Z[:, at.inner].zero_(), d_edges, dB, none, none, none, none)
            call = sums.Backward(dz @ p.neighbors, *_relabel(p, at, rows), p.needs_edges)
            add_gradients(call, into)
        if level >= p.first:
            if p.edge_gate is not None:
                Z[:, slice(at.source.start, at.target.stop)] = 0
            dc_j = dy
            for j in reversed(range(steps)):
                torch.mul(rows.sums[j], dc_j, out=Z[:, at.walks[j + 1]])
                dS = rows.products[:, at.walks[j + 1]] * dc_j
                dc_j = torch.zeros_like(dS) if j else Z[:, at.walks[0]].zero_()
                gates = (none, none) if dG is none else (Z[:, at.source], Z[:, at.target])
                into = sums.Gradients(dc_j, d_edges, none, dF[j], *gates, dG)
                add_gradients(sums.Backward(dS, *_walk(p, at, rows, j), p.needs_edges), into)
            if not steps:
                Z[:, at.walks[0]] = dy
        dP = Z[:, used]
        dW[used].addmm_(dP.mT, h)
        dc[used] += dP.sum(0)
        dh = dP @ p.weight[used]
    return Gradients(
        dh, d_edges, dW, dc, dU, dB.mT.contiguous(), dF.mT.contiguous(),
        none if dG is none else dG.mT.contiguous(),
    )  # fmt: skip


def _activate(activation: str, z: Tensor, y: Tensor) -> None:
    """Write y = sigma(z)."""
    if activation == "relu":  # in one pass
        torch.clamp_min(z, 0, out=y)
    else:
        y.copy_(NONLINEARITIES[activation].value(z))


def _sloped(activation: str, z: Tensor, y: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of z from that of y = sigma(z)."""
    if activation == "relu":  # in one pass
        return torch.ops.aten.threshold_backward(gradient, y, 0)
    return gradient * NONLINEARITIES[activation].derivative(z, y)
