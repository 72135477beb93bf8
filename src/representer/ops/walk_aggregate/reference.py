"""walk_aggregate in torch, with its gradient written out.

    d t_e = dy[v] * g_e * (F a_e),  dx[u] = sum_e tau' d t_e,  dB = sum_e (tau' d t_e) a_e^T
    d f_e = dy[v] * g_e * t_e,      dF = sum_e d f_e a_e^T
    d z_e = d f_e * (F a_e) * (1 - sigma_e),  dp[u] = sum_e d z_e,  dq[v] = sum_e d z_e,
                                    dG = sum_e d z_e a_e^T
    d a_e = B^T (tau' d t_e) + F^T d f_e + G^T d z_e

Nothing of the size of the edges is kept for the gradient.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer.errors import ArgumentError
from representer.functional import nonlinearity
from representer.functional.activations import NONLINEARITIES
from representer.functional.walks import walk_aggregate
from representer.ops.common import Remembered, add_rows, assert_in_graph, is_captured
from representer.ops.table import Operand

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
    """Check tau, which acts on the sum of a node's value and a shift."""
    nonlinearity(p.activation, "activation")
    if p.shift is None and p.activation != "identity":
        hint = "Apply it to nodes before."
        raise ArgumentError("activation", p.activation, "'identity' without a shift", hint=hint)
    return {}


_range = Remembered()


def check_ends(edge_index: Tensor, nodes: int, name: str = "edge_index") -> None:
    """Check that the ends of every edge are nodes; in a CUDA graph, on the device."""
    if not edge_index.numel():
        return
    if is_captured(edge_index):
        lowest, highest = edge_index.aminmax()
        assert_in_graph((lowest >= 0) & (highest < nodes), f"{name} is not 0 to {nodes - 1}")
        return

    def read() -> list[int]:
        return torch.stack(edge_index.aminmax()).tolist()

    # memory of the CPU may be changed through another view of it, such as an array of NumPy
    lowest, highest = _range.get(edge_index, "", read) if edge_index.is_cuda else read()
    if lowest >= 0 and highest < nodes:
        return
    outside = ((edge_index < 0) | (edge_index >= nodes)).nonzero()
    end, edge = outside[0].tolist()
    raise ArgumentError(
        f"{name}[{end}, {edge}]",
        int(edge_index[end, edge]),
        f"0 to {nodes - 1}, the nodes" if nodes else "no edges, since there are no nodes",
    )


def forward(p: Operands, new: Results) -> Tensor:
    """Return the sums over the neighbors ``(N, H)``."""
    return evaluate(p)


def evaluate(p: Operands) -> Tensor:
    """Return the sums over the neighbors ``(N, H)``."""
    return walk_aggregate(**p._asdict())


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    return gradients(p, grad.sums, requested)


def gradients(p: Operands, dy: Tensor, requested: Container[str]) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name, from that of the sums."""
    source, target = p.edge_index
    tau, a = NONLINEARITIES[p.activation], p.edge_attr

    def of(weight: Tensor | None) -> Tensor:
        assert a is not None
        return torch.zeros((), dtype=a.dtype) if weight is None else a @ weight.T

    def summed(messages: Tensor, ends: Tensor) -> Tensor:
        return add_rows(torch.zeros_like(dy), ends, messages)

    upstream = dy[target]
    z = p.nodes[source] if p.shift is None else p.nodes[source] + of(p.shift)
    t = tau.value(z)
    f = None if p.factor is None else of(p.factor)
    dt = upstream if f is None else upstream * f
    messages: dict[str, Tensor] = {}  # gradients of the products with edge features
    results: dict[str, Tensor] = {}
    if p.source_gate is not None and p.target_gate is not None:
        gate = p.source_gate[source] + p.target_gate[target]
        gate = torch.sigmoid(gate if p.edge_gate is None else gate + of(p.edge_gate))
        messages["edge_gate"] = d_gate = dt * t * p.scale * gate * (1 - gate)
        upstream, dt = upstream * p.scale * gate, dt * p.scale * gate
        results["source_gate"] = summed(d_gate, source)
        results["target_gate"] = summed(d_gate, target)
    messages["shift"] = dz = dt * tau.derivative(z, t)
    messages["factor"] = upstream * t
    results["nodes"] = summed(dz, source)
    if a is None:
        return results
    weights = {name: x for name in ("shift", "factor", "edge_gate")
               if (x := getattr(p, name)) is not None}  # fmt: skip
    if "edge_attr" in requested:
        parts = (messages[name] @ weight for name, weight in weights.items())
        results["edge_attr"] = sum(parts, torch.zeros_like(a))
    return results | {name: messages[name].T @ a for name in weights}
