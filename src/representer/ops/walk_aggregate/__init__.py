"""Gated sums over the neighbors of every node of a graph, on every backend."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.errors import KindError, ShapeError
from representer.ops import core
from representer.ops.checks import check_floating, check_like
from representer.ops.op import Backend, Op
from representer.ops.walk_aggregate import cpp, reference
from representer.ops.walk_aggregate.arguments import (
    Backward,
    Forward,
    Gradients,
    backward_layout,
    check_activation,
    layout,
)
from representer.ops.walk_aggregate.samples import samples


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
    r"""Sum what the neighbors of each node send, along the edges u → v.

    .. math::
        y_v = \sum_{e = (u, v)} g_e \odot \tau(x_u + B a_e) \odot (F a_e), \qquad
        g_e = s \, \sigma(p_u + q_v + G a_e)

    The factor F a, the shift B a and the gate are left out where they are not given. Messages are
    not kept for the gradient, and the core does not write them to memory at all. On a CPU two runs
    give the same bits.

    Args:
        nodes: x, what a node sends.
        edge_index: u and v of each edge; an edge may occur several times, or be a loop.
        edge_attr: a, the features of the edges.
        shift: B.
        factor: F.
        source_gate: p.
        target_gate: q.
        edge_gate: G.
        scale: s, what an open gate lets through.
        activation: τ, a name of ``functional.NONLINEARITIES``; without a shift, apply it to
            ``nodes``.
        backend: Name of a backend, which runs or raises; None for the fastest available one.

    Shape:
        - nodes, source_gate and target_gate ``(N, H)``; edge_index ``(2, E)``; edge_attr
          ``(E, K)``; shift, factor and edge_gate ``(H, K)``
        - returns ``(N, H)``

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not, or a part of a gate or the edges' features are
            missing.
        ArgumentError: If an edge joins a node that there is not.
        BackendError: If the requested backend cannot run the call.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (6), (8), (10), section 4.
    """
    check_floating("nodes", nodes)
    if nodes.dim() != 2:
        raise ShapeError("nodes", nodes.shape, "(nodes, units)")
    check_edge_index(edge_index, nodes)
    units = nodes.shape[1]
    check_activation(activation, shift)
    given = {"shift": shift, "factor": factor, "edge_gate": edge_gate}
    users = [name for name, weight in given.items() if weight is not None]
    if edge_attr is None and users:
        raise KindError("edge_attr", "None", f"a tensor (edges, features) for {users[0]}")
    if edge_attr is not None:
        features = edge_attr.shape[1] if edge_attr.dim() == 2 else 0
        if edge_attr.dim() != 2 or len(edge_attr) != edge_index.shape[1]:
            wanted = f"({edge_index.shape[1]}, features), one row an edge"
            raise ShapeError("edge_attr", edge_attr.shape, wanted)
        check_like("edge_attr", edge_attr, nodes, tuple(edge_attr.shape))
        for name in users:
            weight = given[name]
            assert weight is not None
            check_like(name, weight, nodes, (units, features))
    if edge_gate is not None and source_gate is None:
        raise KindError("source_gate", "None", "a tensor (nodes, units) beside edge_gate")
    for name, gate, other in (
        ("source_gate", source_gate, target_gate),
        ("target_gate", target_gate, source_gate),
    ):
        if gate is None and other is not None:
            raise KindError(name, "None", "a tensor (nodes, units), the other half of the gate")
        if gate is not None:
            check_like(name, gate, nodes, tuple(nodes.shape))
    if OP.is_forward_mode(backend):
        return functional.walk_aggregate(
            nodes, edge_index, edge_attr=edge_attr, shift=shift, factor=factor,
            source_gate=source_gate, target_gate=target_gate, edge_gate=edge_gate, scale=scale,
            activation=activation,
        )  # fmt: skip
    operands = Forward(
        nodes, edge_index, edge_attr if users else None, shift, factor, source_gate, target_gate,
        edge_gate, float(scale), activation,
    )  # fmt: skip
    name = OP.choose(backend, nodes.device.type, operands)
    return OP.call(name, operands)


def check_edge_index(edge_index: Tensor, like: Tensor) -> None:
    """Check the kind and shape of edges; their values are read where the op runs.

    Raises:
        ShapeError: If they are not ``(2, E)``.
        KindError: If they are no int64, or on another device than ``like``.
    """
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ShapeError("edge_index", edge_index.shape, "(2, edges), sources over targets")
    if edge_index.dtype != torch.int64:
        hint = "Use edge_index.long()."
        raise KindError("edge_index", str(edge_index.dtype), "torch.int64", hint=hint)
    if edge_index.device != like.device:
        hint = f"Use edge_index.to({str(like.device)!r})."
        raise KindError("edge_index", f"on {edge_index.device}", f"{like.device}", hint=hint)


def _fake(nodes: Tensor, *_: Any) -> Tensor:
    return nodes.new_empty(nodes.shape)


def _backward_fake(*operands: Any) -> Gradients:
    p = Backward(*operands[:-1])
    of_edges = p.edge_attr if p.needs_edges else None
    gates = (p.source_gate, p.target_gate, p.edge_gate)
    like = (p.nodes, of_edges, p.shift, p.factor, *gates)
    return Gradients(*(p.nodes.new_empty((0,) if x is None else x.shape) for x in like))


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    p = Forward(*inputs[:-1])
    ctx.scale, ctx.activation, ctx.backend = p.scale, p.activation, inputs[-1]
    ctx.save_for_backward(*p[: Forward._fields.index("scale")])


def _gradient(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    needs = dict(zip(Forward._fields, ctx.needs_input_grad, strict=False))
    gradients = torch.ops.representer.walk_aggregate_backward(
        grad_output, *ctx.saved_tensors, ctx.scale, ctx.activation, needs["edge_attr"], ctx.backend
    )
    of = dict(zip(Gradients._fields, gradients, strict=True))
    wanted = (of.get(name) if needs[name] else None for name in Forward._fields)
    return (*wanted, None)


OP = Op("walk_aggregate", walk_aggregate, functional.walk_aggregate, samples)
OP.register(
    Forward.SCHEMA,
    Backward.SCHEMA,
    layout=layout,
    backward_layout=backward_layout,
    fake=_fake,
    backward_fake=_backward_fake,
    save=_save,
    gradient=_gradient,
    batch_axes={},
    result_axes=(),
)
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(Backend("cpp", ("cpu",), cpp.forward, cpp.backward, core.MISSING, cpp.refuses))
