"""Gated sums over the neighbors of every node of a graph, on every backend."""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer import functional
from representer.errors import ArgumentError
from representer.functional import NONLINEARITIES, nonlinearity
from representer.ops import core, gpu, structs
from representer.ops.common import Remembered, add_rows, assert_in_graph, is_captured
from representer.ops.op import Backend, Op
from representer.ops.table import Operand, OperandTable

# walk_aggregate in torch, with its gradient written out.
#
#     d t_e = dy[v] * g_e * (F a_e),  dx[u] = sum_e tau' d t_e,  dB = sum_e (tau' d t_e) a_e^T
#     d f_e = dy[v] * g_e * t_e,      dF = sum_e d f_e a_e^T
#     d z_e = d f_e * (F a_e) * (1 - sigma_e),  dp[u] = sum_e d z_e,  dq[v] = sum_e d z_e,
#                                     dG = sum_e d z_e a_e^T
#     d a_e = B^T (tau' d t_e) + F^T d f_e + G^T d z_e
#
# Nothing of the size of the edges is kept for the gradient.


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
    return functional.walk_aggregate(**p._asdict())


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
OP.add_backend(Backend("reference", (), forward, backward))
OP.add_backend(gpu.backend("walk_aggregate", refuses))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, core.refuses))
