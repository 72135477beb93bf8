# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""walk_aggregate in Triton: a program adds up the edges of 16 nodes at a time, in a fixed order.

The edges of a node are found by one stable sort of their targets, and for the gradient one of their
sources, as long as ``edge_index`` is the same tensor. A turn of a program's loop takes the next
edge of each of its nodes, so that their loads do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.ops.common import Remembered
from representer.ops.gpu import ceil_div, power_of_2
from representer.ops.steps import accumulator, slope, value
from representer.ops.walk_aggregate import Operands, Results

_UNITS = 64  # of a program
_NODES = 16  # of a program at a time
_PROGRAMS = 528  # four for each multiprocessor of an H100
_WEIGHTS = ("shift", "factor", "edge_gate")
# in the order of one end; their other end, in this order; the place of the first one of each node
Edges = tuple[Tensor, Tensor, Tensor]


@triton.jit
def _columns(weight, unit, is_unit, features, k, ACC: tl.constexpr):
    """Return a column of a weight ``(H, K)`` at some units ``(1, BLOCK)``, 0 without one."""
    column = tl.zeros((1, unit.shape[0]), ACC)
    if weight is not None:
        column = tl.load(weight + unit * features + k, mask=is_unit, other=0.0).to(ACC)[None, :]
    return column


