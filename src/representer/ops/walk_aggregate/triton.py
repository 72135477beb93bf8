# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""walk_aggregate in Triton: a program adds up the edges of some nodes, in a fixed order.

The edges of a node are found by one stable sort of their targets, and for the gradient one of their
sources. Products with edge features are formed edge by edge from a tile of the weight in registers.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.ops.steps import accumulator, slope, value
from representer.ops.walk_aggregate.reference import Operands, Results

_UNITS = 128  # of a program
_PROGRAMS = 528  # four for each multiprocessor of an H100
_WEIGHTS = ("shift", "factor", "edge_gate")
Edges = tuple[Tensor, Tensor]  # in the order of one end, and the first one of each node


@triton.jit
def _tile(weight, unit, units, features, FEATURES: tl.constexpr, ACC: tl.constexpr):
    """Return some rows of a weight ``(H, K)``, 0 without one."""
    k = tl.arange(0, FEATURES)
    tile = tl.zeros((unit.shape[0], FEATURES), ACC)
    if weight is not None:
        is_there = (unit < units)[:, None] & (k < features)[None, :]
        at = unit[:, None] * features + k[None, :]
        tile = tl.load(weight + at, mask=is_there, other=0.0).to(ACC)
    return tile


@triton.jit
def _features(edge_attr, edge, features, FEATURES: tl.constexpr, ACC: tl.constexpr):
    """Return a_e, 0 without edge features."""
    k = tl.arange(0, FEATURES)
    a = tl.zeros((FEATURES,), ACC)
    if edge_attr is not None:
        a = tl.load(edge_attr + edge * features + k, mask=k < features, other=0.0).to(ACC)
    return a


