"""walk_rounds on the compiled core."""

from __future__ import annotations

from collections.abc import Container
from math import prod
from typing import Any

from torch import Tensor

from representer.functional import NONLINEARITIES
from representer.ops import core, structs
from representer.ops.walk_aggregate.cpp import transposed
from representer.ops.walk_rounds.reference import Operands, Results

_CODES = {name: code for code, name in enumerate(NONLINEARITIES)}


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    hidden, tape = new.hidden, new.tape
    if not p.keep:  # memory for one round
        hidden = p.labels.new_empty(p.labels.shape)
        tape = p.labels.new_empty(sum(map(prod, p.parts)))
    _run("rounds_forward", p, keep=p.keep, out=new.y, hidden=hidden, tape=tape)
    return new


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    (N, d), (steps, H, K) = p.labels.shape, p.factor.shape
    new = p.labels.new_zeros
    found = {
        "labels": new(N, d),
        "weight": new(p.weight.shape),
        "bias": new(p.bias.shape),
        "neighbors": new(d, d),
        "shift": new(K, d),
        "factor": new(steps, K, H),
    }
    if p.edge_gate is not None:
        found["edge_gate"] = new(K, H)
    threads = core.threads()  # read once: the memory for their parts must fit their number
    if "edge_attr" in requested:
        found["edge_attr"] = new(min(threads, max(d, H)), *p.edge_attr.shape)
    tensors = core.filled(
        **{"grad_edges" if name == "edge_attr" else f"grad_{name}": x for name, x in found.items()}
    )
    _run("rounds_backward", p, threads=threads, keep=True, hidden=kept.hidden, tape=kept.tape,
         grad_output=grad.y, **tensors)  # fmt: skip
    return transposed(found)


def _run(operation: str, p: Operands, **fields: Any) -> None:
    """Run an operation; the weights of edges are transposed, so that units are contiguous."""
    (nodes, channels), (steps, units, features) = p.labels.shape, p.factor.shape
    core.run(
        operation, structs.RoundsStruct, p.labels.dtype, nodes=nodes, channels=channels,
        units=units, edges=p.edge_index.shape[1], features=features, steps=steps, depth=p.depth,
        first=p.first, activation=_CODES[p.activation], labels=p.labels, edge_index=p.edge_index,
        edge_attr=p.edge_attr, weight=p.weight, bias=p.bias, neighbors=p.neighbors,
        shift=p.shift.mT, factor=p.factor.mT,
        edge_gate=None if p.edge_gate is None else p.edge_gate.mT, scale=p.scale, **fields,
    )  # fmt: skip