@triton.jit
def _messages(
    x, gate, edge, is_edge, edge_attr, shift, factor, edge_gate, unit, is_unit, features,
    GATED: tl.constexpr, TAU: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Return z, tau(z), the factor F a and the sigmoid of the gate of edges ``(NODES, BLOCK)``."""
    z, s = x, tl.full(x.shape, 1.0, ACC)
    f = tl.zeros(x.shape, ACC) if factor is not None else tl.full(x.shape, 1.0, ACC)
    if edge_attr is not None:
        for k in range(features):
            a = tl.load(edge_attr + edge * features + k, mask=is_edge, other=0.0).to(ACC)[:, None]
            z += a * _columns(shift, unit, is_unit, features, k, ACC)
            if factor is not None:
                f += a * _columns(factor, unit, is_unit, features, k, ACC)
            if edge_gate is not None:
                gate += a * _columns(edge_gate, unit, is_unit, features, k, ACC)
    if GATED:
        s = tl.sigmoid(gate)
    return z, value(z, TAU), f, s


@triton.jit
def _gradients(dy, z, t, f, s, GATED: tl.constexpr, SCALE: tl.constexpr, TAU: tl.constexpr):
    """Return the gradients of z, of the factor and of the gate's argument of an edge."""
    d_gate = tl.zeros_like(dy)
    if GATED:
        dy *= SCALE * s
        d_gate = dy * f * t * (1 - s)
    return dy * f * slope(z, t, TAU), dy * t, d_gate


@triton.jit
def _place(starts, tile, nodes, NODES: tl.constexpr):
    """Return the nodes of a tile, which exist, the first edge of each, and their numbers."""
    node = tl.cast(tile, tl.int64) * NODES + tl.arange(0, NODES)
    is_node = node < nodes
    first = tl.load(starts + node, mask=is_node, other=0)
    return node, is_node, first, tl.load(starts + node + 1, mask=is_node, other=0) - first


@triton.jit
def _rows(x, row, length, unit, is_there, ACC: tl.constexpr):
    """Return rows of a matrix at some units ``(NODES, BLOCK)``."""
    at = row[:, None] * length + unit[None, :]
    return tl.load(x + at, mask=is_there, other=0.0).to(ACC)


@triton.jit(do_not_specialize=["nodes"])
def _forward(
    x, order, others, starts, edge_attr, shift, factor, source_gate, target_gate, edge_gate, times,
    y, out, nodes, units, features, x_row, gate_row, times_row, NODES: tl.constexpr,
    SCALE: tl.constexpr, TAU: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the sums, and add them, times something of their node, to y."""
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_unit = unit < units
    GATED: tl.constexpr = source_gate is not None
    for tile in range(tl.program_id(0), tl.cdiv(nodes, NODES), tl.num_programs(0)):
        node, is_node, first, count = _place(starts, tile, nodes, NODES)
        is_there = is_node[:, None] & is_unit[None, :]
        total, gate = tl.zeros((NODES, BLOCK), ACC), tl.zeros((NODES, BLOCK), ACC)
        if GATED:
            q = _rows(target_gate, node, gate_row, unit, is_there, ACC)
        for i in range(tl.max(count, 0)):
            is_edge = count > i
            is_message = is_edge[:, None] & is_unit[None, :]
            edge = tl.load(order + first + i, mask=is_edge, other=0)
            u = tl.load(others + first + i, mask=is_edge, other=0)
            if GATED:
                gate = q + _rows(source_gate, u, gate_row, unit, is_message, ACC)
            x_u = _rows(x, u, x_row, unit, is_message, ACC)
            _, t, f, s = _messages(
                x_u, gate, edge, is_edge, edge_attr, shift, factor, edge_gate, unit, is_unit,
                features, GATED, TAU, ACC,
            )  # fmt: skip
            total += tl.where(is_message, t * f * s, 0.0)
        if GATED:
            total *= SCALE
        at = node[:, None] * units + unit[None, :]
        tl.store(out + at, total, mask=is_there)
        if times is not None:
            total *= _rows(times, node, times_row, unit, is_there, ACC)
            total += tl.load(y + at, mask=is_there, other=0.0).to(ACC)
            tl.store(y + at, total, mask=is_there)


@triton.jit(do_not_specialize=["nodes", "edges"])
def _backward(
    grad, x, order, others, starts, edge_attr, shift, factor, own_gate, other_gate, edge_gate,
    times, sums, d_times, dx, d_gate, d_shift, d_factor, d_edge_gate, d_edges, nodes, units,
    features, edges, x_row, gate_row, times_row, dx_row, OF_SOURCES: tl.constexpr,
    NODES: tl.constexpr, FEATURES: tl.constexpr, SCALE: tl.constexpr, TAU: tl.constexpr,
    ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write gradients of the sources of edges and of the weights, or of the targets' gates.

    With ``times``, the gradient is that of the sums times something of their node, which gets one,
    too. Gradients of nodes are columns of one matrix, whose rows have ``dx_row`` entries.
    """
    unit, k_all = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, FEATURES)[None, :]
    is_unit, block = unit < units, tl.program_id(1).to(tl.int64)
    GATED: tl.constexpr = own_gate is not None
    by_shift = tl.zeros((BLOCK, FEATURES), ACC)
    by_factor, by_gate = by_shift, by_shift
    for tile in range(tl.program_id(0), tl.cdiv(nodes, NODES), tl.num_programs(0)):
        node, is_node, first, count = _place(starts, tile, nodes, NODES)
        is_there = is_node[:, None] & is_unit[None, :]
        to_x, to_gate = tl.zeros((NODES, BLOCK), ACC), tl.zeros((NODES, BLOCK), ACC)
        gate = tl.zeros((NODES, BLOCK), ACC)
        if GATED:
            own = _rows(own_gate, node, gate_row, unit, is_there, ACC)
        for i in range(tl.max(count, 0)):
            is_edge = count > i
            is_message = is_edge[:, None] & is_unit[None, :]
            edge = tl.load(order + first + i, mask=is_edge, other=0)
            there = tl.load(others + first + i, mask=is_edge, other=0)
            u, v = (node, there) if OF_SOURCES else (there, node)
            if GATED:
                gate = own + _rows(other_gate, there, gate_row, unit, is_message, ACC)
            x_u = _rows(x, u, x_row, unit, is_message, ACC)
            dy = _rows(grad, v, units, unit, is_message, ACC)
            if times is not None:
                dy *= _rows(times, v, times_row, unit, is_message, ACC)
            z, t, f, s = _messages(
                x_u, gate, edge, is_edge, edge_attr, shift, factor, edge_gate, unit, is_unit,
                features, GATED, TAU, ACC,
            )  # fmt: skip
            dz, df, dg = _gradients(dy, z, t, f, s, GATED, SCALE, TAU)
            dz, df = tl.where(is_message, dz, 0.0), tl.where(is_message, df, 0.0)
            dg = tl.where(is_message, dg, 0.0)
            to_x += dz
            to_gate += dg
            if OF_SOURCES and edge_attr is not None:
                for k in range(features):
                    a = tl.load(edge_attr + edge * features + k, mask=is_edge, other=0.0)
                    a, is_k = a.to(ACC)[:, None], k_all == k
                    by_shift += tl.where(is_k, tl.sum(dz * a, 0)[:, None], 0.0)
                    by_factor += tl.where(is_k, tl.sum(df * a, 0)[:, None], 0.0)
                    by_gate += tl.where(is_k, tl.sum(dg * a, 0)[:, None], 0.0)
                    if d_edges is not None:
                        pulled = dz * _columns(shift, unit, is_unit, features, k, ACC)
                        pulled += df * _columns(factor, unit, is_unit, features, k, ACC)
                        pulled += dg * _columns(edge_gate, unit, is_unit, features, k, ACC)
                        to = d_edges + (block * edges + edge) * features + k
                        tl.store(to, tl.sum(pulled, 1), mask=is_edge)
        at = node[:, None] * dx_row + unit[None, :]
        if OF_SOURCES:
            tl.store(dx + at, to_x, mask=is_there)
            if times is not None:
                to_times = _rows(grad, node, units, unit, is_there, ACC)
                to_times *= _rows(sums, node, units, unit, is_there, ACC)
                tl.store(d_times + at, to_times, mask=is_there)
        if GATED:
            tl.store(d_gate + at, to_gate, mask=is_there)
    if OF_SOURCES:
        is_entry = is_unit[:, None] & (k_all < features)
        to = (tl.program_id(0).to(tl.int64) * units + unit[:, None]) * features + k_all
        if d_shift is not None:
            tl.store(d_shift + to, by_shift, mask=is_entry)
        if d_factor is not None:
            tl.store(d_factor + to, by_factor, mask=is_entry)
        if d_edge_gate is not None:
            tl.store(d_edge_gate + to, by_gate, mask=is_entry)


_sorted = Remembered()  # edges, by end and number of nodes


def edges_of_nodes(edge_index: Tensor, end: int, nodes: int) -> Edges:
    """Return the edges in the order of one end; sorted once for a tensor that does not change."""
    return _sorted.get(edge_index, (end, nodes), lambda: _sort(edge_index, end, nodes))


def _sort(edge_index: Tensor, end: int, nodes: int) -> Edges:
    ordered, order = edge_index[end].sort(stable=True)
    starts = torch.searchsorted(ordered, torch.arange(nodes + 1, device=ordered.device))
    return order, edge_index[1 - end][order], starts


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    evaluate(p, new.sums, edges_of_nodes(p.edge_index, 1, len(p.nodes)))
    return new


def evaluate(
    p: Operands, out: Tensor, incoming: Edges, times: Tensor | None = None, y: Tensor | None = None
) -> None:
    """Write the sums over the neighbors ``(N, H)``, and add them, times a matrix, to y."""
    nodes, units = p.nodes.shape
    if nodes and units:
        grid, options = _launch(p)
        options.pop("FEATURES")
        x, source_gate, target_gate, tensors, strides = _operands(p)
        _forward[grid](
            x, *incoming, *tensors[:3], source_gate, target_gate, tensors[3], times, y, out, nodes,
            units, *strides, 0 if times is None else times.stride(0), **options,
        )  # fmt: skip


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    incoming, outgoing = (edges_of_nodes(p.edge_index, i, len(p.nodes)) for i in (1, 0))
    return gradients(p, grad.sums, requested, incoming, outgoing)


def gradients(
    p: Operands, dy: Tensor, requested: Container[str], incoming: Edges, outgoing: Edges
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name, from that of the sums."""
    found, parts = new_gradients(p, dy), new_parts(p, requested)
    launch_gradients(p, dy, (incoming, outgoing), found | parts)
    return found | {name: part.sum(0).to(dy.dtype) for name, part in parts.items()}


def new_gradients(p: Operands, dy: Tensor) -> dict[str, Tensor]:
    """Return memory for the gradients of nodes and of gates."""
    names = ("nodes",) if p.source_gate is None else ("nodes", "source_gate", "target_gate")
    return {name: dy.new_empty(p.nodes.shape) for name in names}


def new_parts(p: Operands, requested: Container[str], *sums: int) -> dict[str, Tensor]:
    """Return memory for parts of the gradients of weights, by program, in each of many sums."""
    grid, _ = _launch(p)
    shapes = {name: (max(grid[0], 1), *weight.shape) for name in _WEIGHTS
              if (weight := getattr(p, name)) is not None}  # fmt: skip
    if p.edge_attr is not None and "edge_attr" in requested:
        shapes["edge_attr"] = max(grid[1], 1), *p.edge_attr.shape
    make = p.nodes.new_empty if p.nodes.numel() else p.nodes.new_zeros  # without a launch
    wide, _ = accumulator(p.nodes.dtype)
    return {name: make((*sums, *shape), dtype=wide) for name, shape in shapes.items()}


def launch_gradients(
    p: Operands, dy: Tensor, edges: tuple[Edges, Edges], to: dict[str, Tensor],
    times: Tensor | None = None, sums: Tensor | None = None,
) -> None:  # fmt: skip
    """Write the gradients, from that of the sums, or of the ``sums`` times a matrix.

    Those of nodes, gates and ``times`` are columns of one matrix, or matrices of their own.
    """
    (nodes, units), (grid, options), (incoming, outgoing) = p.nodes.shape, _launch(p), edges
    if not p.nodes.numel():
        return
    x, source_gate, target_gate, tensors, strides = _operands(p)
    dy, numbers = dy.contiguous(), (nodes, units, strides[0], p.edge_index.shape[1], *strides[1:])
    rows = 0 if times is None else times.stride(0), to["nodes"].stride(0)
    of_nodes = to["nodes"], to.get("source_gate")
    _backward[grid](
        dy, x, *outgoing, *tensors[:3], source_gate, target_gate, tensors[3], times, sums,
        to.get("times"), *of_nodes, *map(to.get, _WEIGHTS), to.get("edge_attr"), *numbers, *rows,
        OF_SOURCES=True, **options,
    )  # fmt: skip
    if p.source_gate is not None:
        _backward[grid](
            dy, x, *incoming, *tensors[:3], target_gate, source_gate, tensors[3], times, sums, None,
            None, to["target_gate"], None, None, None, None, *numbers, *rows, OF_SOURCES=False,
            **options,
        )  # fmt: skip


def _launch(p: Operands) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return the grid and the constants of a kernel."""
    nodes, units = p.nodes.shape
    features = 1 if p.edge_attr is None else p.edge_attr.shape[1]
    block = min(power_of_2(max(units, 1)), _UNITS)
    blocks = ceil_div(units, block)
    programs = min(ceil_div(nodes, _NODES), max(1, _PROGRAMS // max(blocks, 1)))
    options = accumulator(p.nodes.dtype)[1] | {
        "FEATURES": power_of_2(max(features, 1)), "BLOCK": block, "NODES": _NODES,
        "SCALE": p.scale, "TAU": p.activation, "num_warps": 4,
    }  # fmt: skip
    return (programs, blocks), options


def _operands(p: Operands) -> tuple[Any, ...]:
    """Return the tensors of a kernel, and the features and lengths of rows."""
    x, p_gate, q_gate = (_with_rows(x) for x in (p.nodes, p.source_gate, p.target_gate))
    if p_gate is not None and q_gate is not None and p_gate.stride(0) != q_gate.stride(0):
        p_gate, q_gate = p_gate.contiguous(), q_gate.contiguous()
    others = [None if x is None else x.contiguous()
              for x in (p.edge_attr, p.shift, p.factor, p.edge_gate)]  # fmt: skip
    features = 0 if p.edge_attr is None else p.edge_attr.shape[1]
    gate_row = 0 if p_gate is None else p_gate.stride(0)
    return x, p_gate, q_gate, others, (features, x.stride(0), gate_row)


def _with_rows(x: Tensor | None) -> Tensor | None:
    """Return a matrix whose rows are contiguous."""
    return x if x is None or x.stride(1) == 1 else x.contiguous()
