"""The rounds of a Weisfeiler-Lehman network, on every backend."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.errors import ShapeError
from representer.functional import nonlinearity
from representer.ops import core
from representer.ops.checks import check_floating, check_like, may_need_gradient
from representer.ops.op import Backend, Op
from representer.ops.walk_aggregate import check_edge_index
from representer.ops.walk_rounds import cpp, reference
from representer.ops.walk_rounds.arguments import (
    Backward,
    Forward,
    Gradients,
    backward_layout,
    check_rounds,
    kept_shapes,
    layout,
)
from representer.ops.walk_rounds.samples import samples


def walk_rounds(
    labels: Tensor,
    edge_index: Tensor,
    edge_attr: Tensor,
    weight: Tensor,
    bias: Tensor,
    neighbors: Tensor,
    shift: Tensor,
    factor: Tensor,
    edge_gate: Tensor | None = None,
    *,
    depth: int,
    first: int = 0,
    scale: float = 1.0,
    activation: str = "relu",
    backend: str | None = None,
) -> Tensor:
    r"""Relabel a graph round by round, and sum the walks of every round.

    .. math::
        c_1^{(l)} &= p_1, \qquad
        c_j^{(l)}[v] = p_j[v] \odot \sum_{e = (u, v)} g_e \odot c_{j-1}^{(l)}[u] \odot F_j a_e \\
        h^{(l+1)}_v &= \sigma \Big( o_v + U \sum_{e = (u, v)} \sigma(i_u + B a_e) \Big), \qquad
        y_v = \sum_{l \ge \text{first}} c_n^{(l)}[v]

    where :math:`(i, o, p_1, …, p_n)` and the gate's two halves are the columns of
    :math:`h^{(l)} W^\top + c`; the gate is as in ``walk_aggregate``. It is what
    :class:`~representer.nn.WLKernelNN` computes, with one product a round where layer by layer
    there are six. Nothing of the size of edges × units is kept.

    Args:
        labels: h of the first round.
        edge_index: u and v of each edge; an edge may occur several times, or be a loop.
        edge_attr: a, the features of the edges.
        weight: W: of the neighbors' and of the own label, of p_1 … p_n, and of the gate's source
            and target, below each other.
        bias: c.
        neighbors: U.
        shift: B.
        factor: F_2 … F_n.
        edge_gate: G; without it there is no gate.
        depth: L, rounds.
        first: The first round whose walks are read.
        scale: s, what an open gate lets through.
        activation: σ, a name of ``functional.NONLINEARITIES``.
        backend: Name of a backend, which runs or raises; None for the fastest available one.

    Shape:
        - labels ``(N, d)``; edge_index ``(2, E)``; edge_attr ``(E, K)``; weight ``(R, d)`` and bias
          ``(R,)`` with R = 2 d + n H, with a gate 2 d + (n + 2) H; neighbors ``(d, d)``; shift
          ``(d, K)``; factor ``(n - 1, H, K)``; edge_gate ``(H, K)``
        - returns ``(N, H)``

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not.
        ArgumentError: If an edge joins a node that there is not, or there is no such round.
        BackendError: If the requested backend cannot run the call.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (6), (9)-(11), section 4.
    """
    check_floating("labels", labels)
    if labels.dim() != 2:
        raise ShapeError("labels", labels.shape, "(nodes, features)")
    check_edge_index(edge_index, labels)
    nonlinearity(activation, "activation")
    for name, x, axes in (("edge_attr", edge_attr, 2), ("factor", factor, 3)):
        if x.dim() != axes:
            wanted = "(edges, features)" if axes == 2 else "(order - 1, units, features)"
            raise ShapeError(name, x.shape, wanted)
    d, (steps, H, K) = labels.shape[1], factor.shape
    rows = 2 * d + (steps + 1 + 2 * (edge_gate is not None)) * H
    for name, x, shape in (
        ("edge_attr", edge_attr, (edge_index.shape[1], K)),
        ("weight", weight, (rows, d)),
        ("bias", bias, (rows,)),
        ("neighbors", neighbors, (d, d)),
        ("shift", shift, (d, K)),
        ("factor", factor, (steps, H, K)),
        ("edge_gate", edge_gate, (H, K)),
    ):
        if x is not None:
            check_like(name, x, labels, shape)
    check_rounds(depth, first)
    if OP.is_forward_mode(backend):
        return functional.walk_rounds(
            labels, edge_index, edge_attr, weight, bias, neighbors, shift, factor, edge_gate,
            depth=depth, first=first, scale=scale, activation=activation,
        )  # fmt: skip
    given = (labels, edge_attr, weight, bias, neighbors, shift, factor, edge_gate)
    operands = Forward(
        labels, edge_index, *given[1:], depth, first, float(scale), activation,
        may_need_gradient(given),
    )  # fmt: skip
    name = OP.choose(backend, labels.device.type, operands)
    return OP.call(name, operands)[0]


def _fake(*operands: Any) -> tuple[Tensor, ...]:
    p = Forward(*operands[:-1])
    shapes = ((len(p.labels), p.factor.shape[1]), *kept_shapes(p))
    return tuple(p.labels.new_empty(shape) for shape in shapes)


def _backward_fake(*operands: Any) -> Gradients:
    p = Backward(*operands[:-1])
    like = (p.labels, p.edge_attr if p.needs_edges else None, p.weight, p.bias, p.neighbors)
    like = (*like, p.shift, p.factor, p.edge_gate)
    return Gradients(*(p.labels.new_empty((0,) if x is None else x.shape) for x in like))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    p = Forward(*inputs[:-1])
    ctx.options, ctx.backend = p[Forward._fields.index("depth") : -1], inputs[-1]
    ctx.set_materialize_grads(False)  # of what is kept: zeros that are never read
    ctx.save_for_backward(*p[: Forward._fields.index("depth")], *output[1:])


def _gradient(ctx: Any, grad_output: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    needs = dict(zip(Forward._fields, ctx.needs_input_grad, strict=False))
    gradients = torch.ops.representer.walk_rounds_backward(
        grad_output, *ctx.saved_tensors, *ctx.options, needs["edge_attr"], ctx.backend
    )
    of = dict(zip(Gradients._fields, gradients, strict=True))
    wanted = (of.get(name) if needs[name] else None for name in Forward._fields)
    return (*wanted, None)


OP = Op("walk_rounds", walk_rounds, functional.walk_rounds, samples)
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
