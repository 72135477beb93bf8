"""The rounds of a Weisfeiler-Lehman network, on every backend."""

from __future__ import annotations

from collections.abc import Container
from math import prod
from typing import Any

from torch import Tensor

from representer import functional
from representer.functional import NONLINEARITIES
from representer.ops import core, gpu, structs
from representer.ops.common import may_need_gradient
from representer.ops.op import Backend, Op
from representer.ops.table import OperandTable
from representer.ops.walk_aggregate import refuses, transposed
from representer.ops.walk_rounds import reference
from representer.ops.walk_rounds.reference import Operands, Results, check, sizes

# walk_rounds on the compiled core.

_CODES = {name: code for code, name in enumerate(NONLINEARITIES)}


def cpp_forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    hidden, tape = new.hidden, new.tape
    if not p.keep:  # memory for one round
        hidden = p.labels.new_empty(p.labels.shape)
        tape = p.labels.new_empty(sum(map(prod, p.parts)))
    _run("rounds_forward", p, keep=p.keep, out=new.y, hidden=hidden, tape=tape)
    return new


def cpp_backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    (N, d), (steps, H, K) = p.labels.shape, p.factor.shape
    new = p.labels.new_zeros
    grads = {
        "labels": new(N, d),
        "weight": new(p.weight.shape),
        "bias": new(p.bias.shape),
        "neighbors": new(d, d),
        "shift": new(K, d),
        "factor": new(steps, K, H),
    }
    if p.edge_gate is not None:
        grads["edge_gate"] = new(K, H)
    threads = core.threads()  # read once: the memory for their parts must fit their number
    if "edge_attr" in requested:
        grads["edge_attr"] = new(min(threads, max(d, H)), *p.edge_attr.shape)
    tensors = core.filled(
        **{"grad_edges" if name == "edge_attr" else f"grad_{name}": x for name, x in grads.items()}
    )
    _run("rounds_backward", p, threads=threads, keep=True, hidden=kept.hidden, tape=kept.tape,
         grad_output=grad.y, **tensors)  # fmt: skip
    return transposed(grads)


def _run(operation: str, p: Operands, **fields: Any) -> None:
    """Run an operation; the weights of edges are transposed, so that units are contiguous."""
    (nodes, channels), (steps, units, features) = p.labels.shape, p.factor.shape
    core.run(
        operation, structs.RoundsStruct, p.labels.dtype, nodes=nodes, channels=channels,
        units=units, edges=p.edge_index.shape[1], features=features, steps=steps, depth=p.depth,
        first=p.first, activation=_CODES[p.activation], labels=p.labels, edge_index=p.edge_index,
        edge_attr=p.edge_attr, weight=p.weight, bias=p.bias, neighbors=p.neighbors,
        shift=p.shift.mT, factor=p.factor.mT,
        edge_gate=None if p.edge_gate is None else p.edge_gate.mT, scale=p.scale, **fields,
    )  # fmt: skip


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
    :math:`h^{(l)} W^\top + c`; the gate is as in ``walk_aggregate``. This is what
    :class:`~representer.nn.WLKernelNN` computes, with one product in each round instead of six.
    Nothing of the size of edges × units is kept.

    Arguments and results are those of ``functional.walk_rounds``. The rows of W are those of the
    neighbors' and of the own label, of p_1 … p_n, and of the gate's source and target, below each
    other. ``backend`` names a backend, which runs or raises; None is the fastest available one.

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not.
        ArgumentError: If an edge joins a node that does not exist, or there is no such round.
        BackendError: If the requested backend cannot run the call.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (6), (9)-(11), section 4.
    """
    tensors = (labels, edge_index, edge_attr, weight, bias, neighbors, shift, factor, edge_gate)
    keep = may_need_gradient(tensors)
    p = Operands(*tensors, depth, first, float(scale), activation, keep)
    results = OP(p, backend)
    return results if isinstance(results, Tensor) else results[0]  # the definition returns y alone


OP = Op("walk_rounds", walk_rounds, functional.walk_rounds)
OP.register(OperandTable(Operands, Results, sizes, check))
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(gpu.backend("walk_rounds", refuses))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, core.refuses))
