"""tree_scan in torch, with its gradient written out.

With dc of a parent v complete, for each child u over the edge e,

    dc_j[u] += lam_e dc_j[v] + a_e,j+1 p_j+1[v] dc_j+1[v],   dlam_e = sum_j c_j[u] dc_j[v]
    dz_e = dlam_e s sigma' (z_e),   dc_n[u] += phi'(c_n[u]) U^T dz_e

Only this depends on the order of the nodes; all other gradients are sums over the edges.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer.errors import ShapeError
from representer.functional import NONLINEARITIES, nonlinearity, tree_depths
from representer.functional.walks import tree_levels, tree_scan
from representer.ops.common import add_rows
from representer.ops.table import Operand
from representer.ops.walk_aggregate.reference import check_ends


def _check_trees(edge_index: Tensor, name: str, sizes: dict[Any, int]) -> None:
    check_ends(edge_index, sizes["nodes"], name)
    tree_depths(edge_index, sizes["nodes"], name)


def _is_gated(p: Any) -> bool:
    return p.decay is None


def _may_be_gated(p: Any) -> bool | None:
    return None if p.decay is None else False


class Operands(NamedTuple):
    """Operands of tree_scan."""

    products: Annotated[Tensor, Operand("nodes order units")]
    edge_index: Annotated[Tensor, Operand("2 edges", differentiable=False, check=_check_trees)]
    decay: Annotated[Tensor | None, Operand("units |")]
    source_gate: Annotated[Tensor | None, Operand("nodes units", needed=_may_be_gated)]
    target_gate: Annotated[Tensor | None, Operand("nodes units", needed=_is_gated)]
    state_gate: Annotated[Tensor | None, Operand("units units", needed=_may_be_gated)]
    factor: Annotated[Tensor | None, Operand("edges steps units")]
    scale: float
    activation: str


class Results(NamedTuple):
    """Results of tree_scan: the states, and the gate of each edge, not scaled."""

    states: Annotated[Tensor, Operand("nodes order units")]
    gates: Annotated[Tensor, Operand("edges units", needed=_is_gated, differentiable=False)]


def sizes(p: Operands) -> dict[str, int]:
    """Check phi.

    Raises:
        ArgumentError: If there is no such function.
    """
    nonlinearity(p.activation, "activation")
    return {}


def check(p: Operands, sizes: dict[str, int]) -> None:
    """Check the number of steps of a chain."""
    n, H = sizes["order"], sizes["units"]
    if n < 1:
        raise ShapeError("products", p.products.shape, "(nodes, order, units) of order 1 or more")
    if p.factor is not None and sizes["steps"] != n - 1:
        raise ShapeError("factor", p.factor.shape, f"({sizes['edges']}, {n - 1}, {H})")


def _lam(p: Operands, gates: Tensor) -> Tensor:
    """Return lam of each edge ``(E, 1, H)``, or one that broadcasts."""
    return p.scale * gates[:, None] if p.decay is None else p.decay


def _shorter(p: Operands, c: Tensor, edges: Tensor | slice = slice(None)) -> Tensor:
    """Return what the children contribute to longer chains ``(F, n - 1, H)``."""
    return c[:, :-1] if p.factor is None else c[:, :-1] * p.factor[edges]


def forward(p: Operands, new: Results) -> Results:
    """Return the results."""
    states = tree_scan(**p._asdict())
    if p.decay is not None:
        return Results(states, new.gates)
    source, target = p.edge_index
    assert p.target_gate is not None
    z = p.target_gate[target]
    if p.source_gate is not None:
        z = z + p.source_gate[source]
    if p.state_gate is not None:
        last = NONLINEARITIES[p.activation].value(states[source, -1])
        z = torch.addmm(z, last, p.state_gate.T)
    return Results(states, torch.sigmoid(z))


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    (source, target), (states, gates) = p.edge_index, kept
    phi, q, dc = NONLINEARITIES[p.activation], p.products, grad.states.clone()
    dz = torch.zeros_like(gates)
    for level in reversed(list(tree_levels(p.edge_index, len(q)))):
        e = level.edges
        u, v = source[e], target[e]
        below, above = states[u], dc[v]
        longer = above[:, 1:] * q[v][:, 1:]
        longer = longer if p.factor is None else longer * p.factor[e]
        to_child = above * _lam(p, gates[e] if p.decay is None else gates)
        to_child[:, :-1] += longer
        if p.decay is None:
            gate = gates[e]
            dz[e] = d = (above * below).sum(1) * p.scale * gate * (1 - gate)
            if p.state_gate is not None:
                last = below[:, -1]
                to_child[:, -1] += phi.derivative(last, phi.value(last)) * (d @ p.state_gate)
        dc[u] += to_child
    below, above = states[source], dc[target]
    sums = add_rows(torch.zeros_like(q[:, 1:]), target, _shorter(p, below))
    results = {"products": torch.cat((dc[:, :1], dc[:, 1:] * sums), dim=1)}
    if p.factor is not None:
        results["factor"] = below[:, :-1] * above[:, 1:] * q[target][:, 1:]
    if p.decay is not None:
        results["decay"] = (above * below).sum((0, 1)).sum_to_size(p.decay.shape)
        return results
    results["target_gate"] = add_rows(torch.zeros_like(q[:, 0]), target, dz)
    if p.source_gate is not None:
        results["source_gate"] = add_rows(torch.zeros_like(q[:, 0]), source, dz)
    if p.state_gate is not None:
        results["state_gate"] = dz.T @ phi.value(below[:, -1])
    return results
