"""The recurrence of tree-kernel networks, on every backend."""

from __future__ import annotations

from collections.abc import Container
from math import prod
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer import functional
from representer.errors import ShapeError
from representer.functional import NONLINEARITIES, nonlinearity, tree_depths
from representer.functional.walks import tree_levels
from representer.ops import core, structs
from representer.ops.common import add_rows
from representer.ops.op import Backend, Op
from representer.ops.table import Operand, OperandTable
from representer.ops.walk_aggregate import check_ends

# tree_scan in torch, with its gradient written out.
#
# With dc of a parent v complete, for each child u over the edge e,
#
#     dc_j[u] += lam_e dc_j[v] + a_e,j+1 p_j+1[v] dc_j+1[v],   dlam_e = sum_j c_j[u] dc_j[v]
#     dz_e = dlam_e s sigma' (z_e),   dc_n[u] += phi'(c_n[u]) U^T dz_e
#
# Only this depends on the order of the nodes; all other gradients are sums over the edges.


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
    states = functional.tree_scan(**p._asdict())
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


# tree_scan on the compiled core.

_CODES = {name: code for code, name in enumerate(NONLINEARITIES)}


def cpp_forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    _run("trees_forward", p, states=new.states, **core.filled(gates=new.gates))
    return new


def cpp_backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    (N, n, H), new = p.products.shape, p.products.new_zeros
    results = {"products": p.products.new_empty(N, n, H)}
    results |= {"decay": new(H)} if p.decay is not None else {"target_gate": new(N, H)}
    if p.source_gate is not None:
        results["source_gate"] = new(N, H)
    if p.factor is not None:
        results["factor"] = torch.empty_like(p.factor, memory_format=torch.contiguous_format)
    dz, dc = torch.empty_like(kept.gates), torch.empty_like(kept.states)
    names = {name: f"grad_{name.removesuffix('_gate')}" for name in results}
    tensors = {names[name]: x for name, x in results.items()} | {"grad_z": dz, "grad_states": dc}
    states = {"states": kept.states, "gates": kept.gates, "grad": grad.states}
    _run("trees_backward", p, **core.filled(**tensors, **states))
    if p.state_gate is not None:
        last = kept.states[:, -1][p.edge_index[0]]
        results["state_gate"] = dz.T @ NONLINEARITIES[p.activation].value(last)
    if p.decay is not None:
        results["decay"] = results["decay"].sum_to_size(p.decay.shape)
    return results


def _run(operation: str, p: Operands, **fields: Any) -> None:
    nodes, order, units = p.products.shape
    products, product_row = _rows(p.products)
    sides = [(None, units) if x is None else _rows(x) for x in (p.source_gate, p.target_gate)]
    if p.source_gate is not None and sides[0][1] != sides[1][1]:
        sides = [(x.contiguous(), units) for x in (p.source_gate, p.target_gate) if x is not None]
    strided = {
        name: None if x is None else core.Strided(x) if x.numel() else x
        for name, x in (("products", products), ("source_gate", sides[0][0]),
                        ("target_gate", sides[1][0]))
    }  # fmt: skip
    core.run(
        operation, structs.TreesStruct, p.products.dtype, nodes=nodes, order=order, units=units,
        edges=p.edge_index.shape[1], product_row=product_row, gate_row=sides[1][1],
        activation=_CODES[p.activation], scalar=p.decay is not None and not p.decay.dim(),
        edge_index=p.edge_index, decay=p.decay, state_gate=p.state_gate, factor=p.factor,
        scale=p.scale, **strided, **fields,
    )  # fmt: skip


def _rows(x: Tensor) -> tuple[Tensor, int]:
    """Return a tensor whose entries are contiguous for each node, and its stride between nodes."""
    entries = prod(x.shape[1:])
    if len(x) > 1 and x[0].is_contiguous() and x.stride(0) >= entries:
        return x, x.stride(0)
    return x.contiguous(), entries


def tree_scan(
    products: Tensor,
    edge_index: Tensor,
    *,
    decay: Tensor | None = None,
    source_gate: Tensor | None = None,
    target_gate: Tensor | None = None,
    state_gate: Tensor | None = None,
    factor: Tensor | None = None,
    scale: float = 1.0,
    activation: str = "identity",
    backend: str | None = None,
) -> Tensor:
    r"""Sum over the chains of nodes below each node of trees.

    .. math::
        c_1[v] &= p_1[v] + \sum_{e = (u, v)} \lambda_e c_1[u] \\
        c_j[v] &= \sum_{e = (u, v)} \lambda_e c_j[u]
            + p_j[v] \sum_{e = (u, v)} a_{e,j} c_{j-1}[u] \\
        \lambda_e &= s \, \sigma(\text{source}_u + \text{target}_v + U \phi(c_n[u]))

    over the children u of v, or with λ given. On a CPU two runs give the same bits.

    Arguments and results are those of ``functional.tree_scan``. ``backend`` names a backend, which
    runs or raises; None is the fastest available one.

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not, or there is neither a decay nor a gate, or both.
        ArgumentError: If an edge joins a node that does not exist, a node has two parents, or the
            edges form a cycle.
        BackendError: If the requested backend cannot run the call.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017, (2),
        of which this is the counterpart for trees.
        Tai et al., Improved Semantic Representations From Tree-Structured Long Short-Term Memory
        Networks, ACL 2015, (2)-(8).
    """
    p = Operands(
        products, edge_index, decay, source_gate, target_gate, state_gate, factor, float(scale),
        activation,
    )  # fmt: skip
    results = OP(p, backend)
    return results if isinstance(results, Tensor) else results[0]  # the definition returns states


OP = Op("tree_scan", tree_scan, functional.tree_scan)
OP.register(OperandTable(Operands, Results, sizes, check))
OP.add_backend(Backend("reference", (), forward, backward))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, core.refuses))
