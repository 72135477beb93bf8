"""Gated sums over the neighbors of every node of a graph, on every backend."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from representer import functional
from representer.ops import core, gpu
from representer.ops.op import Backend, Op
from representer.ops.table import Table
from representer.ops.walk_aggregate import cpp, reference
from representer.ops.walk_aggregate.reference import Operands, Results, sizes
from representer.ops.walk_aggregate.samples import samples

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

    Args:
        nodes: x, the message of each node.
        edge_index: u and v of each edge; an edge may occur several times, or be a loop.
        edge_attr: a, the features of the edges.
        shift: B.
        factor: F.
        source_gate: p.
        target_gate: q.
        edge_gate: G.
        scale: s, the value of an open gate.
        activation: τ, a name of ``functional.NONLINEARITIES``; without a shift, apply it to
            ``nodes``.
        backend: Name of a backend, which runs or raises; None for the fastest available one.

    Shape:
        - nodes, source_gate and target_gate ``(N, H)``; edge_index ``(2, E)``; edge_attr
          ``(E, K)``; shift, factor and edge_gate ``(H, K)``
        - returns ``(N, H)``

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


OP = Op("walk_aggregate", walk_aggregate, functional.walk_aggregate, samples)
OP.register(Table(Operands, Results, sizes))
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(gpu.backend("walk_aggregate", refuses))
OP.add_backend(Backend("cpp", ("cpu",), cpp.forward, cpp.backward, core.MISSING, core.refuses))
