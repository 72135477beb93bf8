"""The operands of walk_aggregate and of its gradient, in the order of their schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from representer.errors import ArgumentError
from representer.functional import nonlinearity


class Forward(NamedTuple):
    """Operands of the forward operator; shapes as in ``walk_aggregate``."""

    nodes: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    shift: Tensor | None
    factor: Tensor | None
    source_gate: Tensor | None
    target_gate: Tensor | None
    edge_gate: Tensor | None
    scale: float
    activation: str

    SCHEMA = (
        "(Tensor nodes, Tensor edge_index, Tensor? edge_attr, Tensor? shift, Tensor? factor,"
        " Tensor? source_gate, Tensor? target_gate, Tensor? edge_gate, float scale,"
        " str activation, str backend) -> Tensor"
    )


class Backward(NamedTuple):
    """Operands of the gradient operator."""

    grad_output: Tensor
    nodes: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    shift: Tensor | None
    factor: Tensor | None
    source_gate: Tensor | None
    target_gate: Tensor | None
    edge_gate: Tensor | None
    scale: float
    activation: str
    needs_edges: bool

    SCHEMA = (
        "(Tensor grad_output, Tensor nodes, Tensor edge_index, Tensor? edge_attr, Tensor? shift,"
        " Tensor? factor, Tensor? source_gate, Tensor? target_gate, Tensor? edge_gate, float scale,"
        " str activation, bool needs_edges, str backend)"
        " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
    )


class Gradients(NamedTuple):
    """Results of the gradient operator; empty for what is absent or not needed."""

    nodes: Tensor
    edge_attr: Tensor
    shift: Tensor
    factor: Tensor
    source_gate: Tensor
    target_gate: Tensor
    edge_gate: Tensor


def layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    """Yield the layout of the forward operator, see ``ops.operands``."""
    check_activation(p.activation, p.shift)
    yield "nodes", "nodes units"
    yield "edge_index", "2 edges"
    check_ends(p.edge_index, sizes["nodes"])
    reads_edges = any(x is not None for x in (p.shift, p.factor, p.edge_gate))
    yield "edge_attr", "edges features" if reads_edges else "edges features ?"
    yield "shift", "units features ?"
    yield "factor", "units features ?"
    is_gated = any(x is not None for x in (p.source_gate, p.target_gate, p.edge_gate))
    yield "source_gate", "nodes units" if is_gated else None
    yield "target_gate", "nodes units" if is_gated else None
    yield "edge_gate", "units features ?"


def backward_layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    """Yield the layout of the gradient operator."""
    yield from layout(p, sizes)
    yield "grad_output", "nodes units"


def check_activation(activation: str, shift: Tensor | None) -> None:
    """Check tau, which acts on the sum of a node's value and a shift.

    Raises:
        ArgumentError: If there is no such function, or no shift for it.
    """
    nonlinearity(activation, "activation")
    if shift is None and activation != "identity":
        hint = "Apply it to nodes before."
        raise ArgumentError("activation", activation, "'identity' without a shift", hint=hint)


def check_ends(edge_index: Tensor, nodes: int, name: str = "edge_index") -> None:
    """Check that every edge joins nodes that there are.

    Raises:
        ArgumentError: If one does not; it names the edge.
    """
    if not edge_index.numel():
        return
    lowest, highest = edge_index.aminmax()
    if int(lowest) >= 0 and int(highest) < nodes:
        return
    outside = ((edge_index < 0) | (edge_index >= nodes)).nonzero()
    end, edge = outside[0].tolist()
    raise ArgumentError(
        f"{name}[{end}, {edge}]",
        int(edge_index[end, edge]),
        f"0 to {nodes - 1}, the nodes there are" if nodes else "no edges, since there is no node",
    )
