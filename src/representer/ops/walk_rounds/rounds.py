"""walk_rounds and its gradient, written out, over any way to sum over the neighbours.

With Z = P's gradient, filled part by part, a round is

    dp_j = S_j o dc_j,  dS_j = p_j o dc_j,  dc_{j-1} and the gate's from the sum's gradient,
    dz = sigma' o dh',  down = dz,  dinner from the sum's gradient of U^T dz,
    dh = Z W,  dW += Z^T h,  dc += Z^T 1

All products with the labels of a round are one, and so are those of its gradient: the sums read and
write columns of one matrix.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from representer.functional import NONLINEARITIES
from representer.ops.walk_aggregate import arguments as sums
from representer.ops.walk_rounds.arguments import (
    Backward,
    Columns,
    Forward,
    Gradients,
    Rows,
    kept_shapes,
)


class Sums(Protocol):
    """A way to sum over the neighbours, into memory that is there."""

    def add_sums(self, p: sums.Forward, output: Tensor) -> None:
        """Add the sums."""
        ...

    def add_gradients(self, p: sums.Backward, into: sums.Gradients) -> None:
        """Add the gradients; those of weights are transposed, empty ones are not wanted."""
        ...


class _Weights(NamedTuple):
    """The weights of the edges, transposed once: units lie beside each other."""

    shift: Tensor
    factor: list[Tensor]
    edge_gate: Tensor | None

    @staticmethod
    def of(p: Forward | Backward) -> _Weights:
        def laid(weight: Tensor) -> Tensor:
            return weight.mT.contiguous().mT

        gate = None if p.edge_gate is None else laid(p.edge_gate)
        return _Weights(laid(p.shift), [laid(F_j) for F_j in p.factor], gate)


def _walk(p: Forward | Backward, w: _Weights, at: Columns, rows: Rows, j: int) -> sums.Forward:
    """Return the call that sums c_j+1 over the neighbours; of j = 0, c_1."""
    P = rows.products
    c = P[:, at.walks[j]]
    if j:
        c = c * rows.sums[j - 1]
    is_gated = w.edge_gate is not None
    return sums.Forward(
        c, p.edge_index, p.edge_attr, None, w.factor[j],
        P[:, at.source] if is_gated else None, P[:, at.target] if is_gated else None,
        w.edge_gate, p.scale, "identity",
    )  # fmt: skip


def _relabel(p: Forward | Backward, w: _Weights, at: Columns, rows: Rows) -> sums.Forward:
    """Return the call that sums what a node's neighbours tell it."""
    return sums.Forward(
        rows.products[:, at.inner], p.edge_index, p.edge_attr, w.shift, None, None, None, None, 1.0,
        p.activation,
    )  # fmt: skip


def forward(by: Sums, p: Forward) -> tuple[Tensor, Tensor, Tensor]:
    """Return y, and the labels and the tape, which are empty if they are not to be kept."""
    sums.check_ends(p.edge_index, len(p.labels))
    at, w = Columns.of(p), _Weights.of(p)
    of_hidden, of_tape = kept_shapes(p)
    hidden, tape = p.labels.new_empty(of_hidden), p.labels.new_empty(of_tape)
    scratch = p.labels.new_empty(0 if p.keep else 1, *of_tape[1:])
    y, h = p.labels.new_zeros(len(p.labels), p.factor.shape[1]), p.labels
    for level in range(p.depth):
        rows, used = Rows.of(p, tape[level] if p.keep else scratch[0]), at.used(p, level)
        torch.addmm(p.bias[used], h, p.weight[used].mT, out=rows.products[:, used])
        if level >= p.first:
            for j, S in enumerate(rows.sums):
                by.add_sums(_walk(p, w, at, rows, j), S.zero_())
            last = rows.products[:, at.walks[-1]]
            y = y.addcmul_(last, rows.sums[-1]) if len(rows.sums) else y.add_(last)
        if level < p.depth - 1:
            by.add_sums(_relabel(p, w, at, rows), rows.told.zero_())
            own = rows.products[:, at.own]
            torch.addmm(own, rows.told, p.neighbours.mT, out=rows.fresh)
            h = hidden[level] if p.keep else torch.empty_like(rows.fresh)
            _activate(p.activation, rows.fresh, h)
    return y, hidden, tape


def backward(by: Sums, p: Backward) -> Gradients:
    """Return the gradients."""
    at, w, dy = Columns.of(p), _Weights.of(p), p.grad_output.contiguous()
    (_, d), (steps, H, K) = p.labels.shape, p.factor.shape
    dW, dc, dU = (torch.zeros_like(x) for x in (p.weight, p.bias, p.neighbours))
    none = dy.new_empty(0)
    dB, dF = dy.new_zeros(K, d), dy.new_zeros(steps, K, H)
    dG = none if p.edge_gate is None else dy.new_zeros(K, H)
    d_edges = torch.zeros_like(p.edge_attr) if p.needs_edges else none
    Z, dh = dy.new_empty(len(p.labels), at.all.stop), none
    for level in reversed(range(p.depth)):
        rows, used = Rows.of(p, p.tape[level]), at.used(p, level)
        h = p.hidden[level - 1] if level else p.labels
        if level < p.depth - 1:
            dz = _sloped(p.activation, rows.fresh, p.hidden[level], dh)
            dU.addmm_(dz.mT, rows.told)
            Z[:, at.own] = dz
            into = sums.Gradients(Z[:, at.inner].zero_(), d_edges, dB, none, none, none, none)
            call = sums.Backward(dz @ p.neighbours, *_relabel(p, w, at, rows), p.needs_edges)
            by.add_gradients(call, into)
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
                by.add_gradients(sums.Backward(dS, *_walk(p, w, at, rows, j), p.needs_edges), into)
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
