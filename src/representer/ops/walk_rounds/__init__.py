"""The rounds of a Weisfeiler-Lehman network, on every backend."""

from __future__ import annotations

from collections.abc import Callable, Container
from math import prod
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer import functional
from representer.errors import ArgumentError, ShapeError
from representer.functional import NONLINEARITIES, nonlinearity
from representer.ops import core, gpu, structs
from representer.ops.common import may_need_gradient
from representer.ops.op import Backend, Op
from representer.ops.table import Operand, OperandTable
from representer.ops.walk_aggregate import EDGES, evaluate, gradients, refuses, transposed
from representer.ops.walk_aggregate import Operands as Sum

# walk_rounds in torch, with its gradient written out.
#
# With Z = P's gradient, filled part by part, a round is
#
#     dp_j = S_j o dc_j,  dS_j = p_j o dc_j,  dc_{j-1} and the gate's from the sum's gradient,
#     dz = sigma' o dh',  down = dz,  dinner from the sum's gradient of U^T dz,
#     dh = Z W,  dW += Z^T h,  dc += Z^T 1
#
# All products with the labels of a round are one product, and so are those of its gradient: the
# sums read and write columns of one matrix.


def _keeps(p: Any) -> bool:
    return p.keep


class Operands(NamedTuple):
    """Operands of walk_rounds."""

    labels: Annotated[Tensor, Operand("nodes channels")]
    edge_index: Annotated[Tensor, EDGES]
    edge_attr: Annotated[Tensor, Operand("edges features", on_request=True)]
    weight: Annotated[Tensor, Operand("rows channels")]
    bias: Annotated[Tensor, Operand("rows")]
    neighbors: Annotated[Tensor, Operand("channels channels")]
    shift: Annotated[Tensor, Operand("channels features")]
    factor: Annotated[Tensor, Operand("steps units features")]
    edge_gate: Annotated[Tensor | None, Operand("units features")]
    depth: int
    first: int
    scale: float
    activation: str
    keep: bool

    @property
    def parts(self) -> list[tuple[int, ...]]:
        """Shapes of the parts of a round's memory, see ``reference.Rows``."""
        (N, d), (steps, H, _) = self.labels.shape, self.factor.shape
        return [(N, len(self.weight)), (steps, N, H), (N, d)]


class Results(NamedTuple):
    """Results of walk_rounds: the sum, and the labels and the memory of every round."""

    y: Annotated[Tensor, Operand("nodes units", saved=False)]
    hidden: Annotated[
        Tensor, Operand("relabelings nodes channels", needed=_keeps, differentiable=False)
    ]
    tape: Annotated[Tensor, Operand("rounds tape", needed=_keeps, differentiable=False)]


def sizes(p: Operands) -> dict[str, int]:
    """Check the options of a call, and return the sizes that they determine."""
    nonlinearity(p.activation, "activation")
    if p.depth < 1:
        raise ArgumentError("depth", p.depth, "at least 1")
    if not 0 <= p.first < p.depth:
        expected = f"0 to {p.depth - 1}, as there are {p.depth} rounds"
        raise ArgumentError("first", p.first, expected)
    return {"rounds": p.depth, "relabelings": p.depth - 1}


def check(p: Operands, sizes: dict[str, int]) -> None:
    """Check the number of rows of the weight, and add the size of a round's memory."""
    gates = 0 if p.edge_gate is None else 2
    rows = 2 * sizes["channels"] + (sizes["steps"] + 1 + gates) * sizes["units"]
    if sizes["rows"] != rows:
        raise ShapeError("weight", tuple(p.weight.shape), f"({rows}, {sizes['channels']})")
    sizes["tape"] = sum(prod(shape) for shape in p.parts)


class Columns(NamedTuple):
    """Positions of the parts of a round's products in its rows."""

    inner: slice
    own: slice
    walks: list[slice]  # p_1 … p_n
    source: slice
    target: slice
    all: slice

    @staticmethod
    def of(p: Operands) -> Columns:
        """Return the columns of a call."""
        d, (steps, H, _) = p.labels.shape[1], p.factor.shape
        gate = 0 if p.edge_gate is None else H
        parts, end = [], 0
        for width in (d, d, *[H] * (steps + 1), gate, gate):
            parts.append(slice(end, end + width))
            end += width
        return Columns(parts[0], parts[1], parts[2:-2], parts[-2], parts[-1], slice(0, end))

    def used(self, p: Operands, level: int) -> slice:
        """Return the columns that a round needs."""
        start = 0 if level < p.depth - 1 else self.own.stop
        return slice(start, self.all.stop if level >= p.first else self.own.stop)


class Rows(NamedTuple):
    """The results of a round, one row per node: contiguous parts of one buffer."""

    # (N, R); own holds the argument of sigma afterwards, except for relu in the core
    products: Tensor
    sums: Tensor  # (n - 1, N, H), of c_2 … c_n
    message: Tensor  # (N, d), the sum for the relabeling

    @staticmethod
    def of(p: Operands, memory: Tensor) -> Rows:
        """Divide the memory of a round."""
        shapes = p.parts
        parts = memory.split([prod(shape) for shape in shapes])
        return Rows(*(chunk.view(shape) for chunk, shape in zip(parts, shapes, strict=True)))


