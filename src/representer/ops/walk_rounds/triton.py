# type: ignore  (see walk_aggregate/triton.py)
"""walk_rounds in Triton: the sums over the neighbors; products with the labels are in BLAS.

The sums of a gradient write columns of one matrix for each round, from which one product gives the
gradient of the weight, and parts of those of the other weights, which are added up once.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from typing import Any

import torch
from torch import Tensor

from representer.functional import NONLINEARITIES
from representer.ops.walk_aggregate.triton import (
    Edges,
    edges_of_nodes,
    evaluate,
    launch_gradients,
    new_parts,
)
from representer.ops.walk_rounds import Columns, Operands, Results, Rows, relabel, walk
from representer.ops.walk_rounds import forward as reference_forward

_SLOPES = {
    "relu": lambda grad, y, out: _ATEN.threshold_backward.grad_input(grad, y, 0, grad_input=out),
    "sigmoid": lambda grad, y, out: _ATEN.sigmoid_backward.grad_input(grad, y, grad_input=out),
    "tanh": lambda grad, y, out: _ATEN.tanh_backward.grad_input(grad, y, grad_input=out),
}
_ATEN: Any = torch.ops.aten


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""

    def sum_up(operands: Any, out: Tensor, *end: Tensor) -> None:
        evaluate(operands, out, incoming, *end)

    incoming = _edges(p, 1)
    return reference_forward(p, new, sum_up)


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    c, edges, steps, depth = Columns.of(p), (_edges(p, 1), _edges(p, 0)), len(p.factor), p.depth
    launch, nodes = partial(launch_gradients, edges=edges), len(p.labels)
    Z = grad.y.new_empty(depth, nodes, c.all.stop)  # gradients of all products
    unwritten = [Z[-1, :, : c.own.stop], Z[: p.first, :, c.own.stop :]]
    unwritten += [Z[:, :, c.source.start :]] * (steps == 0)
    for columns in unwritten:
        if columns.numel():
            columns.zero_()
    rows = [Rows.of(p, tape) for tape in kept.tape]
    of_relabel = new_parts(relabel(p, c, rows[0]), requested, depth - 1)
    of_walk = new_parts(walk(p, c, rows[0], 0), requested, depth - p.first, steps) if steps else {}
    neighbors, dh = torch.zeros_like(p.neighbors), grad.y
    for level in reversed(range(depth)):
        r, to, used = rows[level], Z[level], c.used(p, level)
        if level < depth - 1:
            dz, y = to[:, c.own], kept.hidden[level]
            if p.activation in _SLOPES:
                _SLOPES[p.activation](dh, y, dz)
            else:
                dz.copy_(dh * NONLINEARITIES[p.activation].derivative(r.products[:, c.own], y))
            neighbors.addmm_(dz.mT, r.message)
            parts = {name: chunk[level] for name, chunk in of_relabel.items()}
            launch(relabel(p, c, r), dz @ p.neighbors, to={"nodes": to[:, c.inner], **parts})
        dc = grad.y
        for j in reversed(range(steps if level >= p.first else 0)):
            operands, scratch = walk(p, c, r, j), to if j == steps - 1 else torch.empty_like(to)
            gradients = {
                "times": to[:, c.walks[j + 1]],
                "nodes": (scratch if j else to)[:, c.walks[0]],
            }
            if p.edge_gate is not None:
                gradients |= {
                    "source_gate": scratch[:, c.source],
                    "target_gate": scratch[:, c.target],
                }
            gradients |= {name: chunk[level - p.first, j] for name, chunk in of_walk.items()}
            launch(operands, dc, to=gradients, times=r.products[:, c.walks[j + 1]], sums=r.sums[j])
            if scratch is not to:
                to[:, c.source.start :] += scratch[:, c.source.start :]
            dc = gradients["nodes"]
        if level >= p.first and not steps:
            to[:, c.walks[0]] = dc
        dh = to[:, used] @ p.weight[used]
    labels, to = torch.cat((p.labels[None], kept.hidden)).flatten(0, 1), Z.flatten(0, 1)
    gradients = {"labels": dh, "weight": to.mT @ labels, "bias": to.sum(0), "neighbors": neighbors}
    gradients["factor"] = of_walk["factor"].sum((0, 2)) if steps else torch.zeros_like(p.factor)
    gradients["shift"] = of_relabel["shift"].sum((0, 1))
    if p.edge_gate is not None:
        of_gate = of_walk.get("edge_gate")
        gradients["edge_gate"] = p.edge_gate * 0 if of_gate is None else of_gate.sum((0, 1, 2))
    if "edge_attr" in requested:
        parts = [chunk["edge_attr"].flatten(0, -3) for chunk in (of_relabel, of_walk) if chunk]
        gradients["edge_attr"] = torch.cat(parts).sum(0)
    return {name: x.to(dh.dtype) for name, x in gradients.items()}


def _edges(p: Operands, end: int) -> Edges:
    return edges_of_nodes(p.edge_index, end, len(p.labels))
