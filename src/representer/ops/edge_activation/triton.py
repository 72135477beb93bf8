# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""edge_activation in Triton: rows of a table, found by a search in the centers of an input.

Between two centers the functions of an input's edges are polynomials about a center c_b,

    f(a) = sum_r (a - c_b)^r T_r,    T_r = sum_k W_rk chi_k,
    W_rk = C(m, r) s_k (c_b - c_k)^(m - r)

where s_k is the sign of g on this side of c_k. So the table T of all intervals is one product of
matrices, and so are the gradients of coefficients and centers, from the moments of each interval:
sums of grad (a - c_b)^r over its inputs, which are sorted, and added in a fixed order.

|u| has the slope 0 at its corner: there every center is an interval of its own, with s_k = 0.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.ops.edge_activation import Operands, Results
from representer.ops.edge_activation import backward as reference_backward
from representer.ops.edge_activation import forward as reference_forward
from representer.ops.gpu import ceil_div
from representer.ops.kernel_activation import SHAPES
from representer.ops.steps import accumulator

_MOST_ENTRIES = 1 << 23  # of the tables of some inputs: 32 MiB in float32
_ROWS, _OUTPUTS = 16, 128  # of a program, for values; 16 rows at a time for the others
_FEW_OUTPUTS = 64  # of a program, for sums over rows
_SEARCHED = 256  # inputs of a program