def walk(p: Operands, columns: Columns, rows: Rows, j: int) -> Sum:
    """Return the operands of the sum of c_j+1 over the neighbors."""
    P = rows.products
    c = P[:, columns.walks[j]]
    if j:
        c = c * rows.sums[j - 1]
    is_gated = p.edge_gate is not None
    return Sum(
        c, p.edge_index, p.edge_attr, None, p.factor[j],
        P[:, columns.source] if is_gated else None, P[:, columns.target] if is_gated else None,
        p.edge_gate, p.scale, "identity",
    )  # fmt: skip


def relabel(p: Operands, c: Columns, rows: Rows) -> Sum:
    """Return the operands of the sum over the neighbors in the relabeling."""
    return Sum(
        rows.products[:, c.inner], p.edge_index, p.edge_attr, p.shift, None, None, None, None, 1.0,
        p.activation,
    )  # fmt: skip


def _evaluate(p: Sum, out: Tensor, times: Tensor | None = None, y: Tensor | None = None) -> None:
    out.copy_(evaluate(p))
    if times is not None and y is not None:
        y.addcmul_(times, out)


def forward(p: Operands, new: Results, evaluate: Callable[..., None] = _evaluate) -> Results:
    """Fill in the results; ``evaluate`` writes a sum over the neighbors, and may add it to y."""
    columns, (y, hidden, tape) = Columns.of(p), new
    tape.zero_()  # not all of it is written, and an operator's results have no bits by chance
    scratch = None if p.keep else p.labels.new_empty(sum(map(prod, p.parts)))
    y, h = y.zero_(), p.labels
    for level in range(p.depth):
        rows, used = Rows.of(p, tape[level] if scratch is None else scratch), columns.used(p, level)
        torch.addmm(p.bias[used], h, p.weight[used].mT, out=rows.products[:, used])
        if level >= p.first:
            last = rows.products[:, columns.walks[-1]]
            for j, S in enumerate(rows.sums):
                is_end = j + 1 == len(rows.sums)
                evaluate(walk(p, columns, rows, j), S, *(last, y) * is_end)
            if not len(rows.sums):
                y.add_(last)
        if level < p.depth - 1:
            evaluate(relabel(p, columns, rows), rows.message)
            z = rows.products[:, columns.own].addmm_(rows.message, p.neighbors.mT)
            h = hidden[level] if p.keep else torch.empty_like(rows.message)
            _activate(p.activation, z, h)
    return new


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    columns, steps = Columns.of(p), len(p.factor)
    names = ("weight", "bias", "neighbors", "shift", "factor", "edge_gate", "edge_attr")
    results = {
        name: x.new_zeros(x.shape)
        for name in names
        if (x := getattr(p, name)) is not None and (name != "edge_attr" or name in requested)
    }
    # the last round makes no labels, so the first value of dh is not read
    Z, dh = grad.y.new_empty(len(p.labels), columns.all.stop), grad.y
    for level in reversed(range(p.depth)):
        rows, used = Rows.of(p, kept.tape[level]), columns.used(p, level)
        h = kept.hidden[level - 1] if level else p.labels
        if level < p.depth - 1:
            dz = _sloped(p.activation, rows.products[:, columns.own], kept.hidden[level], dh)
            results["neighbors"].addmm_(dz.mT, rows.message)
            Z[:, columns.own] = dz
            parts = gradients(relabel(p, columns, rows), dz @ p.neighbors, requested)
            Z[:, columns.inner] = parts["nodes"]
            _add(parts, results, "shift", "edge_attr")
        if level >= p.first:
            if p.edge_gate is not None:  # added up over the steps; others are written once
                Z[:, slice(columns.source.start, columns.target.stop)] = 0
            dc_j = grad.y
            for j in reversed(range(steps)):
                torch.mul(rows.sums[j], dc_j, out=Z[:, columns.walks[j + 1]])
                dS = rows.products[:, columns.walks[j + 1]] * dc_j
                parts = gradients(walk(p, columns, rows, j), dS, requested)
                dc_j = parts["nodes"]
                results["factor"][j] += parts["factor"]
                _add(parts, results, "edge_gate", "edge_attr")
                if p.edge_gate is not None:
                    Z[:, columns.source] += parts["source_gate"]
                    Z[:, columns.target] += parts["target_gate"]
            Z[:, columns.walks[0]] = dc_j
        dP = Z[:, used]
        results["weight"][used].addmm_(dP.mT, h)
        results["bias"][used] += dP.sum(0)
        dh = dP @ p.weight[used]
    return results | {"labels": dh}


def _add(parts: dict[str, Tensor], results: dict[str, Tensor], *names: str) -> None:
    """Add gradients to their sums, as far as there are any."""
    for name in names:
        if name in parts and name in results:
            results[name] += parts[name]


def _activate(activation: str, z: Tensor, y: Tensor) -> None:
    """Write y = sigma(z)."""
    if activation == "relu":  # in one pass
        torch.clamp_min(z, 0, out=y)
    elif activation in ("tanh", "sigmoid"):
        getattr(torch, activation)(z, out=y)
    else:
        y.copy_(NONLINEARITIES[activation].value(z))


def _sloped(activation: str, z: Tensor, y: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of z from that of y = sigma(z)."""
    if activation == "relu":  # in one pass
        return torch.ops.aten.threshold_backward(gradient, y, 0)
    return gradient * NONLINEARITIES[activation].derivative(z, y)


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
OP.add_backend(Backend("reference", (), forward, backward))
OP.add_backend(gpu.backend("walk_rounds", refuses))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, core.refuses))
