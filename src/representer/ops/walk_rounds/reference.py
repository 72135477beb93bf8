"""walk_rounds in torch, with its gradient written out.

With Z = P's gradient, filled part by part, a round is

    dp_j = S_j o dc_j,  dS_j = p_j o dc_j,  dc_{j-1} and the gate's from the sum's gradient,
    dz = sigma' o dh',  down = dz,  dinner from the sum's gradient of U^T dz,
    dh = Z W,  dW += Z^T h,  dc += Z^T 1

All products with the labels of a round are one product, and so are those of its gradient: the sums
read and write columns of one matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from math import prod
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer.errors import ArgumentError, ShapeError
from representer.functional import NONLINEARITIES, nonlinearity
from representer.ops.table import Operand
from representer.ops.walk_aggregate.reference import EDGES, evaluate, gradients
from representer.ops.walk_aggregate.reference import Operands as Sum


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
            if p.edge_gate is not None:
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
