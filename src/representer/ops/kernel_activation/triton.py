# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""kernel_activation in Triton: direct sums over the centers, kept in registers.

A sum over hundred centers takes as long as reading the inputs a few times, and loses no digits;
gradients of centers and coefficients are sums over rows, in parts that are added in a fixed order.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from representer.ops.gpu import ceil_div
from representer.ops.kernel_activation import Operands, Results
from representer.ops.steps import accumulator

_ROWS, _FEATURES = 16, 128  # of a program, for values
_OWN_FEATURES, _CENTERS = 32, 64  # of a program, for gradients of centers
_PARTS = 264  # programs that such a gradient is worth, at least


@triton.jit
def green(u, WEIGHT: tl.constexpr, GREEN: tl.constexpr):
    """Return g(u); ``WEIGHT`` is -1 / (2 s^2) of the Gaussian."""
    if GREEN == "abs":
        u = tl.abs(u)
    elif GREEN == "relu":
        u = tl.maximum(u, 0.0)
    elif GREEN == "cubic":
        u = tl.abs(u) * u * u
    else:
        u = tl.exp(u * u * WEIGHT)
    return u


@triton.jit
def green_slope(u, WEIGHT: tl.constexpr, GREEN: tl.constexpr):
    """Return g'(u), 0 where g has a corner."""
    if GREEN == "abs":
        u = tl.where(u > 0, 1.0, tl.where(u < 0, -1.0, 0.0)).to(u.dtype)
    elif GREEN == "relu":
        u = tl.where(u > 0, 1.0, 0.0).to(u.dtype)
    elif GREEN == "cubic":
        u = 3 * tl.abs(u) * u
    else:
        u = (2 * WEIGHT) * u * tl.exp(u * u * WEIGHT)
    return u


@triton.jit(do_not_specialize=["rows"])
def _values(
    x, grad, centers, coefficients, out, rows, features, count, WEIGHT: tl.constexpr,
    GREEN: tl.constexpr, ROWS: tl.constexpr, FEATURES: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Write f, or with ``grad`` its gradient with respect to the input; centers are (K, F)."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    feature = tl.program_id(1) * FEATURES + tl.arange(0, FEATURES)
    at = row[:, None] * features + feature[None, :]
    is_there, is_feature = (row < rows)[:, None] & (feature < features)[None, :], feature < features
    a = tl.load(x + at, mask=is_there, other=0.0).to(ACC)
    total = tl.zeros((ROWS, FEATURES), ACC)
    for k in range(count):
        c = tl.load(centers + k * features + feature, mask=is_feature, other=0.0).to(ACC)
        chi = tl.load(coefficients + k * features + feature, mask=is_feature, other=0.0).to(ACC)
        u = a - c[None, :]
        if grad is None:
            total += chi[None, :] * green(u, WEIGHT, GREEN)
        else:
            total += chi[None, :] * green_slope(u, WEIGHT, GREEN)
    if grad is not None:
        total *= tl.load(grad + at, mask=is_there, other=0.0).to(ACC)
    tl.store(out + at, total, mask=is_there)


@triton.jit(do_not_specialize=["rows"])
def _sums_over_rows(
    x, grad, centers, d_centers, d_coefficients, rows, each, features, count,
    WEIGHT: tl.constexpr, GREEN: tl.constexpr, FEATURES: tl.constexpr, CENTERS: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """Write sum_n grad g'(a - c) and sum_n grad g(a - c) of some rows, for (part, F, K)."""
    part = tl.program_id(0)
    feature = tl.program_id(1) * FEATURES + tl.arange(0, FEATURES)
    k = tl.program_id(2) * CENTERS + tl.arange(0, CENTERS)
    is_feature = feature < features
    is_there = is_feature[:, None] & (k < count)[None, :]
    at = feature[:, None] * count + k[None, :]
    c = tl.load(centers + at, mask=is_there, other=0.0).to(ACC)
    values, slopes = tl.zeros((FEATURES, CENTERS), ACC), tl.zeros((FEATURES, CENTERS), ACC)
    for row in range(part * each, tl.minimum((part + 1) * each, rows)):
        from_row = tl.cast(row, tl.int64) * features + feature
        a = tl.load(x + from_row, mask=is_feature, other=0.0).to(ACC)
        g = tl.load(grad + from_row, mask=is_feature, other=0.0).to(ACC)
        u = a[:, None] - c
        values += g[:, None] * green(u, WEIGHT, GREEN)
        slopes += g[:, None] * green_slope(u, WEIGHT, GREEN)
    to = part.to(tl.int64) * features * count + at
    tl.store(d_centers + to, slopes, mask=is_there)
    tl.store(d_coefficients + to, values, mask=is_there)


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    _launch_values(p, None, new.output)
    return new


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    upstream = grad.output.contiguous()
    d_centers, d_coefficients = table_gradients(upstream, *p)
    d_input = input_gradient(upstream, *p)
    return {"input": d_input, "centers": d_centers, "coefficients": d_coefficients}


def input_gradient(grad: Tensor, *call: Any) -> Tensor:
    """Return the gradient of the input; ``call`` are the fields of ``Operands``."""
    p = Operands(*call)
    d_input = p.input.new_empty(p.input.shape)
    _launch_values(p, grad, d_input)
    return d_input


def table_gradients(grad: Tensor, *call: Any) -> tuple[Tensor, Tensor]:
    """Return the gradients of centers and coefficients; ``call`` are the fields of ``Operands``."""
    p = Operands(*call)
    (rows, features), count = p.input.shape, p.centers.shape[1]
    wide, options = accumulator(p.input.dtype)
    tiles = ceil_div(features, _OWN_FEATURES), ceil_div(count, _CENTERS)
    parts = max(1, min(ceil_div(_PARTS, max(1, tiles[0] * tiles[1])), rows // 64))
    slopes, values = (p.input.new_empty(parts, features, count, dtype=wide) for _ in range(2))
    if features:
        _sums_over_rows[(parts, *tiles)](
            p.input.contiguous(), grad, p.centers.contiguous(), slopes, values, rows,
            ceil_div(rows, parts), features, count, WEIGHT=weight_of(p.bandwidth),
            GREEN=p.green, FEATURES=_OWN_FEATURES, CENTERS=_CENTERS, **options,
        )  # fmt: skip
    d_centers = (-p.coefficients * slopes.sum(0)).to(p.centers.dtype)
    return d_centers, values.sum(0).to(p.centers.dtype)


def _launch_values(p: Operands, grad: Tensor | None, out: Tensor) -> None:
    rows, features = p.input.shape
    if p.input.numel():
        grid = ceil_div(rows, _ROWS), ceil_div(features, _FEATURES)
        _values[grid](
            p.input.contiguous(), grad, p.centers.mT.contiguous(), p.coefficients.mT.contiguous(),
            out, rows, features, p.centers.shape[1], WEIGHT=weight_of(p.bandwidth), GREEN=p.green,
            ROWS=_ROWS, FEATURES=_FEATURES, **accumulator(p.input.dtype)[1],
        )  # fmt: skip


def weight_of(bandwidth: float) -> float:
    """Return the factor of u^2 in the exponent of the Gaussian."""
    return -0.5 / bandwidth**2
