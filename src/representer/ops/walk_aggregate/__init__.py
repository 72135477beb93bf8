"""Gated sums over the neighbors of every node of a graph, on every backend."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from torch import Tensor

from representer import functional
from representer.functional import NONLINEARITIES
from representer.ops import core, gpu, structs
from representer.ops.op import Backend, Op
from representer.ops.table import OperandTable
from representer.ops.walk_aggregate import reference
from representer.ops.walk_aggregate.reference import Operands, Results, sizes

# walk_aggregate on the compiled core.

_CODES = {name: code for code, name in enumerate(NONLINEARITIES)}
WEIGHTS = ("shift", "factor", "edge_gate")  # transposed in the core: units are contiguous


def cpp_forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    _run("walk_forward", p, out=new.sums.zero_())
    return new


def cpp_backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    names = ("nodes", *WEIGHTS, "source_gate", "target_gate")
    arguments = {name: getattr(p, name) for name in names}
    results = {
        name: x.new_zeros(x.shape[::-1] if name in WEIGHTS else x.shape)
        for name, x in arguments.items()
        if x is not None
    }
    threads = core.threads()  # read once: the memory for their parts must fit their number
    if p.edge_attr is not None and "edge_attr" in requested:
        parts = min(threads, max(1, p.nodes.shape[1]))  # one for each thread that has units
        results["edge_attr"] = p.nodes.new_zeros(parts, *p.edge_attr.shape)
    fields = {
        "nodes": "grad_x", "edge_attr": "grad_edges", "source_gate": "grad_source",
        "target_gate": "grad_target",
    }  # fmt: skip
    tensors = core.filled(**{fields.get(name, f"grad_{name}"): x for name, x in results.items()})
    _run("walk_backward", p, threads=threads, grad=grad.sums, **tensors)
    return transposed(results)


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


MOST_FEATURES = 32  # of an edge, for which weights fit in the registers of a GPU


def walk_aggregate(
    nodes: Tensor,
    edge_index: Tensor,
    *,
    edge_attr: Tensor | None = None,
    shift: Tensor | None = None,
    factor: Tensor | None = None,
    source_gate: Tensor | None = None,
    target_gate: Tensor | None = None,
    edge_gate: Tensor | None = None,
    scale: float = 1.0,
    activation: str = "identity",
    backend: str | None = None,
) -> Tensor:
    r"""Sum the messages of the neighbors of each node along the edges u → v.

    .. math::
        y_v = \sum_{e = (u, v)} g_e \odot \tau(x_u + B a_e) \odot (F a_e), \qquad
        g_e = s \, \sigma(p_u + q_v + G a_e)

    Without F, B or the gates, the factor F a, the shift B a or the gate is left out. Messages are
    not kept for the gradient, and the core does not write them to memory. On a CPU two runs give
    the same bits.

    Arguments and results are those of ``functional.walk_aggregate``. An edge may occur several
    times, or be a loop. Without a shift, apply τ to ``nodes``. ``backend`` names a backend, which
    runs or raises; None is the fastest available one.

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not, or half of a gate or the edge features are missing.
        ArgumentError: If an edge joins a node that does not exist.
        BackendError: If the requested backend cannot run the call.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (6), (8), (10), section 4.
    """
    if shift is None and factor is None and edge_gate is None:
        edge_attr = None
    p = Operands(
        nodes, edge_index, edge_attr, shift, factor, source_gate, target_gate, edge_gate,
        float(scale), activation,
    )  # fmt: skip
    return OP(p, backend)


def refuses(p: Any) -> str:
    """Return why the GPU kernels cannot run a call, or "" if they can."""
    if p.edge_attr is not None and p.edge_attr.shape[1] > MOST_FEATURES:
        return f"takes up to {MOST_FEATURES} features of an edge, not {p.edge_attr.shape[1]}"
    return gpu.refuses(p)


OP = Op("walk_aggregate", walk_aggregate, functional.walk_aggregate)
OP.register(OperandTable(Operands, Results, sizes))
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(gpu.backend("walk_aggregate", refuses))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, core.refuses))