@triton.jit
def _message(
    x, gate, a, shift, factor, edge_gate, SHIFTED: tl.constexpr, SCALED: tl.constexpr,
    GATED: tl.constexpr, TAU: tl.constexpr,
):  # fmt: skip
    """Return z, tau(z), the factor F a and the sigmoid of the gate of an edge."""
    z = x
    if SHIFTED:
        z += tl.sum(shift * a[None, :], 1)
    f = tl.full(x.shape, 1.0, x.dtype)
    if SCALED:
        f = tl.sum(factor * a[None, :], 1)
    s = tl.full(x.shape, 1.0, x.dtype)
    if GATED:
        s = tl.sigmoid(gate + tl.sum(edge_gate * a[None, :], 1))
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
def _forward(
    x, source, order, starts, edge_attr, shift, factor, source_gate, target_gate, edge_gate, out,
    nodes, each, units, features, x_row, gate_row, FEATURES: tl.constexpr, SCALE: tl.constexpr,
    TAU: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_unit = unit < units
    of_shift = _tile(shift, unit, units, features, FEATURES, ACC)
    of_factor = _tile(factor, unit, units, features, FEATURES, ACC)
    of_gate = _tile(edge_gate, unit, units, features, FEATURES, ACC)
    GATED: tl.constexpr = source_gate is not None
    first_node = tl.program_id(0) * each
    for node in range(first_node, tl.minimum(first_node + each, nodes)):
        total, gate = tl.zeros((BLOCK,), ACC), tl.zeros((BLOCK,), ACC)
        row = tl.cast(node, tl.int64)
        if GATED:
            q = tl.load(target_gate + row * gate_row + unit, mask=is_unit, other=0.0).to(ACC)
        for i in range(tl.load(starts + row), tl.load(starts + row + 1)):
            edge = tl.load(order + i)
            u = tl.load(source + edge)
            if GATED:
                p = tl.load(source_gate + u * gate_row + unit, mask=is_unit, other=0.0)
                gate = q + p.to(ACC)
            a = _features(edge_attr, edge, features, FEATURES, ACC)
            x_u = tl.load(x + u * x_row + unit, mask=is_unit, other=0.0).to(ACC)
            _, t, f, s = _message(
                x_u, gate, a, of_shift, of_factor, of_gate, shift is not None, factor is not None,
                GATED, TAU,
            )  # fmt: skip
            total += t * f * s
        if GATED:
            total *= SCALE
        tl.store(out + row * units + unit, total, mask=is_unit)


@triton.jit
def _backward(
    grad, x, other_end, order, starts, edge_attr, shift, factor, own_gate, other_gate, edge_gate,
    dx, d_gate, d_shift, d_factor, d_edge_gate, d_edges, nodes, each, units, features, edges,
    x_row, gate_row, OF_SOURCES: tl.constexpr, FEATURES: tl.constexpr, SCALE: tl.constexpr,
    TAU: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write gradients of the sources of edges and of the weights, or of the targets' gates."""
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_unit = unit < units
    of_shift = _tile(shift, unit, units, features, FEATURES, ACC)
    of_factor = _tile(factor, unit, units, features, FEATURES, ACC)
    of_gate = _tile(edge_gate, unit, units, features, FEATURES, ACC)
    by_shift, by_factor = tl.zeros_like(of_shift), tl.zeros_like(of_factor)
    by_gate = tl.zeros_like(of_gate)
    GATED: tl.constexpr = own_gate is not None
    k = tl.arange(0, FEATURES)
    first_node = tl.program_id(0) * each
    for node in range(first_node, tl.minimum(first_node + each, nodes)):
        row = tl.cast(node, tl.int64)
        to_x, to_gate = tl.zeros((BLOCK,), ACC), tl.zeros((BLOCK,), ACC)
        gate = tl.zeros((BLOCK,), ACC)
        if GATED:
            own = tl.load(own_gate + row * gate_row + unit, mask=is_unit, other=0.0).to(ACC)
        for i in range(tl.load(starts + row), tl.load(starts + row + 1)):
            edge = tl.load(order + i)
            there = tl.load(other_end + edge)
            u, v = (row, there) if OF_SOURCES else (there, row)
            if GATED:
                p = tl.load(other_gate + there * gate_row + unit, mask=is_unit, other=0.0)
                gate = own + p.to(ACC)
            a = _features(edge_attr, edge, features, FEATURES, ACC)
            x_u = tl.load(x + u * x_row + unit, mask=is_unit, other=0.0).to(ACC)
            dy = tl.load(grad + v * units + unit, mask=is_unit, other=0.0).to(ACC)
            z, t, f, s = _message(
                x_u, gate, a, of_shift, of_factor, of_gate, shift is not None, factor is not None,
                GATED, TAU,
            )  # fmt: skip
            dz, df, dg = _gradients(dy, z, t, f, s, GATED, SCALE, TAU)
            to_x += dz
            to_gate += dg
            if OF_SOURCES:
                by_shift += dz[:, None] * a[None, :]
                by_factor += df[:, None] * a[None, :]
                by_gate += dg[:, None] * a[None, :]
                if d_edges is not None:
                    pulled = (
                        of_shift * dz[:, None] + of_factor * df[:, None] + of_gate * dg[:, None]
                    )
                    to = d_edges + (tl.program_id(1) * edges + edge) * features + k
                    tl.store(to, tl.sum(pulled, 0), mask=k < features)
        if OF_SOURCES:
            tl.store(dx + row * units + unit, to_x, mask=is_unit)
        if GATED:
            tl.store(d_gate + row * units + unit, to_gate, mask=is_unit)
    if OF_SOURCES:
        is_there = is_unit[:, None] & (k < features)[None, :]
        to = (tl.program_id(0).to(tl.int64) * units + unit[:, None]) * features + k[None, :]
        if d_shift is not None:
            tl.store(d_shift + to, by_shift, mask=is_there)
        if d_factor is not None:
            tl.store(d_factor + to, by_factor, mask=is_there)
        if d_edge_gate is not None:
            tl.store(d_edge_gate + to, by_gate, mask=is_there)


def edges_of_nodes(ends: Tensor, nodes: int) -> Edges:
    """Return the edges in the order of their ends, and the place of each node's first."""
    ordered, order = ends.sort(stable=True)
    return order, torch.searchsorted(ordered, torch.arange(nodes + 1, device=ends.device))


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    evaluate(p, edges_of_nodes(p.edge_index[1], len(p.nodes)), new.sums)
    return new


def evaluate(p: Operands, incoming: Edges, out: Tensor | None = None) -> Tensor:
    """Return the sums over the neighbors ``(N, H)``."""
    nodes, units = p.nodes.shape
    out = p.nodes.new_empty(nodes, units) if out is None else out
    if nodes and units:
        grid, each, options = _launch(p)
        x, source_gate, target_gate, tensors, strides = _operands(p)
        _forward[grid](
            x, p.edge_index[0].contiguous(), *incoming, *tensors[:3], source_gate, target_gate,
            tensors[3], out, nodes, each, units, *strides, **options,
        )  # fmt: skip
    return out


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    incoming, outgoing = (edges_of_nodes(p.edge_index[i], len(p.nodes)) for i in (1, 0))
    return gradients(p, grad.sums, requested, incoming, outgoing)


def gradients(
    p: Operands, dy: Tensor, requested: Container[str], incoming: Edges, outgoing: Edges
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name, from that of the sums."""
    nodes, units = p.nodes.shape
    grid, each, options = _launch(p)
    wide, _ = accumulator(p.nodes.dtype)
    found = {"nodes": dy.new_zeros(nodes, units)}
    if p.source_gate is not None:
        found |= {name: dy.new_zeros(nodes, units) for name in ("source_gate", "target_gate")}
    parts = {
        name: weight.new_zeros(max(grid[0], 1), *weight.shape, dtype=wide)
        for name in _WEIGHTS
        if (weight := getattr(p, name)) is not None
    }
    if p.edge_attr is not None and "edge_attr" in requested:
        parts["edge_attr"] = dy.new_zeros(max(grid[1], 1), *p.edge_attr.shape, dtype=wide)
    if nodes and units:
        x, source_gate, target_gate, tensors, strides = _operands(p)
        source, target, dy = *(end.contiguous() for end in p.edge_index), dy.contiguous()
        edges = len(source)
        _backward[grid](
            dy, x, target, *outgoing, *tensors[:3], source_gate, target_gate, tensors[3],
            found["nodes"], found.get("source_gate"), *map(parts.get, _WEIGHTS),
            parts.get("edge_attr"), nodes, each, units, strides[0], edges, *strides[1:],
            OF_SOURCES=True, **options,
        )  # fmt: skip
        if p.source_gate is not None:
            _backward[grid](
                dy, x, source, *incoming, *tensors[:3], target_gate, source_gate, tensors[3], None,
                found["target_gate"], None, None, None, None, nodes, each, units, strides[0], edges,
                *strides[1:], OF_SOURCES=False, **options,
            )  # fmt: skip
    return found | {name: part.sum(0).to(dy.dtype) for name, part in parts.items()}


def _launch(p: Operands) -> tuple[tuple[int, int], int, dict[str, Any]]:
    """Return the grid, the nodes of a program, and the constants of a kernel."""
    nodes, units = p.nodes.shape
    features = 1 if p.edge_attr is None else p.edge_attr.shape[1]
    block = min(triton.next_power_of_2(max(units, 1)), _UNITS)
    blocks = triton.cdiv(units, block)
    each = max(1, triton.cdiv(nodes * blocks, _PROGRAMS))
    options = accumulator(p.nodes.dtype)[1] | {
        "FEATURES": triton.next_power_of_2(max(features, 1)), "BLOCK": block, "SCALE": p.scale,
        "TAU": p.activation,
    }  # fmt: skip
    return (triton.cdiv(nodes, each), blocks), each, options


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
