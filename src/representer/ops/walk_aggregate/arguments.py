"""Operands and results of walk_aggregate."""

from typing import Annotated, Any, NamedTuple

from torch import Tensor

from representer.errors import ArgumentError
from representer.functional import nonlinearity
from representer.ops.operand import Operand

EDGES = Operand(
    "2 edges",
    differentiable=False,
    check=lambda edge_index, name, sizes: check_ends(edge_index, sizes["nodes"], name),
)


def _needs_edges(p: Any) -> bool | None:
    return any(x is not None for x in (p.shift, p.factor, p.edge_gate)) or None


def _is_gated(p: Any) -> bool:
    return any(x is not None for x in (p.source_gate, p.target_gate, p.edge_gate))


class Operands(NamedTuple):
    """Operands of walk_aggregate."""

    nodes: Annotated[Tensor, Operand("nodes units")]
    edge_index: Annotated[Tensor, EDGES]
    edge_attr: Annotated[
        Tensor | None, Operand("edges features", needed=_needs_edges, on_request=True)
    ]
    shift: Annotated[Tensor | None, Operand("units features")]
    factor: Annotated[Tensor | None, Operand("units features")]
    source_gate: Annotated[Tensor | None, Operand("nodes units", needed=_is_gated)]
    target_gate: Annotated[Tensor | None, Operand("nodes units", needed=_is_gated)]
    edge_gate: Annotated[Tensor | None, Operand("units features")]
    scale: float
    activation: str


class Results(NamedTuple):
    """Results of walk_aggregate."""

    sums: Annotated[Tensor, Operand("nodes units", saved=False)]


def sizes(p: Operands) -> dict[str, int]:
    """Check tau, which acts on the sum of a node's value and a shift.

    Raises:
        ArgumentError: If there is no such function, or no shift for it.
    """
    nonlinearity(p.activation, "activation")
    if p.shift is None and p.activation != "identity":
        hint = "Apply it to nodes before."
        raise ArgumentError("activation", p.activation, "'identity' without a shift", hint=hint)
    return {}


def check_ends(edge_index: Tensor, nodes: int, name: str = "edge_index") -> None:
    """Check that the ends of every edge are nodes.

    Raises:
        ArgumentError: If one is not; the message names the edge.
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
        f"0 to {nodes - 1}, the nodes" if nodes else "no edges, since there are no nodes",
    )