@triton.jit(do_not_specialize=["rows"])
def _search(
    x, centers, interval, distance, rows, count, STEPS: tl.constexpr, CORNERS: tl.constexpr,
    ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Write the interval of each input, and its distance from the center below, for (F, N)."""
    blocks = tl.cdiv(rows, ROWS)
    feature = tl.program_id(0) // blocks
    row = (tl.program_id(0) % blocks) * ROWS + tl.arange(0, ROWS)
    x += feature.to(tl.int64) * rows
    c = centers + feature * count
    a = tl.load(x + row, mask=row < rows, other=0.0).to(ACC)
    below = tl.zeros((ROWS,), tl.int32)
    for s in tl.static_range(STEPS):
        more = below + (1 << (STEPS - 1 - s))
        last = tl.load(c + more - 1, mask=more <= count, other=float("inf"))
        below = tl.where(last < a, more, below)
    t = a - tl.load(c + tl.maximum(below - 1, 0))
    if CORNERS:
        is_there = below < count
        is_center = tl.load(c + below, mask=is_there, other=float("nan")) == a
        below = 2 * below + is_center.to(tl.int32)
        t = tl.where(is_center, 0.0, t)
    to = feature.to(tl.int64) * rows + row
    tl.store(interval + to, below, mask=row < rows)
    tl.store(distance + to, t, mask=row < rows)


@triton.jit(do_not_specialize=["rows", "features"])
def _values(
    table, interval, distance, out, rows, features, outputs, entries, POWERS: tl.constexpr,
    ADDS: tl.constexpr, ROWS: tl.constexpr, OUTPUTS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Write, or add to y, the sum of the functions of some inputs."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    is_row = row < rows
    is_there = is_row[:, None] & (j < outputs)[None, :]
    to = out + row[:, None] * outputs + j[None, :]
    total = tl.zeros((ROWS, OUTPUTS), ACC)
    if ADDS:
        total = tl.load(to, mask=is_there, other=0.0)
    for _ in range(features):
        q = tl.load(interval + row, mask=is_row, other=0)
        t = tl.load(distance + row, mask=is_row, other=0.0)
        entry = table + (q * (POWERS * outputs))[:, None] + j[None, :]
        value = tl.load(entry + (POWERS - 1) * outputs, mask=is_there, other=0.0)
        for r in tl.static_range(POWERS - 1):
            lower = tl.load(entry + (POWERS - 2 - r) * outputs, mask=is_there, other=0.0)
            value = value * t[:, None] + lower
        total += value
        table += entries
        interval += rows
        distance += rows
    tl.store(to, total, mask=is_there)


@triton.jit(do_not_specialize=["rows"])
def _slopes(
    table, interval, distance, grad, d_input, rows, outputs, entries, POWERS: tl.constexpr,
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Write the gradient of the inputs, for (F, N)."""
    blocks = tl.cdiv(rows, ROWS)
    feature = (tl.program_id(0) // blocks).to(tl.int64)
    row = (tl.program_id(0) % blocks) * ROWS + tl.arange(0, ROWS)
    is_row = row < rows
    q = tl.load(interval + feature * rows + row, mask=is_row, other=0)
    t = tl.load(distance + feature * rows + row, mask=is_row, other=0.0)[:, None]
    entry = table + feature * entries + (q * (POWERS * outputs))[:, None]
    from_row = grad + row.to(tl.int64)[:, None] * outputs
    total = tl.zeros((ROWS, OUTPUTS), ACC)
    for first in range(0, outputs, OUTPUTS):
        j = first + tl.arange(0, OUTPUTS)[None, :]
        is_there = is_row[:, None] & (j < outputs)
        last = tl.load(entry + j + (POWERS - 1) * outputs, mask=is_there, other=0.0)
        slope = (POWERS - 1) * last
        for r in tl.static_range(POWERS - 2):
            lower = tl.load(entry + j + (POWERS - 2 - r) * outputs, mask=is_there, other=0.0)
            slope = slope * t + (POWERS - 2 - r) * lower
        total += slope * tl.load(from_row + j, mask=is_there, other=0.0).to(ACC)
    tl.store(d_input + feature * rows + row, tl.sum(total, 1), mask=is_row)


@triton.jit(do_not_specialize=["rows"])
def _moments(
    order, starts, distance, grad, moments, rows, outputs, intervals, POWERS: tl.constexpr,
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Write sum grad t^r over the inputs of an interval, for (F, intervals, r, J)."""
    feature = (tl.program_id(0) // intervals).to(tl.int64)
    q = tl.program_id(0) % intervals
    j = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    is_output = j < outputs
    start = starts + feature * (intervals + 1) + q
    end = tl.load(start + 1)
    order += feature * rows
    distance += feature * rows
    zero = tl.zeros((ROWS, OUTPUTS), ACC)
    m0, m1, m2, m3 = zero, zero, zero, zero
    for first in range(tl.load(start), end, ROWS):
        place = first + tl.arange(0, ROWS)
        row = tl.load(order + place, mask=place < end, other=0)
        t = tl.load(distance + row, mask=place < end, other=0.0)[:, None]
        is_there = (place < end)[:, None] & is_output[None, :]
        at = row.to(tl.int64)[:, None] * outputs + j[None, :]
        g = tl.load(grad + at, mask=is_there, other=0.0).to(ACC)
        m0 += g
        m1 += g * t
        if POWERS > 2:
            m2 += g * t * t
            m3 += g * t * t * t
    to = moments + tl.program_id(0).to(tl.int64) * POWERS * outputs + j
    tl.store(to, tl.sum(m0, 0), mask=is_output)
    tl.store(to + outputs, tl.sum(m1, 0), mask=is_output)
    if POWERS > 2:
        tl.store(to + 2 * outputs, tl.sum(m2, 0), mask=is_output)
        tl.store(to + 3 * outputs, tl.sum(m3, 0), mask=is_output)


def powers(p: Operands) -> int:
    """Return the rows of a polynomial."""
    return SHAPES[p.green][0] + 1


def intervals(p: Operands) -> int:
    """Return the intervals of an input."""
    return (2 if p.green == "abs" else 1) * p.centers.shape[1] + 1


def is_product(p: Operands) -> bool:
    """Return True if the sum over all centers is as fast: a table has more rows than the batch.

    Gaussians are no polynomials.
    """
    return p.green == "gaussian" or len(p.input) < powers(p) * intervals(p) or not _has_table(p)


def _has_table(p: Operands) -> bool:
    """Return False if there is nothing to sum, or a place in a table has more than 31 bits."""
    features, outputs, _ = p.coefficients.shape
    entries = powers(p) * intervals(p) * outputs
    return 0 < entries < 1 << 31 and features > 0 and len(p.input) > 0


def describe(p: Operands) -> str:
    """Return which of the kernels runs a call."""
    return "a product of matrices" if is_product(p) else "rows of a table"


class _Block(NamedTuple):
    """Some inputs with their tables."""

    features: slice
    weights: Tensor  # W (F, intervals * powers, K)
    slopes: Tensor  # its derivative with respect to c_b - c_k
    table: Tensor  # (F, intervals * powers, J)
    interval: Tensor  # (F, N)
    distance: Tensor  # (F, N)


def _blocks(p: Operands) -> Iterator[_Block]:
    """Yield some inputs at a time, so that their tables stay small."""
    features, outputs, count = p.coefficients.shape
    dtype, options = accumulator(p.input.dtype)
    size = max(1, _MOST_ENTRIES // (powers(p) * intervals(p) * max(outputs, count)))
    for first in range(0, features, size):
        block = slice(first, first + size)
        ordered, weights, slopes = _weights(p.centers[block].to(dtype), p.green)
        x = p.input[:, block].mT.contiguous()
        distance = torch.empty_like(x, dtype=dtype)
        interval = torch.empty_like(x, dtype=torch.int32)
        _search[(len(x) * ceil_div(x.shape[1], _SEARCHED),)](
            x, ordered, interval, distance, x.shape[1], count, STEPS=count.bit_length(),
            CORNERS=p.green == "abs", ROWS=_SEARCHED, **options,
        )  # fmt: skip
        table = weights @ p.coefficients[block].mT.to(dtype)
        yield _Block(block, weights, slopes, table, interval, distance)


def _weights(centers: Tensor, green: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sorted centers ``(F, K)``, W, and its derivative."""
    degree, low = SHAPES[green]
    ordered, order = centers.sort(dim=1)
    count, rank = centers.shape[1], order.argsort(dim=1)
    below = torch.arange(count + 1, device=centers.device)
    base = ordered[:, (below - 1).clamp(min=0)]
    sign = torch.where(rank[:, None] < below[:, None], 1, low).to(centers)
    if green == "abs":  # a center behind each interval but the last

        def between(x: Tensor, corners: Tensor) -> Tensor:
            return torch.cat((torch.stack((x[:, :-1], corners), dim=2).flatten(1, 2), x[:, -1:]), 1)

        base = between(base, ordered)
        sign = between(sign, (ordered[:, :, None] - centers[:, None]).sign())
    d = base[:, :, None] - centers[:, None]
    weights, slopes = [], []
    for r in range(degree + 1):
        factor, power = math.comb(degree, r) * sign, degree - r
        weights.append(factor * d**power)
        slopes.append(factor * power * d ** max(power - 1, 0))
    stacked = (torch.stack(x, dim=2).flatten(1, 2) for x in (weights, slopes))
    return ordered.contiguous(), *stacked


def forward(p: Operands, new: Results) -> Any:
    """Fill in the results."""
    if is_product(p):
        return reference_forward(p, new)
    rows, outputs = new.output.shape
    dtype, options = accumulator(p.input.dtype)
    total = p.input.new_empty(rows, outputs, dtype=dtype)
    grid = ceil_div(rows, _ROWS), ceil_div(outputs, _OUTPUTS)
    for block in _blocks(p):
        _values[grid](
            block.table, block.interval, block.distance, total, rows, len(block.table), outputs,
            block.table[0].numel(), POWERS=powers(p), ADDS=block.features.start > 0, ROWS=_ROWS,
            OUTPUTS=_OUTPUTS, **options,
        )  # fmt: skip
    return total.to(p.input.dtype)


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    if is_product(p):
        return reference_backward(p, kept, grad, requested)
    upstream = grad.output.contiguous()
    gradients = {
        name: torch.empty_like(x, memory_format=torch.contiguous_format)
        for name, x in zip(p._fields, p[:3], strict=False)
    }
    for block in _blocks(p):
        gradients["input"][:, block.features] = _input_gradient(p, block, upstream).mT
        moments = _summed(p, block, upstream)
        gradients["coefficients"][block.features] = moments.mT @ block.weights
        pulls = moments @ p.coefficients[block.features].to(moments.dtype)
        gradients["centers"][block.features] = -(pulls * block.slopes).sum(1)
    return gradients


def _input_gradient(p: Operands, block: _Block, grad: Tensor) -> Tensor:
    """Return the gradient of some inputs ``(F, N)``."""
    d_input, (rows, outputs) = torch.empty_like(block.distance), grad.shape
    _slopes[(len(d_input) * ceil_div(rows, _ROWS),)](
        block.table, block.interval, block.distance, grad, d_input, rows, outputs,
        block.table[0].numel(), POWERS=powers(p), ROWS=_ROWS, OUTPUTS=_OUTPUTS,
        **accumulator(p.input.dtype)[1],
    )  # fmt: skip
    return d_input


def _summed(p: Operands, block: _Block, grad: Tensor) -> Tensor:
    """Return the moments of each interval ``(F, intervals * powers, J)``."""
    count, (rows, outputs) = intervals(p), grad.shape
    few = torch.uint8 if count < 256 else torch.int32  # a sort by fewer bits takes fewer passes
    keys, order = block.interval.to(few).sort(dim=1, stable=True)
    ends = torch.arange(count + 1, dtype=torch.int32, device=grad.device)
    starts = torch.searchsorted(keys.int(), ends.expand(len(keys), -1).contiguous())
    moments = torch.empty_like(block.table)
    _moments[(len(keys) * count, ceil_div(outputs, _FEW_OUTPUTS))](
        order, starts, block.distance, grad, moments, rows, outputs, count, POWERS=powers(p),
        ROWS=_ROWS, OUTPUTS=_FEW_OUTPUTS, **accumulator(p.input.dtype)[1],
    )  # fmt: skip
    return moments
