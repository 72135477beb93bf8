"""walk_aggregate on the compiled core."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from torch import Tensor

from representer.functional import NONLINEARITIES
from representer.ops import core, structs
from representer.ops.walk_aggregate.reference import Operands, Results

_CODES = {name: code for code, name in enumerate(NONLINEARITIES)}
WEIGHTS = ("shift", "factor", "edge_gate")  # transposed in the core: units are contiguous


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    _run("walk_forward", p, out=new.sums.zero_())
    return new


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    names = ("nodes", *WEIGHTS, "source_gate", "target_gate")
    given = {name: getattr(p, name) for name in names}
    found = {
        name: x.new_zeros(x.shape[::-1] if name in WEIGHTS else x.shape)
        for name, x in given.items()
        if x is not None
    }
    threads = core.threads()  # read once: the memory for their parts must fit their number
    if p.edge_attr is not None and "edge_attr" in requested:
        parts = min(threads, max(1, p.nodes.shape[1]))  # one for each thread that has units
        found["edge_attr"] = p.nodes.new_zeros(parts, *p.edge_attr.shape)
    fields = {
        "nodes": "grad_x", "edge_attr": "grad_edges", "source_gate": "grad_source",
        "target_gate": "grad_target",
    }  # fmt: skip
    tensors = core.filled(**{fields.get(name, f"grad_{name}"): x for name, x in found.items()})
    _run("walk_backward", p, threads=threads, grad=grad.sums, **tensors)
    return transposed(found)


def transposed(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return gradients by name, from those in the layout of the core."""
    turned = {name: found[name].mT.contiguous() for name in WEIGHTS if name in found}
    edges = {"edge_attr": found["edge_attr"].sum(0)} if "edge_attr" in found else {}
    return found | turned | edges


def _run(operation: str, p: Operands, **fields: Any) -> None:
    nodes, units = p.nodes.shape
    rows = ("x_row", "gate_row", "output_row", "grad_row", "grad_x_row", "grad_gate_row")
    edges = p.edge_index.shape[1]
    weights = {name: getattr(p, name) for name in WEIGHTS}
    core.run(
        operation, structs.WalkStruct, p.nodes.dtype, nodes=nodes, units=units, edges=edges,
        features=0 if p.edge_attr is None else p.edge_attr.shape[1],
        activation=_CODES[p.activation], targets=edges, x=p.nodes, edge_index=p.edge_index,
        edge_attr=p.edge_attr, source_gate=p.source_gate, target_gate=p.target_gate,
        scale=p.scale, **dict.fromkeys(rows, units),
        **{name: None if x is None else x.mT for name, x in weights.items()}, **fields,
    )  # fmt: skip
